"""Networks of the package, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from stmg.errors import ModelError
from stmg.networks.ddrnet import SIZES, DDRNet
from stmg.networks.grow import can_grow, grow
from stmg.networks.lite import LiteNet, load_imagenet
from stmg.networks.small import SmallNet
from stmg.networks.weights import load_foreign, match_names, read_state_dict

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    **{name: partial(DDRNet, sizes) for name, sizes in SIZES.items()},
    "lite0": LiteNet,
    "small": SmallNet,
}


def build(name: str, num_classes: int, auxiliary: bool = False) -> nn.Module:
    """Build a network of the package with fresh weights. `auxiliary` adds the second head of DDRNet training."""
    if name not in NETWORKS:
        raise ModelError(f"there is no network {name!r}; there are {', '.join(NETWORKS)}")
    if num_classes < 2:
        raise ModelError(f"a segmentation network needs at least 2 classes; got {num_classes}")
    if auxiliary and name not in SIZES:
        raise ModelError(f"{name} has no auxiliary head; {', '.join(SIZES)} have one")
    return NETWORKS[name](num_classes=num_classes, **({"auxiliary": True} if auxiliary else {}))


def pretrain(network: nn.Module, name: str, source: str) -> None:
    """Start a network from `imagenet` or a checkpoint file. A smaller DDRNet is grown; else what fits is loaded."""
    if source != "imagenet":
        own = network.state_dict()
        state = match_names(read_state_dict(source), own)
        if isinstance(network, DDRNet) and can_grow(network, state):
            state = grow(network, state)
        fitting = {key: value for key, value in state.items() if key in own and value.shape == own[key].shape}
        if not any(key.endswith("weight") for key in fitting):
            raise ModelError(f"nothing in {source} fits {name}: it is of another network")
        load_foreign(network, fitting, heads=tuple(name for name in own if name not in fitting))
    elif isinstance(network, LiteNet):
        load_imagenet(network.encoder)
    else:
        raise ModelError(f"there are no ImageNet weights for {name} here; lite0 has some")
