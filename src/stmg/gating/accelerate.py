"""accelerate: any segmentation network, with its residual blocks gated and its head's input within reach."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from stmg.errors import ModelError, first_line
from stmg.gating.gates import Blend, Gate, Pass, Tap, remove_gates, replace_module, running
from stmg.gating.heads import check_head, find_heads
from stmg.gating.mask_generator import MaskGenerator
from stmg.gating.measure import MacCounter, count_parameters, make_noise
from stmg.gating.outputs import advise, find_logits, find_stated_size
from stmg.gating.residual import Block, can_be_skipped, find_blocks, find_named_blocks
from stmg.pretrained import Pretrained, open_store
from stmg.streaming.cost import NetworkCost

COMMON_SIZES = (224, 256, 320, 384, 448, 512, 513, 518, 640, 768, 1024)
"""Sides of the square images that networks of one size take, where they do not state it."""


class NetworkOutput(NamedTuple):
    """Output of a pass through the network."""

    features: list[Tensor]
    """The head's input, maps (N, C, h, w); the logits themselves if the network has no head to be split off."""
    logits: Tensor
    """(N, num_classes, h, w)."""


def weight_dtype(network: nn.Module) -> torch.dtype:
    """Return the dtype of a network's weights; single precision if it has none."""
    return next((p.dtype for p in network.parameters() if p.is_floating_point()), torch.float32)


class AcceleratedNetwork(Pretrained, nn.Module):
    """A network for video: whole on key frames, in part on others. Called plainly, it is what it was made from."""

    def __init__(
        self,
        network: nn.Module,
        blocks: tuple[Block, ...],
        head: str | None,
        output: str | int | None,
        num_classes: int,
        mask_generator: MaskGenerator | None = None,
        two_weight_sets: bool = False,
        example: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.example_size = (128, 128) if example is None else (int(example.shape[2]), int(example.shape[3]))
        self.input_size: tuple[int, int] | None = None
        """(H, W) of the only images that the network takes; None if it takes others."""
        self.network = network
        self.second = copy.deepcopy(network) if two_weight_sets else None
        self.mask_generator = mask_generator
        self.blocks = blocks
        self.head = head
        self.output = output
        self.num_classes = num_classes
        for gated in filter(None, (self.network, self.second)):
            for index, block in enumerate(blocks):
                inner = gated.get_submodule(block.name)
                replace_module(gated, block.name, Gate(inner, index, block.sources, block.form))
            if head is not None:
                replace_module(gated, head, Tap(gated.get_submodule(head)))

    @classmethod
    def from_pretrained(
        cls, name: str | Path, *, model: nn.Module | None = None, device: str | None = None
    ) -> AcceleratedNetwork:
        """Load the network of a shipped name, a checkpoint folder or a Hub id, with its weights.

        model: the network itself, with any weights, where the checkpoint is of a network of your own.
        """
        network: AcceleratedNetwork = open_store().load_network(name, model, device)
        return network

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the weights, and therefore of the images."""
        return weight_dtype(self.network)

    @property
    def partial_network(self) -> nn.Module:
        """Network for partial frames: the one with the second set of weights, or the only one."""
        return self.network if self.second is None else self.second

    def forward(self, image: Tensor) -> Any:
        return self.network(image)

    def full(self, image: Tensor) -> NetworkOutput:
        """Run every block and reuse nothing: a key frame."""
        return self.run(self.network, image, Pass())

    def partial(self, image: Tensor, keep: Tensor | Sequence[bool], blend: Blend | None = None) -> NetworkOutput:
        """Some blocks; `blend` may mix the features with others before the head."""
        return self.run(self.partial_network, image, Pass(keep=keep, blend=blend))

    @torch.no_grad()
    def costs(self, image: Tensor) -> NetworkCost:
        """Count, on a real pass, what each part executes at this size."""
        with MacCounter() as meter, running(Pass(meter=meter)) as now:
            self.network(image)
        with MacCounter() as masks:
            if self.mask_generator is not None:
                encoded = self.mask_generator.encode(image)
                self.mask_generator(encoded, encoded)
        blocks = tuple(now.block_macs.get(index, 0) for index in range(len(self.blocks)))
        return NetworkCost(
            meter.macs,
            blocks,
            now.head_macs,
            masks.macs,
            count_parameters(self.network),
            tuple(block.params for block in self.blocks),
            0 if self.mask_generator is None else count_parameters(self.mask_generator),
        )

    def plain(self) -> nn.Module:
        """A copy of the network for key frames without gates, as it came, with the weights it has now."""
        return remove_gates(copy.deepcopy(self.network))

    @property
    def notes(self) -> tuple[str, ...]:
        """Limits of this network: what cannot be done with it, and what still can."""
        notes = []
        if not self.blocks:
            notes.append(
                "no residual block can be skipped: frames are computed whole or carried; "
                "name blocks with blocks=[...] if you know better"
            )
        if self.head is None:
            notes.append(
                "no head can be split off: partial frames blend logits instead of features; "
                "name the module that turns features into logits with head=..."
            )
        return tuple(notes)

    def run(self, network: nn.Module, image: Tensor, now: Pass) -> NetworkOutput:
        """A pass through one of its networks; without a head of its own, the logits are the features."""
        with running(now):
            logits = find_logits(network(image), self.output, image.shape[2:])
        if self.head is not None:
            return NetworkOutput(now.features, logits)
        if now.blend is not None:
            (logits,) = now.blend([logits])
        return NetworkOutput([logits], logits)


def accelerate(
    model: nn.Module,
    example: Tensor,
    *,
    head: str | None = None,
    blocks: list[str] | None = None,
    output: str | int | None = None,
    mask_generator: bool = False,
    two_weight_sets: bool = False,
    timed: bool = False,
) -> AcceleratedNetwork:
    """Make a segmentation network ready for video. The model itself is left alone; a copy is gated.

    example: an image batch the network accepts, (1, 3, H, W); its values do not matter.
    head: name of the module that turns features into logits; found if not given.
    blocks: names of the residual blocks that may be skipped; found if not given.
    output: key or index of the logits in what the network returns, where it is not a tensor; found if not given.
    mask_generator: add an untrained mask generator, to be trained; without one, motion alone shows what changed.
    two_weight_sets: give partial frames weights of their own, as the paper does.
    timed: measure the milliseconds of each block.
    """
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise ModelError(f"accelerate takes a torch.nn.Module; pass a {kind} to VideoSegmenter as it is")
    if not isinstance(example, Tensor) or example.dim() != 4:
        raise ModelError("example must be an image batch, a tensor of shape (1, 3, H, W)")
    with torch.no_grad():  # else the weights of a copied ScriptModule are results of a computation
        network = copy.deepcopy(_unwrap(model)).eval()
    logits = _first_logits(network, example, output)
    if isinstance(network, torch.jit.ScriptModule):  # compiled for good: nothing inside can be reached
        return AcceleratedNetwork(network, (), None, output, logits.shape[1], example=example)
    remove_gates(network)
    if blocks is None:
        prunable = find_blocks(network, example, timed)
        if not can_be_skipped(network, prunable, example):
            prunable = ()
    else:
        prunable = find_named_blocks(network, example, blocks, timed)
        if not can_be_skipped(network, prunable, example):
            raise ModelError(
                f"blocks {', '.join(blocks)} cannot be skipped: the network collects what they give by hooks, which a "
                "skipped block does not call; leave them out"
            )
    heads = find_heads(network, example, prunable, logits.shape[1])
    if head is None:
        head = heads[0] if heads else None
    else:
        check_head(network, example, head, heads)
    generator = MaskGenerator(len(prunable)) if mask_generator else None
    accelerated = AcceleratedNetwork(
        network, prunable, head, output, logits.shape[1], generator, two_weight_sets, example
    )
    accelerated.to(example.device).eval()
    copy_where_written_on(accelerated, example)
    return accelerated


def accelerate_at(
    model: nn.Module, size: tuple[int, int], given: tuple[int, int] | None = None, **options: Any
) -> AcceleratedNetwork:
    """`accelerate` on a black image of a size, or of the only one that the network takes; options as for it.

    That one is what the network or its configuration states, else the size that was given, else the first of
    `COMMON_SIZES` that runs.
    """
    first = next(model.parameters(), None)
    example = torch.zeros(1, 3, *size, dtype=weight_dtype(model), device=None if first is None else first.device)
    stated = find_stated_size(_unwrap(model))
    try:
        network = accelerate(model, example, **options)
    except ModelError:
        other = stated or given or _find_size(model, example)
        if other in (None, size):
            raise
        network = accelerate(model, example.new_zeros(1, 3, *other), **options)
        twice = example.new_zeros(1, 3, 2 * other[0], 2 * other[1])
        if other == stated or not _runs_at(network, twice):  # else it takes multiples of some number
            network.input_size = other
        return network
    if stated == size and not _runs_at(network, example.new_zeros(1, 3, size[0] + 32, size[1] + 64)):
        network.input_size = stated
    return network


def _find_size(model: nn.Module, example: Tensor) -> tuple[int, int] | None:
    """Find the first common size at which a network runs that does not run on the example."""
    network = copy.deepcopy(_unwrap(model)).eval()
    if _runs_at(network, example):
        return None
    sizes = (side for side in COMMON_SIZES if _runs_at(network, example.new_zeros(1, 3, side, side)))
    found = next(sizes, None)
    return None if found is None else (found, found)


@torch.no_grad()
def _runs_at(network: nn.Module, image: Tensor) -> bool:
    try:
        network(image)
    except Exception:  # whatever the network raises
        return False
    return True


def copy_where_written_on(network: AcceleratedNetwork, example: Tensor) -> None:
    """Some networks write on a block's output or the head's input in place; there a gate must hand on a copy."""
    wrappers = [m for m in network.modules() if isinstance(m, Gate | Tap)]
    if not wrappers or any(wrapper.copies for wrapper in wrappers):
        return
    noise = make_noise(example)
    results: list[list[Tensor]] = []
    for copies in (True, False):
        for wrapper in wrappers:
            wrapper.copies = copies
        with torch.no_grad():
            skipped = network.partial(noise.clone(), (False,) * len(network.blocks))
        results.append([*skipped.features, skipped.logits])
    if not all(torch.equal(one, two) for one, two in zip(*results, strict=True)):
        for wrapper in wrappers:
            wrapper.copies = True


def _unwrap(model: nn.Module) -> nn.Module:
    """Unwrap a network from PyTorch's own wrappers, which do not change its output."""
    if isinstance(model, nn.DataParallel | DistributedDataParallel | AveragedModel):
        return _unwrap(model.module)
    compiled = dict(model.named_children()).get("_orig_mod")  # by torch.compile, whose class takes a second to import
    return model if compiled is None else _unwrap(compiled)


def _first_logits(network: nn.Module, example: Tensor, output: str | int | None) -> Tensor:
    try:
        with torch.no_grad():
            out = network(example.clone())
    except Exception as error:
        why = f"{first_line(error)}; {advise(network)}"
        raise ModelError(f"the network does not run on the example of shape {tuple(example.shape)}: {why}") from error
    return find_logits(out, output, example.shape[2:])
