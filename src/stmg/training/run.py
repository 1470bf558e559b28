"""A training run: batches, steps, evaluations, checkpoints; taken up where it was left, by one process or many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from stmg.acceleration.accelerate import AcceleratedNetwork
from stmg.checkpoint import Card, save
from stmg.config import Recipe, recipe_text
from stmg.data.catalogue import open_dataset
from stmg.data.clips import Clip, Clips, numbers
from stmg.data.dataset import Dataset
from stmg.frames import Image
from stmg.training.schedule import optimiser_for, set_learning_rate

STATE = "state.pt"
FAILED_BATCH = "failed_batch.safetensors"


class Stage(Protocol):
    """What is particular to a stage of training."""

    training: nn.Module
    """Called with a batch, it gives its losses; `training.network` is what is trained and saved."""

    def evaluate(self, network: nn.Module, device: torch.device) -> dict[str, float]:
        """Figures on the validation split; `score` is the one by which the best weights are kept."""

    def picture(self, network: nn.Module, device: torch.device) -> Image | None:
        """A look at what it has learned."""

    def finished(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """The network as it is shipped, and its card."""


@dataclass(frozen=True)
class Told:
    """What a run says of a step."""

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    figures: dict[str, float] | None
    """Of the last evaluation."""


@dataclass(frozen=True)
class Machines:
    """Where a run takes place."""

    device: str = "auto"
    devices: int = 1
    nodes: int = 1
    precision: str = "32-true"

    def fabric(self) -> Any:
        try:
            from lightning_fabric import Fabric
        except ImportError:
            raise ImportError('training needs: pip install "stmg[train]"') from None
        many = self.devices * self.nodes > 1
        # Processes are started here, unless torchrun, a cluster or a second machine has done so.
        alone = self.nodes == 1 and "TORCHELASTIC_RUN_ID" not in os.environ
        strategy = ("ddp_spawn" if alone else "ddp") if many else "auto"
        return Fabric(
            accelerator=self.device,
            devices=self.devices,
            num_nodes=self.nodes,
            strategy=strategy,
            precision=self.precision,  # type: ignore[arg-type]
        )


def train(
    recipe: Recipe,
    folder: str | Path,
    stage: Callable[[Recipe, Dataset, Clips], Stage],
    machines: Machines | None = None,
    report: Callable[[Told], None] | None = None,
) -> None:
    """Train as a recipe says, into a folder; if the folder holds a part of the same run, go on from there."""
    folder = Path(folder)
    fabric = (machines or Machines()).fabric()
    if recipe.batch % fabric.world_size:
        raise ValueError(f"a batch of {recipe.batch} cannot be shared by {fabric.world_size} processes")
    check_same_run(recipe, folder)
    fabric.launch(partial(_run, recipe=recipe, folder=folder, make=stage, report=report))


def check_same_run(recipe: Recipe, folder: Path) -> None:
    """A folder belongs to one recipe."""
    written = folder / "recipe.yaml"
    text = recipe_text(recipe)
    if written.is_file() and (folder / STATE).is_file():
        old = written.read_text().splitlines()
        changed = [line.strip() for line in text.splitlines() if line not in old]
        if changed:
            raise ValueError(
                f"{folder} holds a run of another recipe ({changed[0]}); choose another --out, or delete it"
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    written.write_text(text)


def _run(
    fabric: Any, recipe: Recipe, folder: Path, make: Callable[..., Stage], report: Callable[[Told], None] | None
) -> None:
    torch.manual_seed(recipe.seed)
    dataset = open_dataset(recipe.data.path)
    aligned = recipe.stage == "stmg" and recipe.stmg.align
    extra = tuple(v for path in recipe.data.unlabelled for v in open_dataset(path).videos("all"))
    clips = Clips(dataset, recipe.data.train, recipe.data, recipe.augment, recipe.motion, recipe.seed, aligned, extra)
    stage = make(recipe, dataset, clips)
    module: Any = stage.training.to(fabric.device)
    module.to(memory_format=torch.channels_last)
    if fabric.world_size > 1 and fabric.device.type == "cuda":
        module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
    average = AveragedModel(module.network, multi_avg_fn=_averaging(recipe.average), use_buffers=True)
    optimiser = optimiser_for(module, recipe.optimiser)
    progress: dict[str, Any] = {"step": 0, "best": -float("inf"), "figures": None, "minutes": 0.0}
    state = {"module": module, "average": average, "optimiser": optimiser, "progress": progress}
    _resume(folder, state, fabric.device)
    if recipe.compile:
        module.network.compile()
    trained, optimiser = fabric.setup(module, optimiser)
    batches = _batches(fabric, recipe, clips, progress["step"])
    log = _log(folder, progress["step"]) if fabric.is_global_zero else None
    began = time.monotonic() - 60 * progress["minutes"]
    for step in range(progress["step"], recipe.steps):
        batch = next(batches)
        rate = set_learning_rate(optimiser, recipe.optimiser, step, recipe.steps)
        losses = _step(fabric, recipe, trained, optimiser, batch, step, folder)
        if recipe.average:
            average.update_parameters(module.network)
        progress["step"], progress["minutes"] = step + 1, (time.monotonic() - began) / 60
        due = (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps
        if fabric.is_global_zero:
            if log is not None:
                for name, value in losses.items():
                    log.add_scalar(f"train/{name}", value, step + 1)
                log.add_scalar("train/learning rate", rate, step + 1)
            if due:
                network = average.module if recipe.average else module.network
                _evaluate(stage, network, fabric.device, folder, progress, log)
            if due or (step + 1) % recipe.save_every == 0:
                save_state(folder, state)
            if report is not None:
                report(Told(step + 1, recipe.steps, losses, rate, progress["figures"]))
        if due:
            fabric.barrier()
    if log is not None:
        log.close()


def _step(
    fabric: Any, recipe: Recipe, module: Any, optimiser: Any, batch: dict[str, Tensor], step: int, folder: Path
) -> dict[str, float]:
    """One step; what is drawn in it follows from the seed, the step and the process alone."""
    torch.manual_seed(hash((recipe.seed, step, fabric.global_rank)) % 2**63)
    module.train()
    if recipe.frozen_norm:
        _freeze_norms(module)
    optimiser.zero_grad()
    losses: dict[str, Tensor] = module(batch)
    right = torch.isfinite(losses["loss"].detach()).float()
    if fabric.world_size > 1:
        right = fabric.all_reduce(right, reduce_op="mean")
    if float(right) < 1:
        if fabric.is_global_zero:
            _keep(batch, folder / FAILED_BATCH)
        parts = ", ".join(f"{name} {float(value.detach()):.3g}" for name, value in losses.items())
        raise FloatingPointError(
            f"the loss is not a number at step {step} ({parts}); its batch is in {folder / FAILED_BATCH}; "
            "a lower optimiser.learning_rate or optimiser.clip_gradient=1 may help"
        )
    fabric.backward(losses["loss"])
    if recipe.optimiser.clip_gradient:
        fabric.clip_gradients(module, optimiser, max_norm=recipe.optimiser.clip_gradient)
    optimiser.step()
    return {name: float(value.detach()) for name, value in losses.items()}


def _evaluate(
    stage: Stage, network: nn.Module, device: torch.device, folder: Path, progress: dict[str, Any], log: Any
) -> None:
    network.eval()
    step = progress["step"]
    figures = stage.evaluate(network, device)
    picture = stage.picture(network, device)
    progress["figures"] = figures
    if log is not None:
        for name, value in figures.items():
            log.add_scalar(f"val/{name}", value, step)
        if picture is not None:
            log.add_image("val/picture", picture, step, dataformats="HWC")
    if picture is not None:
        _write_picture(folder / "pictures" / f"{step:06d}.jpg", picture)
    shipped, card = stage.finished(network)
    notes = {**card.notes, "step": step, "minutes": round(progress["minutes"], 1), "figures": figures}
    for name, wanted in (("last", True), ("best", figures.get("score", 0.0) > progress["best"])):
        if wanted:
            save(folder / name, shipped, _with_notes(card, notes))
    progress["best"] = max(progress["best"], figures.get("score", 0.0))


def save_state(folder: Path, state: dict[str, Any]) -> None:
    """Everything to go on from; the older one stays until the new one is whole."""
    content = {name: part.state_dict() if hasattr(part, "state_dict") else dict(part) for name, part in state.items()}
    torch.save(content, folder / f"{STATE}.new")
    os.replace(folder / f"{STATE}.new", folder / STATE)


def _resume(folder: Path, state: dict[str, Any], device: torch.device) -> None:
    path = folder / STATE
    if not path.is_file():
        return
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read ({str(error).splitlines()[0]}); delete {folder} to start over"
        ) from None
    for name, part in state.items():
        if hasattr(part, "load_state_dict"):
            part.load_state_dict(content[name])
        else:
            part.update(content[name])


def _batches(fabric: Any, recipe: Recipe, clips: Clips, step: int) -> Iterator[dict[str, Tensor]]:
    sampler = list(numbers(step, recipe.steps, recipe.batch, fabric.global_rank, fabric.world_size))
    loader = DataLoader(clips, batch_sampler=sampler, num_workers=recipe.data.workers, collate_fn=collated)  # type: ignore[arg-type,var-annotated]
    return iter(fabric.setup_dataloaders(loader, use_distributed_sampler=False))


def collated(clips: list[Clip]) -> dict[str, Tensor]:
    """Clips of one size as a batch: `images` (N, T, H, W, 3), `labels` (N, T, H, W), `fields` (N, T - 1, h, w, 2)."""
    return {name: torch.from_numpy(np.stack([getattr(clip, name) for clip in clips])) for name in Clip._fields}


def _averaging(decay: float) -> Any:
    """A moving average that forgets faster while it is young."""

    def average(averaged: Any, current: Any, number: Tensor | int) -> None:
        kept = min(decay, (1 + float(number)) / (10 + float(number)))
        for old, new in zip(averaged, current, strict=True):
            if old.is_floating_point():
                old.lerp_(new, 1 - kept)
            else:
                old.copy_(new)

    return torch.no_grad()(average)


def _freeze_norms(module: nn.Module) -> None:
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()


def _keep(batch: dict[str, Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    save_file({name: value.detach().cpu().contiguous() for name, value in batch.items()}, path)


def _with_notes(card: Card, notes: dict[str, Any]) -> Card:
    from dataclasses import replace

    return replace(card, notes=notes)


def _log(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)


def _write_picture(path: Path, picture: Image) -> None:
    import cv2

    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
