"""Pairs of frames to learn from: found in clips, stored in files."""

import errno

import numpy as np
import pytest

from stmg.runtimes.callable import CallableRuntime
from stmg.streaming.motion import DisMotion
from stmg.training.pairs import Pair, PairStore, find_flow
from stmg.training.unlabeled import UnlabeledClips
from zoo import colors, panning, streets

SIZE = (96, 128)


def videos():
    return streets(20, SIZE).videos("val")[:1]


EXAMPLE = Pair(*(np.zeros((8, 8, 3), np.uint8),) * 2, *(np.zeros((2, 2, 2), np.float32),) * 2)


def test_fewer_pairs_than_a_batch_are_sampled_again(tmp_path):
    store = PairStore(tmp_path, 3, EXAMPLE)
    for number in range(5):
        store.put(number, EXAMPLE)
    assert len(store.sample(5, 4, np.random.default_rng(0))[0]) == 4


def test_a_disk_without_room_for_all_pairs_is_reported_before_any_is_written(tmp_path, monkeypatch):
    files = []

    def full(file, *extent):
        files.append(file)
        if len(files) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("stmg.training.pairs.os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        PairStore(tmp_path, 3, EXAMPLE)
    assert not list(tmp_path.iterdir())


def test_the_disks_blocks_are_taken_when_a_store_is_made(tmp_path):
    PairStore(tmp_path, 64, EXAMPLE)
    for file in tmp_path.iterdir():
        assert 512 * file.stat().st_blocks >= file.stat().st_size


def test_flows_lead_both_ways_along_a_clip():
    clips = UnlabeledClips(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    pan = clips.follow(panning(4, SIZE, step=4))
    back, ahead = find_flow(pan, 3, 0), find_flow(pan, 0, 3)
    assert abs(np.median(back[..., 0]) + np.median(ahead[..., 0])) < 0.01
    assert abs(np.median(back[..., 0])) > 0.05
    assert find_flow(pan, 2, 2) is None
