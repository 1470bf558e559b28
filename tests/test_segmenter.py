"""The segmenter: one stream from any source of frames, sharing weights but no state with others."""

import gc
import resource
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import stmg
from clips import clip, decoding_threads, wait_until_none_decodes
from stmg.errors import FrameError, ModelError, SettingsError, VideoError
from stmg.networks import build
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter, mode_of_source
from stmg.streaming.cost import Cost
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level
from stmg.streaming.settings import Settings
from stmg.video.frames import Frame
from stmg.video.sources import FrameSource, open_video
from zoo import colors, panning

SIZE = (96, 128)


def resident():
    """Bytes of memory in use now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def same(one, two):
    return one.level == two.level and np.array_equal(one.labels, two.labels)


@pytest.mark.parametrize("kind", ["plain", "trained_like", "black box"])
@pytest.mark.parametrize("scheduler", ["drift", "paper", "per-frame", FixedPeriod(3, Level.CARRY)])
def test_a_stream_equals_its_frames_one_by_one(request, kind, scheduler):
    network = colors if kind == "black box" else request.getfixturevalue(kind)
    frames = panning(8, SIZE)
    one, two = (VideoSegmenter(network, scheduler=scheduler) for _ in range(2))
    streamed = list(one.stream(frames))
    assert same(one.another().step(frames[0]), streamed[0])
    state = None
    for frame, expected in zip(frames, streamed, strict=True):
        result, state = two.online.advance(frame, state)
        assert same(result, expected)


def test_another_segmenter_starts_afresh(trained_like):
    frames = panning(3, SIZE)
    segmenter = VideoSegmenter(trained_like, scheduler="paper")
    first, *_ = segmenter.stream(frames)
    assert segmenter.state.number == 3
    assert same(segmenter.another().step(frames[0]), first)
    assert segmenter.state.number == 3


def test_another_segmenter_has_the_same_settings_but_for_those_given(plain):
    segmenter = VideoSegmenter(plain, scheduler="paper", fusion=0.25, class_names=list("abcde"))
    other = segmenter.another(scheduler="always-key")
    assert other.runtime is segmenter.runtime
    assert (other.settings.scheduler.name, segmenter.settings.scheduler.name) == ("always-key", "paper")
    assert (other.settings.fusion, other.class_names) == (0.25, tuple("abcde"))


@pytest.mark.parametrize("motion", ["dis", "dis-fine"])
def test_a_video_by_its_path_equals_its_frames_one_by_one(tmp_path, motion):
    path = clip(tmp_path / "clip.mp4", 12)
    segmenter = VideoSegmenter(colors, motion=motion)
    with open_video(path) as source:
        expected = [segmenter.step(frame) for frame in source]
    for name in (path, str(path)):
        streamed = list(segmenter.stream(name, mode="online"))
        assert all(same(one, two) for one, two in zip(streamed, expected, strict=True))
        assert [one.motion for one in streamed] == [two.motion for two in expected]
        assert [result.index for result in streamed] == list(range(12))
    assert motion in {result.motion for result in streamed}


def test_a_video_opened_by_its_path_is_closed_when_the_results_are_no_longer_wanted(tmp_path):
    results = VideoSegmenter(colors).stream(clip(tmp_path / "clip.mp4", 30))
    next(results)
    assert len(decoding_threads()) == 1
    results.close()
    wait_until_none_decodes()
    for _ in VideoSegmenter(colors).stream(tmp_path / "clip.mp4"):
        break
    gc.collect()
    wait_until_none_decodes()


def test_an_open_source_is_left_to_its_owner(tmp_path):
    segmenter = VideoSegmenter(colors)
    with open_video(clip(tmp_path / "clip.mp4", 30)) as source:
        next(segmenter.stream(source, mode="online"))
        assert next(source).index == 1


def test_a_file_is_streamed_offline_frames_online_and_the_mode_can_be_chosen(tmp_path):
    path = clip(tmp_path / "clip.mp4", 9)
    each = {"online": FixedPeriod(3, Level.CARRY), "offline": FixedPeriod(4, Level.CARRY)}
    segmenter = VideoSegmenter(colors, default_schedulers=each)
    keys = lambda results: [result.index for result in results if result.level is Level.KEY]  # noqa: E731
    with open_video(path) as source:
        frames = list(source)
    assert keys(segmenter.stream(path)) == keys(segmenter.stream(frames, mode="offline")) == [0, 4, 8]
    assert keys(segmenter.stream(frames)) == keys(segmenter.stream(path, mode="online")) == [0, 3, 6]
    assert keys(segmenter.stream(path, mode="realtime"))[0] == 0
    with pytest.raises(SettingsError, match="mode is one of offline, online, realtime; got 'later'"):
        next(segmenter.stream(frames, mode="later"))
    with pytest.raises(SettingsError, match="executor is for realtime"):
        next(segmenter.stream(frames, mode="offline", executor=ThreadPoolExecutor(1)))


def test_a_result_plots_its_labels_over_its_frame():
    red, blue = np.array([[255, 0, 0], [0, 0, 255]], np.uint8)
    frame = np.zeros((8, 8, 3), np.uint8)
    labels = np.zeros((8, 8), np.uint8)
    labels[:, 4:] = 1
    labels[0] = 255  # no label
    result = VideoSegmenter(lambda image: labels, palette=[red, blue]).step(frame)
    plotted = result.plot(opacity=1)
    assert (plotted[1:, :4] == red).all()
    assert (plotted[1:, 4:] == blue).all()
    assert (plotted[0] == 0).all()
    assert tuple(result.plot()[1, 0]) == (128, 0, 0)
    assert (frame == 0).all()


def test_two_streams_never_share_state(trained_like):
    left, right = panning(10, SIZE, seed=1), panning(10, SIZE, step=5, seed=2)
    first = VideoSegmenter(trained_like, scheduler="paper")
    second = first.another()
    apart = [list(first.stream(left)), list(second.stream(right))]
    first.reset()
    second.reset()
    mixed = [(first.step(a), second.step(b)) for a, b in zip(left, right, strict=True)]
    assert all(same(a, x) and same(b, y) for (a, b), x, y in zip(mixed, *apart, strict=True))


def test_streams_run_in_threads_over_one_set_of_weights(trained_like):
    videos = [panning(8, SIZE, seed=seed) for seed in range(3)]
    expected = [list(VideoSegmenter(trained_like, scheduler="paper").stream(video)) for video in videos]
    results = {}

    def run(number):
        results[number] = list(VideoSegmenter(trained_like, scheduler="paper").stream(videos[number]))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(a, b) for number in range(3) for a, b in zip(results[number], expected[number], strict=True))


def test_a_caller_may_write_on_what_it_gets(plain):
    frames = panning(1, SIZE) * 3
    segmenter = VideoSegmenter(plain, motion="none")
    first = segmenter.step(frames[0]).labels
    expected = first.copy()
    first[:] = 9
    assert np.array_equal(segmenter.step(frames[1]).labels, expected)


def test_what_cannot_be_honored_is_refused_by_name(plain):
    with pytest.raises(SettingsError, match="device='cpu' is for PyTorch networks; a TorchRuntime has its own"):
        VideoSegmenter(plain, device="cpu")
    with pytest.raises(
        SettingsError,
        match=r"no setting 'shedule'; there are mode, size, max_change, scheduler, .*, class_names",
    ):
        VideoSegmenter(plain, shedule="paper")
    with pytest.raises(SettingsError, match="no setting 'shedule'"):
        VideoSegmenter(plain).another(shedule="paper")
    with pytest.raises(ModelError, match="not a int"):
        VideoSegmenter(7)
    with pytest.raises(SettingsError, match="no precision"):
        TorchRuntime(build("small", 3), precision="int4")
    with pytest.raises(SettingsError, match="mode is one of"):
        VideoSegmenter(plain).stream("no such video.mp4", mode="sideways")
    with pytest.raises(FrameError, match="not str"):
        VideoSegmenter(plain).step("frame.png")


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_eight_hundred_frames_in_flat_memory(trained_like):
    video = panning(40, (192, 256), step=1)
    segmenter = VideoSegmenter(trained_like, scheduler=DriftBudget(0.15, 0.055, longest=9))
    levels = set()
    for number in range(200):
        levels.add(segmenter.step(video[number % 40]).level)
    gc.collect()
    before = resident()
    for number in range(600):
        levels.add(segmenter.step(video[number % 40]).level)
    gc.collect()
    assert resident() - before < 16e6  # bytes; one kept label map a frame would be 29 million
    assert levels >= {Level.KEY, Level.CARRY}


@pytest.mark.parametrize("mode", ["offline", "realtime"])
def test_frames_may_come_in_one_buffer(mode):
    pictures = panning(6, SIZE)

    def reuse():
        buffer = np.empty_like(pictures[0])
        for index, picture in enumerate(pictures):
            buffer[:] = picture
            yield Frame(buffer, index)

    schedulers = {"offline": FixedPeriod(2, Level.CARRY)}
    results = VideoSegmenter(colors, default_schedulers=schedulers).stream(reuse(), mode=mode)
    for result, picture in zip(list(results), pictures, strict=True):
        assert np.array_equal(result.image, picture)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_frames_of_opencv_are_read_as_bgr_where_color_is_bgr(mode):
    pictures = panning(4, SIZE)
    swapped = [np.ascontiguousarray(picture[:, :, ::-1]) for picture in pictures]
    for source in (swapped, iter(swapped), np.stack(swapped)):
        for result, picture in zip(
            VideoSegmenter(colors).stream(source, mode=mode, color="bgr"), pictures, strict=True
        ):
            assert np.array_equal(result.image, picture)
    segmenter = VideoSegmenter(colors)
    result = segmenter.step(swapped[0], color="bgr")
    assert np.array_equal(result.labels, VideoSegmenter(colors).step(pictures[0]).labels)
    assert np.array_equal(result.plot(color="bgr")[:, :, ::-1], result.plot())


def test_the_color_of_a_file_is_not_for_others_to_say(tmp_path):
    with pytest.raises(SettingsError, match="a video file or camera knows its own"):
        VideoSegmenter(colors).stream(clip(tmp_path / "clip.mp4", 2), color="bgr")
    with pytest.raises(SettingsError, match="rgb, or bgr"):
        VideoSegmenter(colors).stream([], color="hsv")


def test_a_capture_of_opencv_is_a_stream_of_bgr_frames(tmp_path):
    path = clip(tmp_path / "clip.mp4", 5)
    with open_video(path) as video:
        expected = [frame.image for frame in video]
    for options in ({}, {"color": "bgr"}, {"mode": "offline"}):
        capture = cv2.VideoCapture(str(path))
        results = list(VideoSegmenter(colors).stream(capture, **options))
        assert len(results) == 5
        for result, image in zip(results, expected, strict=True):  # two decoders, which round differently
            assert np.abs(result.image.astype(int) - image).mean() < 3
        assert capture.isOpened()
        capture.release()
    with pytest.raises(VideoError, match="not open"):
        VideoSegmenter(colors).stream(cv2.VideoCapture())


def test_one_picture_is_not_a_video():
    with pytest.raises(FrameError, match="this is one frame; use step"):
        VideoSegmenter(colors).stream(Image.fromarray(panning(1, SIZE)[0]))
    with pytest.raises(FrameError, match="this is one frame; use step"):
        VideoSegmenter(colors).stream(panning(1, SIZE)[0])
    assert len(list(VideoSegmenter(colors).stream(np.stack(panning(2, SIZE))))) == 2


@pytest.mark.parametrize(
    ("source", "options", "error"),
    [
        ([], {"mode": "backwards"}, SettingsError),
        ([], {"mode": "offline", "executor": ThreadPoolExecutor}, SettingsError),
        ("no such file.mp4", {}, VideoError),
        (1.5, {}, FrameError),
        (np.zeros((48, 64, 3), np.uint8), {}, FrameError),
    ],
)
def test_stream_checks_its_arguments_before_the_first_result_is_requested(source, options, error):
    with pytest.raises(error):
        VideoSegmenter(colors).stream(source, **options)


@pytest.mark.parametrize("mode", ["offline", "online", "realtime"])
def test_costs_are_counted_when_somebody_asks(mode):
    counted = []

    class Counting(CallableRuntime):
        def cost(self, size, level, keep, scale, masked):
            counted.append(size)
            return Cost(5)

    results = list(VideoSegmenter(Counting(colors)).stream(panning(4), mode=mode))
    assert counted == []
    assert results[0].macs == 5
    assert counted


@pytest.mark.parametrize("mode", ["offline", "realtime"])
def test_frames_of_a_source_are_not_copied(mode):
    class Source(FrameSource):
        def __init__(self):
            self.frames = [Frame(image) for image in panning(4)]
            self.remaining = iter(self.frames)

        def __next__(self):
            return next(self.remaining)

    source = Source()
    for frame, result in zip(source.frames, VideoSegmenter(colors).stream(source, mode=mode), strict=True):
        assert result.image is frame.image


def test_a_scheduler_is_that_of_the_mode_that_runs(tmp_path):
    path = clip(tmp_path / "clip.mp4", 13)
    always = VideoSegmenter(colors, scheduler="always-key")
    assert [result.level for result in always.stream(path)] == 13 * [Level.KEY]  # offline, as files are
    with pytest.raises(SettingsError, match="always-key cannot be used in realtime"):
        always.stream(path, mode="realtime")
    paper = VideoSegmenter(colors, scheduler="paper", motion="none")
    assert {result.level for result in paper.stream(path)} == {Level.KEY, Level.PARTIAL}  # online by itself
    for mode in ("offline", "realtime"):
        with pytest.raises(SettingsError, match=r"scheduler paper (computes|cannot)"):
            paper.stream(path, mode=mode)


def test_the_mode_that_is_not_given_follows_from_scheduler_delay_and_source(tmp_path):
    with open_video(clip(tmp_path / "clip.mp4", 3)) as video:
        for options, mode in (
            ({}, "offline"),
            ({"scheduler": "fixed:period=3,between=carry"}, "offline"),
            ({"scheduler": "paper"}, "online"),
            ({"mode": "realtime"}, "realtime"),
        ):
            assert Settings(**options).choose_mode(mode_of_source(video)) == mode
    assert Settings().choose_mode(mode_of_source([1, 2])) == "online"
    assert Settings(delay=4).choose_mode(mode_of_source([1, 2])) == "offline"


def test_a_frame_by_itself_is_computed_at_the_size_of_a_stream_of_such_frames():
    sizes = []

    def network(image):
        sizes.append(image.shape[:2])
        return colors(image)

    segmenter = VideoSegmenter(network, model_size=(36, 48))
    frame = panning(1, (54, 96))[0]
    stepped = segmenter.step(frame).labels
    for mode in ("offline", "online", "realtime"):
        (streamed,) = segmenter.another().stream([frame], mode=mode)
        assert np.array_equal(streamed.labels, stepped)
    assert set(sizes) == {segmenter.size_for((54, 96))} == {(32, 56)}
    assert stepped.shape == (54, 96)
    assert segmenter.size_for((36, 48)) is segmenter.size_for((20, 30)) is None
    assert segmenter.another(size=(40, 40)).size_for((20, 30)) == (40, 40)


def test_a_segmenter_is_built_once_when_it_is_loaded(monkeypatch):
    built = []
    original = VideoSegmenter.__init__
    monkeypatch.setattr(VideoSegmenter, "__init__", lambda self, *a, **k: built.append(self) or original(self, *a, **k))
    stmg.load("small-streets", device="cpu", motion="none", settings={"fusion": 0.1})
    assert len(built) == 1


def test_an_argument_that_the_mode_of_a_stream_does_not_use_is_refused(tmp_path):
    path = clip(tmp_path / "clip.mp4", 3)
    for options, mode, message in (
        ({"fusion": 0.2}, None, "fusion is for online mode; the mode is offline"),
        ({"fusion": 0.2}, "realtime", "fusion is for online mode; the mode is realtime"),
        ({"delay": 4}, "online", "delay is for offline mode; the mode is online"),
        ({"delay": 4, "scheduler": "paper"}, None, "delay is for offline mode; the mode is online"),
        (
            {"partial_scale": 0.5},
            "online",
            "partial_scale is for partial frames, and the scheduler (drift|fixed) has none",
        ),
    ):
        for segmenter in (VideoSegmenter(colors, **options), stmg.load("small-streets", **options)):
            with pytest.raises(SettingsError, match=message):
                segmenter.stream(path, mode=mode)
    assert len(list(VideoSegmenter(colors, fusion=0.2).stream(path, mode="online"))) == 3
    assert len(list(VideoSegmenter(colors, fusion=0.2).another().stream(path))) == 3  # not given for this one
    assert len(list(VideoSegmenter(colors, settings=Settings(fusion=0.2)).stream(path))) == 3  # for several modes
    assert len(list(stmg.load("small-streets", settings={"fusion": 0.2}).stream(path))) == 3


@pytest.mark.parametrize("options", [{"delay": 4}, {"mode": "offline"}, {"mode": "realtime"}])
def test_a_frame_by_itself_refuses_what_is_for_other_modes(options):
    with pytest.raises(SettingsError, match="online"):
        VideoSegmenter(colors, **options).step(panning(1, SIZE)[0])


def test_the_mode_of_a_call_comes_before_that_of_the_settings():
    results = VideoSegmenter(colors, mode="offline", scheduler="always-key").stream(panning(2, SIZE), mode="online")
    assert len(list(results)) == 2


def test_settings_with_which_a_model_is_opened_are_refused_where_the_network_is_given():
    for options in ({"runtime": "openvino"}, {"threads": 2}, {"untrained": True}):
        for given in (options, {"settings": Settings(**options)}):
            with pytest.raises(SettingsError, match=f"{next(iter(options))} is for stmg.load, which opens a model"):
                VideoSegmenter(colors, **given)
    for given in ({"device": "nowhere"}, {"settings": Settings(device="nowhere")}):
        with pytest.raises(SettingsError, match="nowhere"):
            VideoSegmenter(build("small", 3), **given)
