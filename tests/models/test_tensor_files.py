"""Files of tensors: the same as the libraries write, and a full disk is an error of the system's own."""

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from stmg.models.tensor_files import write_state, write_tensors

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([True, False])}


def test_what_is_read_is_what_was_written(tmp_path):
    write_tensors(TENSORS, tmp_path / "tensors.safetensors")
    write_state({"step": 3, "tensors": TENSORS}, tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["step"] == 3
    for read in (load_file(tmp_path / "tensors.safetensors"), state["tensors"]):
        assert read.keys() == TENSORS.keys()
        assert all(torch.equal(read[name], value) for name, value in TENSORS.items())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("write", [write_tensors, write_state])
def test_a_full_disk_is_said_as_the_system_says_it(write):
    with pytest.raises(OSError, match="No space left") as caught:
        write(TENSORS, Path("/dev/full"))
    assert caught.value.errno == errno.ENOSPC
