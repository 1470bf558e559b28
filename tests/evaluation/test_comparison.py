"""The demo's comparison: methods that are what they are called, on the same frames."""

import time

from stmg import VideoSegmenter
from stmg.evaluation.comparison import COPIED, NETWORK, ONLINE, REALTIME, _steppers, compare
from stmg.training.pairs import IdentityCorrector
from stmg.video.frames import Frame
from zoo import colors, panning


def test_only_stmg_has_the_models_corrector():
    steppers = _steppers(VideoSegmenter(colors, corrector=IdentityCorrector(3)))
    corrected = {name: stepper.settings.corrector is not None for name, stepper in steppers.items()}
    assert corrected == {NETWORK: False, COPIED: False, ONLINE: True}


def test_realtime_is_scored_on_every_frame_as_the_others_are():
    def slow(image):
        time.sleep(0.05)
        return colors(image)

    frames = [Frame(image, index) for index, image in enumerate(panning(6))]
    truths = [colors(frame.image).argmax(0).astype("uint8") for frame in frames]
    runs = compare(VideoSegmenter(slow), frames, truths, 3, 50.0, lambda name: None)
    assert runs[REALTIME].live.dropped > 0
    assert {run.figures.num_frames for run in runs.values()} == {6}
