import pickle

import numpy as np
import pytest

from stmg.config import Augment, Data, Motion
from stmg.data.clips import UNLABELLED, Clips, numbers
from stmg.data.dataset import DataError, Dataset
from stmg.data.streets import RenderedVideo, open_streets

SIZE = (64, 96)
AUGMENT = Augment(crop=(48, 64), noise=0.02)


def streets(every_label=False, rate=15.0):
    return (RenderedVideo(3, 12, SIZE, every_label, rate), RenderedVideo(4, 12, SIZE, every_label, rate))


def clips(length=1, videos=None, aligned=False, seed=0, **settings):
    data = open_streets("street:0-0")
    dataset = Dataset("streets", data.class_names, data.palette, {"train": streets() if videos is None else videos})
    settings = {"size": SIZE, "stored": 1.0, "length": length, **settings}
    return Clips(dataset, "train", Data(**settings), AUGMENT, Motion(), seed, aligned)


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_clip_follows_from_seed_and_number_alone():
    one, two = clips(), clips()
    for number in (7, 3):
        two[number]
    assert same(one[5], two[5])
    assert same(one[5], one[5])
    assert not same(one[5], clips(seed=1)[5])
    assert not same(one[0], one[len(one)])  # the next epoch looks at it anew


def test_an_epoch_is_every_labelled_frame_once():
    made = clips()
    assert len(made) == 6  # frames 0, 5 and 10 of two streets
    seen = []
    made._frame = lambda video, place: (  # what is asked for, in order
        seen.append((made.videos[video].seed, place)),
        (np.zeros((*SIZE, 3), np.uint8), np.zeros(SIZE, np.uint8)),
    )[1]
    for number in range(len(made)):
        made[number]
    assert sorted(seen) == [(seed, place) for seed in (3, 4) for place in (0, 5, 10)]


@pytest.mark.parametrize("rate", [15.0, None])
def test_real_pairs_where_there_are_any_and_clips_from_stills_elsewhere(rate):
    clip = clips(3, streets(rate=rate), aligned=True)[1]
    assert clip.images.shape == (3, 48, 64, 3)
    assert clip.labels.shape == (3, 48, 64)
    assert clip.fields.shape[0] == 2
    assert clip.fields.shape[-1] == 2
    assert not np.array_equal(clip.images[0], clip.images[1])


def test_no_motion_is_looked_for_unless_asked():
    assert not clips(2)[0].fields.any()


def test_class_shares_add_up():
    shares = clips().shares(11)
    assert shares.sum() == pytest.approx(1)
    assert shares[3] > 0.1  # road


def test_frames_are_kept_in_memory_or_read_again():
    kept, read = clips(), clips(memory=0)
    assert same(kept[2], read[2])
    assert kept._kept
    assert not read._kept


def test_ranks_share_a_step_between_them():
    alone = list(numbers(2, 4, 4))
    ranks = [list(numbers(2, 4, 4, rank, 2)) for rank in (0, 1)]
    assert alone == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert [a + b for a, b in zip(*ranks, strict=True)] == alone


def test_nothing_to_train_on_is_said():
    with pytest.raises(DataError, match="no labelled frame"):
        clips(videos=())


def test_streets_are_named_by_their_seeds():
    data = open_streets("street:5-6")
    assert [video.name for video in data.videos("train")] == ["street 5", "street 6"]
    assert not {video.seed for video in data.videos("val")} & {5, 6}
    with pytest.raises(DataError, match="street:0-99"):
        open_streets("street:9-2")


class Standing:
    """A video in which nothing ever changes."""

    name, rate, labelled = "standing", 15.0, (5,)

    def __len__(self):
        return 6

    def image(self, place, size=None):
        return np.random.default_rng(0).integers(0, 255, (*SIZE, 3)).astype(np.uint8)

    def truth(self, place, size=None):
        return np.zeros(SIZE, np.uint8) if place == 5 else None


def test_all_frames_of_a_clip_are_changed_alike():
    made = clips(4, (Standing(),))
    made.augment = Augment(crop=(48, 64), noise=0)
    looks = [made[number].images for number in range(6)]
    assert all((frames == frames[0]).all() for frames in looks)
    assert not np.array_equal(looks[0][0], looks[1][0])


def test_frames_without_labels_are_told_from_what_lies_outside():
    made = clips(2, (Standing(),))
    made.augment = Augment(crop=(48, 64), scale=(0.5, 0.5))
    labels = made[0].labels
    assert set(np.unique(labels[0])) == {UNLABELLED, 255}
    assert set(np.unique(labels[1])) == {0, 255}


def test_videos_without_labels_are_half_of_an_epoch_at_most():
    data = open_streets("street:0-0")
    dataset = Dataset("one", data.class_names, data.palette, {"train": (Standing(),)})
    other = RenderedVideo(3, 40, SIZE, every_label=True)
    made = Clips(dataset, "train", Data(size=SIZE, stored=1.0, length=2), AUGMENT, Motion(), 0, False, (other,))
    assert len(made) == 2
    assert len(made.unknown) == 39
    assert {made[number].images.shape for number in range(4)} == {(2, 48, 64, 3)}


def test_clips_can_be_sent_to_a_loaders_process():
    made = clips(2, aligned=True)
    first = made[0]
    assert same(pickle.loads(pickle.dumps(made))[0], first)
