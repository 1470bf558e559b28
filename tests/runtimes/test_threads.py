from concurrent.futures import ThreadPoolExecutor

import cv2
import pytest
import torch

from stmg.runtimes.threads import set_threads, share_torch_threads


def test_threads_are_those_of_opencv_and_pytorch(monkeypatch):
    given = {}
    monkeypatch.setattr(cv2, "setNumThreads", lambda number: given.update(opencv=number))
    monkeypatch.setattr(torch, "set_num_threads", lambda number: given.update(torch=number))
    set_threads(None)
    assert not given
    set_threads(3)
    assert given == {"opencv": 3, "torch": 3}


@pytest.fixture
def four_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def test_pytorchs_threads_are_shared_by_those_that_ask_for_it_alone(four_threads):
    def count_in(pool):
        with pool:
            return {pool.submit(torch.get_num_threads) for _ in range(32)}

    sharing = count_in(ThreadPoolExecutor(8, initializer=share_torch_threads, initargs=(3,)))
    assert {future.result() for future in sharing} == {1}
    assert {future.result() for future in count_in(ThreadPoolExecutor(1))} == {4}
    assert torch.get_num_threads() == 4
