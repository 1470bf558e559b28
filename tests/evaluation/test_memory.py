"""Memory of a separate process."""

import sys
from functools import partial

import numpy as np
import pytest

from fakes import HOARD, hoard
from stmg import VideoSegmenter
from stmg.evaluation.memory import peak_memory


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="not measured there")
def test_the_peak_is_that_of_another_process_while_it_segments():
    idle = peak_memory(partial(VideoSegmenter, hoard), [])
    busy = peak_memory(partial(VideoSegmenter, hoard), [np.zeros((8, 8, 3), np.uint8)])
    assert idle < HOARD
    assert HOARD < busy - idle < 1.2 * HOARD
