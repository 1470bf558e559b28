"""Weights in files: read them from other sources into a network of the same shape, and store them in fewer bits."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from stmg.errors import ModelError, SettingsError, first_line

PREFIXES = ("module.", "model.", "network.")
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")


class LoadReport(NamedTuple):
    """How the tensors of a foreign checkpoint were used."""

    loaded: tuple[str, ...]
    """Tensors that were loaded."""
    fresh: tuple[str, ...]
    """Tensors of the head that keep their fresh values, because the checkpoint lacks them or has other classes."""
    unused: tuple[str, ...]
    """Tensors of the checkpoint that the network does not have: a classifier, an auxiliary head, a loss."""


def read_state_dict(path: str | Path) -> dict[str, Tensor]:
    """Read the tensors of a `.safetensors`, `.pth` or `.pt` file."""
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"{path} does not exist")
    try:
        if path.suffix == ".safetensors":
            content: Any = load_file(path)
        else:
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise ModelError(
            f"{path} holds more than tensors, so opening it could run code; save its state_dict() alone"
        ) from None
    except Exception as error:
        raise ModelError(f"{path} cannot be read as a checkpoint: {first_line(error)}") from None
    while isinstance(content, dict):
        inner = next((content[key] for key in WRAPPERS if isinstance(content.get(key), dict)), None)
        if inner is None:
            break
        content = inner
    entries = content.items() if isinstance(content, dict) else ()
    tensors = {name: value for name, value in entries if isinstance(name, str) and isinstance(value, Tensor)}
    if not tensors:
        raise ModelError(f"{path} holds no tensors under names; save a network's state_dict()")
    return unpack(tensors)


def match_names(state: dict[str, Tensor], own: dict[str, Tensor]) -> dict[str, Tensor]:
    """Rename tensors to a network's own names, by removing the prefixes of wrappers."""
    return {name if name in own else _strip_prefixes(name, own): value for name, value in state.items()}


def load_foreign(network: nn.Module, state: dict[str, Tensor], heads: tuple[str, ...] = ()) -> LoadReport:
    """Load a foreign state dict into a network. Raise an error that lists the tensors that do not fit.

    Only tensors whose names start with one of `heads` may be missing or have another shape. They keep their values.
    """
    own = network.state_dict()
    state = match_names(state, own)
    absent = [name for name in own if name not in state and not name.endswith("num_batches_tracked")]
    unlike = [name for name in own if name in state and state[name].shape != own[name].shape]
    wrong = [f"{name} is missing" for name in absent if not name.startswith(heads or "\0")]
    wrong += [
        f"{name} is {_shape(state[name])}, the network's {_shape(own[name])}"
        for name in unlike
        if not name.startswith(heads or "\0")
    ]
    if wrong:
        more = f", and {len(wrong) - 8} more" if len(wrong) > 8 else ""
        raise ModelError(f"the checkpoint is of another network: {'; '.join(wrong[:8])}{more}")
    broken = [name for name, value in state.items() if name in own and not bool(torch.isfinite(value).all())]
    if broken:
        raise ModelError(f"the checkpoint holds values that are not finite, first in {broken[0]}")
    fits = [name for name in own if name in state and name not in unlike]
    network.load_state_dict({name: state[name] for name in fits}, strict=False)
    return LoadReport(tuple(fits), tuple(absent + unlike), tuple(name for name in state if name not in own))


def _strip_prefixes(name: str, own: dict[str, Tensor]) -> str:
    while name not in own and name.startswith(PREFIXES):
        name = name.split(".", 1)[1]
    return name


def _shape(tensor: Tensor) -> str:
    return "x".join(map(str, tensor.shape)) or "a number"


BITS = (8, 16, 32)
SCALE = ".scale"  # suffix of the name of an INT8 tensor's scales
_LARGEST = 127


def pack(tensors: Mapping[str, Tensor], bits: int) -> dict[str, Tensor]:
    """Convert tensors for storage: to 16 bits if they do not overflow, or to 8 if they have more than one dimension."""
    if bits not in BITS:
        raise SettingsError(f"bits is one of {', '.join(map(str, BITS))}; got {bits!r}")
    packed: dict[str, Tensor] = {}
    for name, value in tensors.items():
        if bits == 8 and value.is_floating_point() and value.dim() > 1:
            packed[name], packed[name + SCALE] = _to_int8(value.float())
        else:
            packed[name] = _to_half(value) if bits == 16 else value
    return packed


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Restore packed tensors, up to rounding. Other tensors stay unchanged."""
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


def _to_int8(value: Tensor) -> tuple[Tensor, Tensor]:
    rows = value.flatten(1)
    scale = (rows.abs().amax(1) / _LARGEST).clamp_min(torch.finfo(torch.float32).tiny)
    rounded = (rows / scale[:, None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
    return rounded.reshape(value.shape).contiguous(), scale


def _to_half(value: Tensor) -> Tensor:
    """Convert to half precision, unless that overflows."""
    short = value.half() if value.is_floating_point() else value
    return short if bool(torch.isfinite(short).all()) else value


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors by name as safetensors."""
    path.write_bytes(save(dict(tensors)))


def write_state(state: object, path: Path) -> None:
    """Write an object with `torch.save`."""
    data = io.BytesIO()
    torch.save(state, data)
    path.write_bytes(data.getbuffer())
