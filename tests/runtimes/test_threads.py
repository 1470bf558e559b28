import os
from concurrent.futures import ThreadPoolExecutor

import cv2
import pytest
import torch

from stmg.errors import SettingsError
from stmg.runtimes.threads import set_threads, share_threads, torch_threads


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


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_pytorchs_threads_are_limited_for_the_calling_thread_alone(four_threads):
    def of_a_new_thread():
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(torch.get_num_threads).result()

    with torch_threads(1):
        assert torch.get_num_threads() == 1
        assert of_a_new_thread() == 4
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_count_inside, 2).result() == (2, 4)
    assert torch.get_num_threads() == of_a_new_thread() == 4


def _count_inside(number):
    with torch_threads(number):
        inside = torch.get_num_threads()
    return inside, torch.get_num_threads()


def test_frames_that_are_computed_at_once_share_the_threads():
    assert [share_threads(threads) for threads in (1, 2, 3, 8, 16)] == [1, 1, 1, 2, 5]
    assert share_threads(None) == share_threads(os.cpu_count())
