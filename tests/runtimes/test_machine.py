import cv2
import psutil
import pytest
import torch

from stmg.errors import SettingsError
from stmg.runtimes.machine import busy_warning, machine_info
from stmg.runtimes.threads import set_threads


@pytest.mark.parametrize(("percent", "warns"), [(3.0, False), (55.0, True)])
def test_a_busy_machine_is_warned_of(monkeypatch, percent, warns):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: percent)
    warning = busy_warning(0.01)
    assert bool(warning) == warns
    assert not warns or "55% of the machine" in warning


def test_the_machine_says_what_computes():
    info = machine_info()
    assert info["processor"]
    assert info["packages"]["torch"] == torch.__version__
    assert info["threads"] == torch.get_num_threads()


def test_threads_are_those_of_opencv_and_pytorch(monkeypatch):
    given = {}
    monkeypatch.setattr(cv2, "setNumThreads", lambda number: given.update(opencv=number))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: given.update(torch=number))
    set_threads(None)
    assert not given
    set_threads(3)
    assert given == {"opencv": 3, "torch": 3}
    with pytest.raises(SettingsError, match="threads is at least 1; got 0"):
        set_threads(0)
