import numpy as np
import pytest
from PIL import Image

from stmg.data.catalogue import open_dataset
from stmg.data.cityscapes import CLASSES, open_cityscapes
from stmg.errors import DataError

SIZE = (16, 32)


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


@pytest.fixture
def tree(tmp_path):
    for frame in range(30):
        name = f"aachen_000001_{frame:06d}_leftImg8bit.png"
        write(tmp_path / "leftImg8bit_sequence/train/aachen" / name, np.full((*SIZE, 3), frame, np.uint8))
    for frame in (600, 601, 630):  # a snippet, and another that comes later
        name = f"jena_000000_{frame:06d}_leftImg8bit.png"
        write(tmp_path / "leftImg8bit_sequence/val/jena" / name, np.zeros((*SIZE, 3), np.uint8))
    for frame in (600, 630):
        write(tmp_path / f"gtFine/val/jena/jena_000000_{frame:06d}_gtFine_labelIds.png", np.full(SIZE, 33, np.uint8))
    labels = np.zeros(SIZE, np.uint8)
    labels[8:] = 7
    write(tmp_path / "gtFine/train/aachen/aachen_000001_000019_gtFine_labelIds.png", labels)
    return tmp_path


def test_snippets_with_the_twentieth_frame_labeled(tree):
    data = open_dataset(tree)
    assert (data.name, data.num_classes, len(data.palette)) == ("Cityscapes", 19, 19)
    (video,) = data.videos("train")
    assert (len(video), list(video.labeled), video.rate) == (30, [19], 17.0)
    assert video.image(7)[0, 0, 0] == 7
    assert video.truth(18) is None
    assert set(np.unique(video.truth(19))) == {0, 255}  # road, and what has no class


def test_snippets_of_one_recording_are_videos_of_their_own(tree):
    assert [len(video) for video in open_cityscapes(tree).videos("val")] == [2, 1]
    assert open_cityscapes(tree).videos("val")[0].truth(0)[0, 0] == 18  # bicycle


def test_snippets_that_follow_each_other_end_ten_frames_after_their_label(tmp_path):
    for frame in range(60):
        name = f"bochum_000000_{frame:06d}"
        write(tmp_path / f"leftImg8bit_sequence/val/bochum/{name}_leftImg8bit.png", np.zeros((*SIZE, 3), np.uint8))
        if frame in (19, 49):
            write(tmp_path / f"gtFine/val/bochum/{name}_gtFine_labelIds.png", np.zeros(SIZE, np.uint8))
    assert [(len(v), list(v.labeled)) for v in open_cityscapes(tmp_path).videos("val")] == [(30, [19]), (30, [19])]


def test_stills_are_no_video(tree):
    for frame in (19, 60):
        name = f"ulm_000001_{frame:06d}"
        write(tree / f"leftImg8bit/test/ulm/{name}_leftImg8bit.png", np.zeros((*SIZE, 3), np.uint8))
    assert [(len(video), video.rate) for video in open_dataset(tree).videos("test")] == [(1, None), (1, None)]
    assert len(open_dataset(tree).videos("train")) == 1  # its sequences are there


def test_the_classes_are_the_usual_ones():
    assert [name for name, _, _ in CLASSES][:3] == ["road", "sidewalk", "building"]
    assert len({value for _, value, _ in CLASSES}) == len({color for _, _, color in CLASSES}) == 19


def test_wrong_names_and_missing_folders_are_reported(tree, tmp_path):
    with pytest.raises(DataError, match="is not Cityscapes"):
        open_cityscapes(tmp_path / "gtFine")
    write(tree / "leftImg8bit_sequence/train/aachen/x_leftImg8bit.png", np.zeros((*SIZE, 3), np.uint8))
    with pytest.raises(DataError, match="names look like aachen_000000_000019"):
        open_cityscapes(tree)
