"""Networks that come with the package, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from torch import nn

from stmg.networks.ddrnet import SIZES, DDRNet
from stmg.networks.small import SmallNet

NETWORKS: dict[str, Callable[..., nn.Module]] = {
    **{name: partial(DDRNet, sizes) for name, sizes in SIZES.items()},
    "small": SmallNet,
}


def build(name: str, num_classes: int) -> nn.Module:
    """A network of the package with fresh weights."""
    if name not in NETWORKS:
        raise ValueError(f"no network is called {name!r}; there are {', '.join(NETWORKS)}")
    if num_classes < 2:
        raise ValueError(f"a segmentation network needs at least 2 classes; got {num_classes}")
    return NETWORKS[name](num_classes=num_classes)
