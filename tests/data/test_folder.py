import av
import numpy as np
import pytest
from PIL import Image

from stmg.data.catalogue import open_dataset
from stmg.data.clips import UNLABELED
from stmg.data.folder import open_folder
from stmg.errors import DataError

SIZE = (48, 64)


def write(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)


def film(path, num_frames=8):
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=10)
        stream.height, stream.width = SIZE
        stream.pix_fmt = "yuv420p"
        for number in range(num_frames):
            image = np.full((*SIZE, 3), 20 * number + 20, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image)))
        container.mux(stream.encode())


@pytest.fixture
def own(tmp_path):
    for number in (2, 10, 1):
        write(tmp_path / f"images/{number}.jpg", np.full((*SIZE, 3), number, np.uint8))
    write(tmp_path / "labels/2.png", np.ones(SIZE, np.uint8))
    write(tmp_path / "film_labels/000004.png", np.full(SIZE, 9, np.uint8))
    film(tmp_path / "film.mp4")
    (tmp_path / "dataset.yaml").write_text(
        "classes: [road, {name: car, color: [1, 2, 3]}]\n"
        "ignore: 9\n"
        "train: [{frames: images, labels: labels}]\n"
        "val: [{frames: film.mp4, labels: film_labels}]\n"
    )
    return tmp_path


def test_images_and_videos_with_labels_on_some_frames(own):
    data = open_dataset(own)
    assert (data.name, data.class_names) == (own.name, ("road", "car"))
    assert tuple(data.palette[1]) == (1, 2, 3)
    (images,) = data.videos("train")
    assert (len(images), list(images.labeled), images.rate) == (3, [1], None)  # 1, 2, 10 in order
    assert images.truth(1)[0, 0] == 1
    (video,) = data.videos("val")
    assert (len(video), list(video.labeled), video.rate) == (8, [4], 10)
    assert abs(int(video.image(4).mean()) - 100) < 8
    assert video.image(4, (24, 32)).shape == (24, 32, 3)
    assert (video.truth(4) == 255).all()


def test_videos_without_labels(own):
    (own / "dataset.yaml").unlink()
    for path in (own, own / "film.mp4"):
        data = open_dataset(path)
        assert (data.class_names, [len(video) for video in data.videos("all")]) == ((), [8])
        assert data.videos("all")[0].truth(0) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train: [images]", "needs a list of classes"),
        ("classes: [road]\ntrain: [images]", "names 1 classes"),
        ("classes: [road, car]", "names no videos"),
        ("classes: [road, car]\ntrain: [pictures]", "neither a folder of images nor a video"),
        ("classes: [road, car]\ntrain: [{frames: images, labels: nowhere}]", "is not a folder of label files"),
        ("classes: [road, car]\ntrain: [{frames: images, labels: film_labels}]", "no image in .* has a label file"),
        ("classes: [road, car]\ntrain: [{frames: film.mp4, labels: images}]", "no frame number"),
        ("classes: [road, car]\ntrain: [{frame: images}]", "no setting train.frame; there are frames, labels, rate"),
        ("classes: [road, car]\ntrain: [{rate: 3}]", "train.frames is missing"),
        ("classes: [road, car]\ntrain: [images]\nignore: 300", "0 to 255; got 300"),
        ("classes: [road, car", "is not YAML"),
        ("classes: [road, {name: car, color: [0, 0, 300]}]\ntrain: [images]", "three values from 0 to 255"),
        ("classes: [road, car]\ntrain: [{frames: images, rate: -1}]", "rate is above 0"),
        ("classes: [road, car]\ntrain: [../images]", r"dataset.yaml: train: '../images' is no name inside the folder"),
        ("classes: [road, car]\nval: [{frames: images, labels: /etc}]", "val: '/etc' is no name inside the folder"),
    ],
)
def test_mistakes_in_the_description_are_named(own, text, message):
    (own / "dataset.yaml").write_text(text)
    with pytest.raises(DataError, match=message):
        open_folder(own)


def test_no_class_has_the_id_of_frames_without_labels(own):
    for number in (UNLABELED, UNLABELED + 1):
        names = ", ".join(f"class {index}" for index in range(number))
        (own / "dataset.yaml").write_text(f"classes: [{names}]\ntrain: [images]")
        if number == UNLABELED:
            assert open_folder(own).num_classes == 254
            continue
        with pytest.raises(DataError, match="names 255 classes; a dataset has 2 to 254"):
            open_folder(own)


def test_labels_of_another_size_than_their_video(own):
    write(own / "film_labels/000004.png", np.zeros((6, 8), np.uint8))
    with pytest.raises(DataError, match=r"000004.png is 6x8, .*film.mp4 48x64"):
        open_folder(own).videos("val")[0].truth(4)


def test_nothing_there(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        open_dataset(tmp_path / "none")
    with pytest.raises(DataError, match=r"not CamVid or Cityscapes and holds no videos; write a dataset.yaml"):
        open_dataset(tmp_path)
    with pytest.raises(DataError, match="no data is given"):
        open_dataset("")


def test_labels_beyond_the_end_of_their_video(own):
    write(own / "film_labels/000500.png", np.zeros(SIZE, np.uint8))
    with pytest.raises(DataError, match=r"000500.png is for frame 500; .*film.mp4 has 8 frames"):
        len(open_folder(own).videos("val")[0].labeled)


def test_every_frame_of_a_video_is_the_one_that_was_shown(own):
    (video,) = open_dataset(own).videos("val")
    for index in (7, 0, 3, 2, 6):
        assert abs(int(video.image(index).mean()) - (20 * index + 20)) < 8
