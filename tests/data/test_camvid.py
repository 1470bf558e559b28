import numpy as np
import pytest
from PIL import Image

from stmg.data.camvid import ORIGINAL_COLORS, open_camvid
from stmg.errors import DataError

SIZE = (12, 16)


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def picture(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (*SIZE, 3)).astype(np.uint8)


@pytest.fixture
def segnet(tmp_path):
    numbers = np.arange(SIZE[0] * SIZE[1], dtype=np.uint8).reshape(SIZE) % 12  # 0 to 10, and 11 for void
    for split, names in {
        "train": ("0001TP_006690", "0001TP_006720", "0006R0_f00930"),
        "val": ("0016E5_07959", "0016E5_07961"),
    }.items():
        for name in names:
            write(tmp_path / split / f"{name}.png", picture())
            write(tmp_path / f"{split}annot" / f"{name}.png", numbers)
    return tmp_path


def test_segnets_layout(segnet):
    data = open_camvid(segnet)
    assert {split: [(v.name, len(v.frames), v.rate) for v in videos] for split, videos in data.splits.items()} == {
        "train": [("0001TP_6690", 2, 1.0), ("0006R0_930", 1, None)],
        "val": [("0016E5_7959", 2, 15.0)],
    }
    video, index = next(data.labeled("val"))
    truth = video.truth(index)
    assert np.array_equal(truth == 255, np.arange(truth.size).reshape(SIZE) % 12 == 11)
    assert set(np.unique(truth)) == {*range(11), 255}
    assert video.image(index, (6, 8)).shape == (6, 8, 3)
    assert video.truth(index, (6, 8)).shape == (6, 8)


def test_the_original_layout_with_its_colors(tmp_path):
    names = ("0016E5_07959", "0016E5_07960", "Seq05VD_f00000", "0001TP_008550", "0001TP_006690")
    labels = np.zeros((*SIZE, 3), np.uint8)  # black is void
    labels[:4] = ORIGINAL_COLORS["Car"][2]
    labels[4:8] = ORIGINAL_COLORS["Sky"][0]
    for name in names:
        write(tmp_path / "701_StillsRaw_full" / f"{name}.png", picture())
        write(tmp_path / "LabeledApproved_full" / f"{name}_L.png", labels)
    data = open_camvid(tmp_path)
    counted = {split: sum(len(video.frames) for video in videos) for split, videos in data.splits.items()}
    assert counted == {"train": 2, "val": 1, "test": 2}
    video, index = next(data.labeled("val"))
    truth = video.truth(index)
    assert [truth[0, 0], truth[5, 0], truth[9, 0]] == [8, 0, 255]


def test_a_drive_is_cut_where_frame_numbers_jump(tmp_path):
    for number in (30, 60, 90, 4350, 4380):
        write(tmp_path / "train" / f"0016E5_{number:05d}.jpg", picture())
        write(tmp_path / "trainannot" / f"0016E5_{number:05d}.png", np.zeros(SIZE, np.uint8))
    assert [len(video.frames) for video in open_camvid(tmp_path).videos("train")] == [3, 2]


def test_missing_labels_wrong_sizes_and_wrong_classes_name_the_file(segnet):
    labels = segnet / "valannot" / "0016E5_07959.png"
    data = open_camvid(segnet)
    video, index = next(data.labeled("val"))
    write(labels, np.full(SIZE, 12, np.uint8))
    with pytest.raises(DataError, match=r"0016E5_07959.png holds class 12; there are 11 classes, 0 to 10"):
        video.truth(index)
    write(labels, np.zeros((6, 8), np.uint8))
    with pytest.raises(DataError, match=r"0016E5_07959.png is 6x8, its image 0016E5_07959.png 12x16"):
        video.truth(index)
    write(labels, picture())
    with pytest.raises(DataError, match="3 channels"):
        video.truth(index)
    labels.write_bytes(b"no picture")
    with pytest.raises(DataError, match="cannot be read as labels"):
        video.truth(index)
    labels.unlink()
    with pytest.raises(DataError, match=r"has no labels: .*0016E5_07959.png does not exist"):
        open_camvid(segnet)


def test_another_folder_and_another_split_are_refused(segnet, tmp_path):
    with pytest.raises(DataError, match="is not CamVid"):
        open_camvid(tmp_path / "train")
    with pytest.raises(DataError, match="no split 'test'; there are train, val"):
        open_camvid(segnet).videos("test")
