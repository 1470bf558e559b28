"""adapt: how a corrector is trained on videos without labels."""

import errno
import shutil
import threading
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import cv2
import numpy as np
import pytest
import torch

from stmg.errors import DataError, SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.motion import DisMotion
from stmg.training.adapt.clips import ClipSource
from stmg.training.adapt.learning import vary_colors
from stmg.training.adapt.model import list_videos
from stmg.training.adapt.pairs import Pair, PairStore, find_flow
from stmg.training.adapt.settings import AdaptSettings
from stmg.training.adapt.train import train_corrector
from zoo import colors, panning, streets

SIZE = (96, 128)


CPU = torch.device("cpu")


EXAMPLE = Pair(*(np.zeros((8, 8, 3), np.uint8),) * 2, *(np.zeros((2, 2, 2), np.float32),) * 2)


FEW = AdaptSettings(steps=6, pairs=16, batch=4, checks=2, longest=4)


def videos():
    return streets(20, SIZE).videos("val")[:1]


def by_darkness(image):
    """Two classes, by the brightness of a cell."""
    small = cv2.resize(image, (SIZE[1] // 8, SIZE[0] // 8), interpolation=cv2.INTER_AREA).mean(2) / 20 - 6
    return np.stack([small, -small]).astype(np.float32)


def segmenter():
    return VideoSegmenter(by_darkness, motion="dis")


def run(folder, settings=FEW, on_progress=lambda progress: None):
    return train_corrector(segmenter(), videos(), folder, SIZE, settings, CPU, on_progress)


def weights(adapted):
    return torch.cat([value.flatten().float() for value in adapted.module.state_dict().values()])


def test_the_same_seed_gives_the_same_corrector(tmp_path):
    one, two = (run(tmp_path / name) for name in ("one", "two"))
    assert torch.equal(weights(one), weights(two))
    assert one.steps == 6
    assert one.check.clips == 2


def test_an_interrupted_run_goes_on_and_ends_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.train.SAVE_EVERY", 2)
    whole = run(tmp_path / "whole")

    def interrupt(progress):
        if progress.what == "training":
            raise KeyboardInterrupt

    monkeypatch.setattr("stmg.training.adapt.train.REPORT_EVERY", 4)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "part", on_progress=interrupt)
    assert torch.equal(weights(run(tmp_path / "part")), weights(whole))


def test_a_folder_of_other_settings_or_videos_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.train.SAVE_EVERY", 2)
    run(tmp_path)
    with pytest.raises(SettingsError, match="is of other settings"):
        run(tmp_path, AdaptSettings(steps=7, pairs=16, batch=4))
    others = streets(20, SIZE).videos("val")[1:2]
    with pytest.raises(SettingsError, match="is of other settings, videos or another model"):
        train_corrector(segmenter(), others, tmp_path, SIZE, FEW, CPU)
    shutil.rmtree(tmp_path / "pairs")
    with pytest.raises(SettingsError, match="is gone"):
        run(tmp_path)


def test_the_number_of_pairs_may_follow_from_the_time_and_an_interrupted_run_goes_on_with_them(tmp_path, monkeypatch):
    timed = replace(FEW, pairs=None, minutes=0.05)

    interrupted = threading.Event()

    def interrupt(progress):
        if progress.what == "watching" and progress.total:
            interrupted.set()

    with monkeypatch.context() as patch:
        patch.setattr("stmg.training.adapt.train.defer_interrupt", lambda: nullcontext(interrupted))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, timed, interrupt)
    store = np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")
    before = store[0].copy()
    assert before.any()
    run(tmp_path, timed)
    assert np.array_equal(np.load(tmp_path / "pairs" / "image.npy", mmap_mode="r")[0], before)


def test_of_videos_too_short_to_hold_out_their_end_the_last_ones_are_held_out():
    short = list(streets(4, SIZE).videos("val")) * 2
    source = ClipSource(short, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in source.held_out] == [4] * max(1, round(0.2 * len(short)))
    assert len(source.learned) + len(source.held_out) == len(short)
    assert source.get_held_out(0) is not None


def test_a_video_too_short_to_check_on_is_refused_before_anything_is_learned(tmp_path):
    (short,) = streets(6, SIZE).videos("val")[:1]
    with pytest.raises(DataError, match="nothing is left to check a corrector on: give a longer video, or several"):
        train_corrector(segmenter(), [short], tmp_path, SIZE, FEW, CPU)


def test_fewer_pairs_than_a_batch_are_drawn_again(tmp_path):
    store = PairStore(tmp_path, 3, EXAMPLE)
    for number in range(5):
        store.put(number, EXAMPLE)
    assert len(store.draw(5, 4, np.random.default_rng(0))[0]) == 4


def test_a_disk_without_room_for_all_pairs_is_said_before_any_is_written(tmp_path, monkeypatch):
    files = []

    def full(file, *extent):
        files.append(file)
        if len(files) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("stmg.training.adapt.pairs.os.posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        PairStore(tmp_path, 3, EXAMPLE)
    assert not list(tmp_path.iterdir())


def test_the_disks_blocks_are_taken_when_a_store_is_made(tmp_path):
    PairStore(tmp_path, 64, EXAMPLE)
    for file in tmp_path.iterdir():
        assert 512 * file.stat().st_blocks >= file.stat().st_size


def test_a_number_of_pairs_leaves_the_steps_to_the_time(tmp_path):
    adapted = run(tmp_path, AdaptSettings(pairs=20, batch=4, longest=4, checks=2, minutes=0.001))
    assert adapted.steps == 50


def test_no_more_pairs_are_watched_and_reported_than_can_be_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("stmg.training.adapt.pairs.MOST_PAIRS", 16)
    watched = []
    adapted = run(tmp_path, replace(FEW, pairs=1000), watched.append)
    assert adapted.pairs == 16
    assert [(each.done, each.total) for each in watched if each.what == "watching"] == [(10, 16), (20, 16)]


def test_of_many_videos_some_are_held_out_whole():
    many = list(streets(30, SIZE).videos("val")) * 5
    source = ClipSource(many, CallableRuntime(by_darkness), DisMotion(), SIZE, 3, 0.0, 0)
    assert [len(part.frames) for part in source.learned] == [30] * 8
    assert [len(part.frames) for part in source.held_out] == [30] * 2


def test_it_learns_to_mend_what_motion_leaves(tmp_path):
    adapted = train_corrector(
        VideoSegmenter(by_darkness, motion="none"),
        videos(),
        tmp_path,
        SIZE,
        AdaptSettings(steps=150, pairs=100, batch=8, longest=6, checks=6),
        CPU,
    )
    assert adapted.check.helps
    assert adapted.check.carried.corrected < 0.8 * adapted.check.carried.uncorrected
    assert adapted.check.between.corrected < adapted.check.between.uncorrected


def test_clips_are_the_same_each_time_and_held_out_ones_are_later():
    source = ClipSource(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.5, seed=1)
    one, two = source.get(3), source.get(3)
    assert all(np.array_equal(a, b) for a, b in zip(one.images, two.images, strict=True))
    held = source.get_held_out(0)
    last = [videos()[0].image(index, SIZE) for index in range(16, 20)]
    assert held is not None
    assert all(any(np.array_equal(image, other) for other in last) for image in held.images)


def test_images_of_a_folder_are_set_in_motion(tmp_path):
    for index, image in enumerate(panning(5, SIZE)):
        cv2.imwrite(str(tmp_path / f"{index}.png"), image)
    (video,) = list_videos([tmp_path])
    source = ClipSource([video], CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    for clip_of_it in (source.get(0), source.get_held_out(0)):
        assert len(clip_of_it.images) == 4
        assert not np.array_equal(clip_of_it.images[0], clip_of_it.images[3])


def test_frames_between_two_computed_ones_have_the_flows_of_offline_mode():
    clip = ClipSource(videos(), CallableRuntime(by_darkness), DisMotion(), SIZE, 6, 0.0, 0).get(0)
    offline = clip.for_offline()
    expected = [DisMotion().for_offline().estimate(*pair) for pair in pairwise(clip.views)]
    assert all(np.array_equal(one, two) for one, two in zip(offline.flows, expected, strict=True))
    assert not np.array_equal(offline.flows[0], clip.flows[0])


def test_flows_lead_both_ways_along_a_clip():
    source = ClipSource(videos(), CallableRuntime(colors), DisMotion(), SIZE, 3, 0.0, seed=1)
    pan = source._follow(panning(4, SIZE, step=4))
    back, ahead = find_flow(pan, 3, 0), find_flow(pan, 0, 3)
    assert abs(np.median(back[..., 0]) + np.median(ahead[..., 0])) < 0.01
    assert abs(np.median(back[..., 0])) > 0.05
    assert find_flow(pan, 2, 2) is None


def test_colors_of_both_images_of_a_pair_change_alike_and_those_of_other_pairs_otherwise():
    images = torch.full((8, 2, 2, 3), 100, dtype=torch.uint8)
    one, two = vary_colors(images, images, np.random.default_rng(0))
    assert torch.equal(one, two)
    assert len({float(value) for value in one.mean((1, 2, 3))}) == 8
    assert (one.std((1, 2)) == 0).all()  # a plain image stays plain
    assert 0 < float((one - 100).abs().max()) <= 128 * 0.33 + 20


def test_changed_colors_stay_within_bytes():
    black, white = torch.zeros((16, 1, 1, 3), dtype=torch.uint8), torch.full((16, 1, 1, 3), 255, dtype=torch.uint8)
    dark, bright = vary_colors(black, white, np.random.default_rng(0))
    assert 0 <= float(dark.min()) < float(bright.max()) <= 255
