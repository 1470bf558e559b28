"""Inputs and outputs of networks: find the class logits in an output, and the inputs besides the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stmg.errors import ModelError

Size = tuple[int, int]

QUERY_CLASSES, QUERY_MASKS = "class_queries_logits", "masks_queries_logits"
"""Fields that identify outputs of Mask2Former, MaskFormer, OneFormer and EoMT."""
MASK2FORMER_SIZE = (384, 384)  # its own post-processing adds up masks at this size, for images of any size


def find_logits(output: Any, key: str | int | None = None, size: Sequence[int] | None = None) -> Tensor:
    """Find the class logits (N, C, h, w) in a network's output: a tensor, a dict, a tuple or a model output.

    key: name or index of the logits in it, if they have one.
    size: (H, W) of the image.
    """
    if key is not None:
        try:
            output = getattr(output, key) if hasattr(output, str(key)) else output[key]  # type: ignore[arg-type]
        except (KeyError, IndexError, TypeError):
            raise ModelError(f"the network's output has no {key!r}; it is a {_describe(output)}") from None
    elif gives_queries(output):
        return read_queries(output, size)
    candidates: list[Any] = [output]
    if isinstance(output, Mapping):
        candidates = [output.get("logits"), output.get("out"), *output.values()]
    elif isinstance(output, Sequence):
        candidates = list(output)
    elif hasattr(output, "logits"):
        candidates = [output.logits]
    for candidate in candidates:
        if isinstance(candidate, Tensor) and candidate.dim() == 4 and candidate.is_floating_point():
            return candidate
    raise ModelError(
        f"no logits of shape (N, classes, h, w) in the network's output, a {_describe(output)}; "
        "name them with output=..."
    )


def gives_queries(output: object) -> bool:
    """True if an output holds queries, each with a class and a mask, as the universal models of transformers do."""
    return all(getattr(output, field, None) is not None for field in (QUERY_CLASSES, QUERY_MASKS))


def read_queries(output: Any, size: Sequence[int] | None) -> Tensor:
    """Scores of the classes (N, C, h, w): of every query, its mask times the probability of its class, added up.

    Masks are resized before that where the model's own post-processing does so. The last class is none at all.
    """
    classes, masks = getattr(output, QUERY_CLASSES), getattr(output, QUERY_MASKS)
    kind = type(output).__name__
    if kind.startswith("Mask2Former"):
        size = MASK2FORMER_SIZE
    elif not kind.startswith("Eomt"):
        size = None
    if size is not None:
        masks = F.interpolate(masks, size=tuple(size), mode="bilinear", align_corners=False)
    scores: Tensor = torch.einsum("bqc, bqhw -> bchw", classes.softmax(dim=-1)[..., :-1], masks.sigmoid())
    return scores


def find_stated_size(network: nn.Module) -> Size | None:
    """(H, W) of the images that a network is built for, as its configuration or one of its parts states it."""
    for owner in (getattr(network, "config", None), *network.modules()):
        for name in ("image_size", "img_size"):
            size = getattr(owner, name, None)
            if isinstance(size, int) and not isinstance(size, bool):
                return size, size
            if isinstance(size, tuple | list) and len(size) == 2 and all(isinstance(side, int) for side in size):
                return size[0], size[1]
    return None


def advise(network: nn.Module) -> str:
    """Advice for a network that fails on an image."""
    further = ", ".join(_list_further_inputs(network))
    if "task_inputs" in further:
        return "OneFormer is told its task in words; stmg.load it by its name or folder, or give a pipeline"
    if further:
        return f"its forward takes {further} too; wrap it in a module whose forward takes the image alone"
    return "if it takes images of one size only, give that as size"


def _list_further_inputs(network: nn.Module) -> list[str]:
    """Names of the inputs that a network's forward needs besides the image; empty if its code does not show them."""
    try:
        first, *others = signature(network.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    if first.kind is Parameter.KEYWORD_ONLY:
        others = [first, *others]
    needed = (each for each in others if each.default is Parameter.empty)
    return [each.name for each in needed if each.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)]


def _describe(output: object) -> str:
    if isinstance(output, Tensor):
        return f"tensor of shape {tuple(output.shape)}"
    if isinstance(output, Mapping):
        return f"mapping with {', '.join(map(str, output))}"
    return f"{type(output).__name__} of {len(output)}" if isinstance(output, Sequence) else type(output).__name__
