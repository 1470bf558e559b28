"""Weights in fewer bits on disk: half precision, or eight bits with a scale per output channel."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from stmg.errors import ModelError, SettingsError

BITS = (8, 16, 32)
SCALE = ".scale"  # ends the name of the scales of a tensor of eight bits
_LARGEST = 127


def pack(tensors: Mapping[str, Tensor], bits: int) -> dict[str, Tensor]:
    """Tensors as they are written; 16 bits where they do not overflow, 8 for those of more than one dimension."""
    if bits not in BITS:
        raise SettingsError(f"bits is one of {', '.join(map(str, BITS))}; got {bits!r}")
    packed: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if bits == 8 and value.is_floating_point() and value.dim() > 1:
            packed[name], packed[name + SCALE] = _to_eight_bits(value.float())
        else:
            packed[name] = _to_half(value) if bits == 16 else value
    return packed


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors as they were, but for rounding; what was not packed stays as it is."""
    scales = {name for name in packed if name.endswith(SCALE) and _is_packed(packed.get(name.removesuffix(SCALE)))}
    tensors: dict[str, Tensor] = {}
    for name, value in packed.items():
        if name in scales:
            continue
        if name + SCALE in scales:
            scale = packed[name + SCALE]
            if scale.numel() != len(value):
                raise ModelError(f"{name}: {scale.numel()} scales for {len(value)} channels")
            value = value.float() * scale.reshape(-1, *[1] * (value.dim() - 1))
        tensors[name] = value
    return tensors


def _is_packed(value: Tensor | None) -> bool:
    return value is not None and value.dtype == torch.int8 and value.dim() > 1


def _to_eight_bits(value: Tensor) -> tuple[Tensor, Tensor]:
    rows = value.flatten(1)
    scale = (rows.abs().amax(1) / _LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
    rounded = (rows / scale[:, None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
    return rounded.reshape(value.shape).contiguous(), scale


def _to_half(value: Tensor) -> Tensor:
    """In half precision, unless that overflows."""
    short = value.half() if value.is_floating_point() else value
    return short if bool(torch.isfinite(short).all()) else value
