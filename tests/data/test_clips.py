import pickle

import numpy as np
import pytest

from stmg.data.augment import Augment
from stmg.data.clips import UNLABELED, Data, TrainingClips, clip_numbers
from stmg.data.dataset import Dataset
from stmg.data.stills import SimulatedMotion
from stmg.data.synthetic.scene import RenderedVideo, open_streets
from stmg.errors import DataError

SIZE = (64, 96)
AUGMENT = Augment(crop=(48, 64), noise=0.02)


def streets(every_label=False, rate=15.0):
    return (RenderedVideo(3, 12, SIZE, every_label, rate), RenderedVideo(4, 12, SIZE, every_label, rate))


def clips(length=1, videos=None, aligned=False, seed=0, **settings):
    data = open_streets("street:0-0")
    dataset = Dataset("streets", data.class_names, data.palette, {"train": streets() if videos is None else videos})
    settings = {"size": SIZE, "storage_scale": 1.0, "length": length, **settings}
    return TrainingClips(dataset, "train", Data(**settings), AUGMENT, SimulatedMotion(), seed, aligned)


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


def test_an_epoch_is_every_labeled_frame_once():
    series = clips()
    assert len(series) == 6  # frames 0, 5 and 10 of two streets
    seen = []
    series._read = lambda frame: (  # what is read, in order
        seen.append((series.videos[frame.video].seed, frame.position)),
        (np.zeros((*SIZE, 3), np.uint8), np.zeros(SIZE, np.uint8)),
    )[1]
    for number in range(len(series)):
        series[number]
    assert sorted(seen) == [(seed, index) for seed in (3, 4) for index in (0, 5, 10)]


@pytest.mark.parametrize("rate", [15.0, None])
def test_real_pairs_where_there_are_any_and_clips_from_stills_elsewhere(rate):
    clip = clips(3, streets(rate=rate), aligned=True)[1]
    assert clip.images.shape == (3, 48, 64, 3)
    assert clip.labels.shape == (3, 48, 64)
    assert clip.flows.shape[0] == 2
    assert clip.flows.shape[-1] == 2
    assert not np.array_equal(clip.images[0], clip.images[1])


def test_no_flow_is_estimated_unless_frames_are_aligned():
    assert not clips(2)[0].flows.any()


def test_class_shares_add_up():
    shares = clips().class_shares(11)
    assert shares.sum() == pytest.approx(1)
    assert shares[3] > 0.1  # road


def test_frames_are_cached_or_read_again():
    cached, read = clips(), clips(cache_gb=0)
    assert same(cached[2], read[2])
    assert cached._cache
    assert not read._cache


def test_ranks_share_a_step_between_them():
    alone = list(clip_numbers(2, 4, 4))
    ranks = [list(clip_numbers(2, 4, 4, rank, 2)) for rank in (0, 1)]
    assert alone == [[8, 9, 10, 11], [12, 13, 14, 15]]
    assert [a + b for a, b in zip(*ranks, strict=True)] == alone


def test_nothing_to_train_on_is_reported():
    with pytest.raises(DataError, match="no labeled frame"):
        clips(videos=())


class Standing:
    """A video in which nothing ever changes."""

    name, rate, labeled = "standing", 15.0, (5,)

    def __len__(self):
        return 6

    def image(self, index, size=None):
        return np.random.default_rng(0).integers(0, 255, (*SIZE, 3)).astype(np.uint8)

    def truth(self, index, size=None):
        return np.zeros(SIZE, np.uint8) if index == 5 else None


def test_all_frames_of_a_clip_are_changed_alike():
    series = clips(4, (Standing(),))
    series.augment = Augment(crop=(48, 64), noise=0)
    looks = [series[number].images for number in range(6)]
    assert all((frames == frames[0]).all() for frames in looks)
    assert not np.array_equal(looks[0][0], looks[1][0])


def test_frames_without_labels_differ_from_what_lies_outside():
    series = clips(2, (Standing(),))
    series.augment = Augment(crop=(48, 64), scale=(0.5, 0.5))
    labels = series[0].labels
    assert set(np.unique(labels[0])) == {UNLABELED, 255}
    assert set(np.unique(labels[1])) == {0, 255}


def test_videos_without_labels_are_half_of_an_epoch_at_most():
    data = open_streets("street:0-0")
    dataset = Dataset("one", data.class_names, data.palette, {"train": (Standing(),)})
    other = RenderedVideo(3, 40, SIZE, every_label=True)
    series = TrainingClips(
        dataset, "train", Data(size=SIZE, storage_scale=1.0, length=2), AUGMENT, SimulatedMotion(), 0, False, (other,)
    )
    assert len(series) == 2
    assert len(series.unlabeled_frames) == 39
    assert {series[number].images.shape for number in range(4)} == {(2, 48, 64, 3)}


def test_clips_can_be_sent_to_a_loaders_process():
    series = clips(2, aligned=True)
    first = series[0]
    assert same(pickle.loads(pickle.dumps(series))[0], first)
