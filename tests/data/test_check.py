from dataclasses import dataclass, field

import numpy as np
import pytest

from stmg.data.check import TILE, check_dataset, contact_sheet
from stmg.data.dataset import Dataset
from stmg.errors import DataError
from stmg.video.labels import IGNORE


@dataclass
class Clip:
    """A video in memory, of which some frames cannot be read."""

    truths: dict = field(default_factory=dict)
    broken: tuple = ()
    length: int = 3
    name: str = "clip"
    rate: float | None = 15.0
    size: tuple = (4, 6)

    def __len__(self):
        return self.length

    @property
    def labeled(self):
        return list(self.truths)

    def image(self, index, size=None):
        if index in self.broken:
            raise DataError(f"{self.name} {index} cannot be read")
        return np.zeros((*(size or self.size), 3), np.uint8)

    def truth(self, index, size=None):
        truth = self.truths.get(index)
        return truth if truth is None or size is None else np.zeros(size, np.uint8)


def dataset(**splits):
    return Dataset("drives", ("road", "car"), np.array([[1, 2, 3], [4, 5, 6]], np.uint8), splits)


def test_shares_are_of_the_pixels_that_have_a_class():
    truth = np.array([[0, 0, 0, 1], [IGNORE, IGNORE, IGNORE, IGNORE]], np.uint8)
    result = check_dataset(dataset(train=(Clip({0: truth}), Clip(rate=None, size=(8, 8))), val=(Clip(),)))
    train, val = result.splits["train"], result.splits["val"]
    assert (train.num_videos, train.num_frames, train.num_labeled) == (2, 6, 1)
    assert train.class_shares == pytest.approx((0.75, 0.25))
    assert train.ignored_share == pytest.approx(0.5)
    assert set(train.rates) == {"15 Hz", "stills"}
    assert set(train.sizes) == {"4x6", "8x8"}
    assert (val.class_shares, val.ignored_share) == (None, None)
    assert result.problems == ()


def test_every_file_that_cannot_be_read_is_a_problem_and_the_rest_is_counted():
    truth = np.zeros((4, 6), np.uint8)
    clips = (Clip({0: truth, 1: truth, 2: truth}, broken=(1, 2)), Clip(broken=(0,), name="dead"))
    result = check_dataset(dataset(train=clips))
    assert result.problems == ("clip 1 cannot be read", "clip 2 cannot be read", "dead 0 cannot be read")
    assert result.splits["train"].num_labeled == 1


def test_the_report_counts_labeled_frames_of_each_split():
    seen = []
    truth = np.zeros((4, 6), np.uint8)
    data = dataset(train=(Clip({0: truth, 2: truth}),), val=(Clip({1: truth}),))
    check_dataset(data, lambda *step: seen.append(step))
    assert seen == [("train", 1, 2), ("train", 2, 2), ("val", 1, 1)]


def test_a_contact_sheet_shows_frames_above_labels_and_a_legend():
    truth = np.zeros((4, 6), np.uint8)
    sheet = contact_sheet(dataset(train=(Clip({0: truth, 1: truth}),)))
    assert sheet.shape == (2 * TILE[0] + 24, 2 * TILE[1], 3)
    unlabeled = contact_sheet(dataset(train=(Clip(),)))
    assert unlabeled.shape == (TILE[0] + 24, 3 * TILE[1], 3)
    assert contact_sheet(dataset(train=(Clip(broken=(0, 1, 2)),))) is None
