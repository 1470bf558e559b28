"""Files of tensors, such that a full disk is an `OSError`: the libraries' own writers have errors of their own."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors by name as safetensors."""
    path.write_bytes(save(dict(tensors)))


def write_state(state: object, path: Path) -> None:
    """Write what `torch.save` takes."""
    data = io.BytesIO()
    torch.save(state, data)
    path.write_bytes(data.getbuffer())
