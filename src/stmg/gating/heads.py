"""The head of a network, which turns feature maps into class logits. It is found by its inputs and outputs."""

from __future__ import annotations

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from stmg.errors import ModelError
from stmg.gating.measure import count_parameters, record_calls
from stmg.gating.residual import Block, require_submodule


def find_heads(network: nn.Module, example: Tensor, blocks: tuple[Block, ...], num_classes: int) -> list[str]:
    """Modules that run after the last block, take feature maps and return one channel per class."""
    names = [name for name, _ in network.named_modules() if name]
    calls = record_calls(network, example, names)
    last = max((calls[block.name].order for block in blocks), default=0)
    heads: list[str] = []
    for name in names:
        if name not in calls or calls[name].order <= last or any(name.startswith(f"{h}.") for h in heads):
            continue
        call = calls[name]
        fed = [leaf for leaf in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(leaf, Tensor)]
        if call.times > 1 or any(leaf.shape == example.shape for leaf in fed):
            continue  # a head is called once, and not on the image
        within = [calls[other].order for other in calls if other.startswith(f"{name}.")]
        if min(within, default=call.order) <= last or not _takes_maps(call.args, call.kwargs):
            continue
        outputs = pytree.tree_leaves(call.output)
        if any(isinstance(o, Tensor) and o.dim() == 4 and o.shape[1] == num_classes for o in outputs):
            heads.append(name)
    # Prefer the last module with parameters: an auxiliary head comes before it, a plain resize after it.
    heads = [name for name in heads if count_parameters(network.get_submodule(name))]
    return sorted(heads, key=lambda name: -calls[name].order)


def check_head(network: nn.Module, example: Tensor, head: str, heads: list[str]) -> None:
    """Raise if the head that a user names is not called once with feature maps."""
    require_submodule(network, head, kind="head", suggestions=heads)
    calls = record_calls(network, example, [head])
    if head not in calls or calls[head].times > 1:
        how = "not called" if head not in calls else "called more than once"
        raise ModelError(f"head {head!r} is {how} when the network runs; there are: {', '.join(heads)}")
    if not _takes_maps(calls[head].args, calls[head].kwargs):
        raise ModelError(
            f"head {head!r} does not take feature maps (N, C, h, w), so they cannot be warped and blended; "
            f"there are: {', '.join(heads) or 'none that does'}"
        )


def _takes_maps(args: object, kwargs: object) -> bool:
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    return bool(tensors) and all(leaf.dim() == 4 and leaf.is_floating_point() for leaf in tensors)
