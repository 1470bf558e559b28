import cv2
import pytest
import torch

from stmg.errors import SettingsError
from stmg.runtimes.threads import set_threads


def test_threads_are_those_of_opencv_and_pytorch(monkeypatch):
    given = {}
    monkeypatch.setattr(cv2, "setNumThreads", lambda number: given.update(opencv=number))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: given.update(torch=number))
    set_threads(None)
    assert not given
    set_threads(3)
    assert given == {"opencv": 3, "torch": 3}
    with pytest.raises(SettingsError, match=r"threads is from 1 to .* got 0"):
        set_threads(0)
    with pytest.raises(SettingsError, match=r"threads is from 1 to \d+ on this machine, which has \d+ cores; got 9999"):
        set_threads(9999)
