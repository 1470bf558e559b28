"""Make the cards of networks and segmenters from the objects themselves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from stmg.errors import ModelError, SettingsError
from stmg.gating.accelerate import AcceleratedNetwork
from stmg.models.card import SHARED_SETTINGS, Card
from stmg.models.correctors import CorrectorCard, describe_corrector
from stmg.models.spec import scheduler_fields
from stmg.networks import NETWORKS, build
from stmg.networks.corrector import Corrector as CorrectorNetwork
from stmg.runtimes.torch import TorchRuntime
from stmg.runtimes.torch_corrector import TorchCorrector
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking
from stmg.streaming.motion import MOTION_ESTIMATORS
from stmg.streaming.schedulers import SCHEDULERS
from stmg.streaming.settings import Mode, Settings

OWN = "own"
"""Name in a card for a network that is not of the package. It must be passed when loading."""


def card_of_network(network: AcceleratedNetwork, card: Card | None = None) -> Card:
    """A card with the network's own properties (blocks, head, classes). They override those of the given card.

    If the given card has no size, the size of the network's example is used.
    """
    return _describe(network, card, network.example_size)


def _describe(network: AcceleratedNetwork, card: Card | None, size: tuple[int, int] | None) -> Card:
    card = card or Card(network_name(network) or OWN, network.num_classes)
    return replace(
        card,
        size=card.size or size,
        num_classes=network.num_classes,
        head=network.head,
        blocks=tuple(block.name for block in network.blocks),
        output=network.output,
        mask_generator=network.mask_generator is not None,
        two_weight_sets=network.second is not None,
        distortion_aware=network.mask_generator is None or network.mask_generator.distortion_aware,
    )


def card_of_segmenter(segmenter: VideoSegmenter, card: Card | None = None) -> Card:
    """A card of a segmenter's network, normalization and streaming settings. The rest comes from the given card."""
    runtime, settings = _torch_runtime(segmenter), segmenter.settings
    for name, value in (("mode", settings.mode), ("max_change", settings.max_change), ("delay", settings.delay)):
        if value is not None:
            raise SettingsError(f"{name} belongs to a stream, and no card can hold it; set it when you load")
    network = runtime.original
    size = settings.size or settings.model_size or (None if runtime.is_plain else network.example_size)
    return replace(
        _describe(network, card, size),
        palette=_palette(settings, runtime.num_classes),
        mean=runtime.normalization.mean,
        std=runtime.normalization.std,
        activation=runtime.foreground.activation,
        threshold=runtime.foreground.threshold,
        constant_mask=_constant_mask(settings.masking),
        scheduler=_scheduler(settings, "online"),
        offline=_scheduler(settings, "offline"),
        motion=_motion(settings),
        **{name: getattr(settings, name) for name in SHARED_SETTINGS},
    )


def corrector_of_segmenter(
    segmenter: VideoSegmenter, size: tuple[int, int]
) -> tuple[CorrectorNetwork, CorrectorCard] | None:
    """The corrector of a segmenter, with its card for frames of a size; None if there is none."""
    corrector = segmenter.settings.corrector
    if corrector is None:
        return None
    if not isinstance(corrector, TorchCorrector):
        raise SettingsError("the corrector was not trained by stmg adapt; set it when you load")
    card = describe_corrector(corrector.module, size, segmenter.settings.motion.name, between=corrector.between)
    return corrector.module, card


def network_of_segmenter(segmenter: VideoSegmenter) -> AcceleratedNetwork:
    """The network before it was optimized for running."""
    return _torch_runtime(segmenter).original


def network_name(network: AcceleratedNetwork) -> str | None:
    """Name of a network of the package, by its class and the shapes of its tensors; None for other networks."""
    own = {name: value.shape for name, value in network.network.state_dict().items()}
    kind = type(network.network)
    for name in NETWORKS:
        with torch.device("meta"):
            candidate: nn.Module = build(name, max(2, network.num_classes))
        if type(candidate) is kind and own == {key: value.shape for key, value in candidate.state_dict().items()}:
            return name
    return None


def _torch_runtime(segmenter: VideoSegmenter) -> TorchRuntime:
    if not isinstance(segmenter.runtime, TorchRuntime):
        raise ModelError(
            f"only PyTorch networks can be saved and exported; this one is run by {segmenter.runtime.description}"
        )
    return segmenter.runtime


def _palette(settings: Settings, num_classes: int) -> tuple[tuple[int, int, int], ...]:
    """Colors of the classes; empty for the default colors."""
    if np.array_equal(settings.palette, Settings().palette):
        return ()
    return tuple((int(red), int(green), int(blue)) for red, green, blue in settings.palette[: max(num_classes, 1)])


def _scheduler(settings: Settings, mode: Mode) -> dict[str, object]:
    """The scheduler of a mode. If the mode cannot use the one that was set, the model's own."""
    scheduler = settings.scheduler if settings.can_run(mode) else None
    scheduler = scheduler or settings.default_schedulers[mode]
    if type(scheduler) not in SCHEDULERS.values():
        raise SettingsError(f"scheduler {scheduler.name} is your own, which no card can hold; set it when you load")
    return scheduler_fields(scheduler)


def _motion(settings: Settings) -> str:
    if settings.motion.name in MOTION_ESTIMATORS:
        return settings.motion.name
    raise SettingsError("motion is an estimator of your own, which no card can hold; set it when you load")


def _constant_mask(masking: Masking) -> float | None:
    if masking == Masking():
        return None
    if not isinstance(masking.spatial, str) and masking == Masking(spatial=masking.spatial, gain=masking.gain):
        return float(masking.spatial)  # a gain has no effect on it
    raise SettingsError(f"masking {masking} is an ablation, which no card can hold; set it when you load")
