"""A training run: batches, steps, evaluations, checkpoints; taken up where it was left, by one process or many."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import cv2
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.optim.swa_utils import AveragedModel

from stmg.acceleration.accelerate import AcceleratedNetwork
from stmg.card import Card
from stmg.checkpoint import save
from stmg.config import Recipe
from stmg.data.catalogue import open_dataset
from stmg.data.clips import Clips
from stmg.data.dataset import Dataset
from stmg.frames import Image
from stmg.training.batches import batches_for, clips_for, next_batch
from stmg.training.processes import Machines, any_process, asked_to_stop, original_error
from stmg.training.resume import claim, load_state, save_state
from stmg.training.schedule import optimiser_for, set_learning_rate


class Stage(Protocol):
    """What is particular to a stage of training."""

    @property
    def training(self) -> nn.Module:
        """Called with a batch, it gives its losses; `training.network` is what is trained and saved."""

    def evaluate(self, network: nn.Module, device: torch.device) -> dict[str, float]:
        """Figures on the validation split; `score` is the one by which the best weights are kept."""

    def picture(self, network: nn.Module, device: torch.device) -> Image | None:
        """A look at what it has learned."""

    def finished(self, network: nn.Module) -> tuple[AcceleratedNetwork, Card]:
        """The network as it is shipped, and its card."""


MakeStage = Callable[[Recipe, Dataset, Clips], Stage]


@dataclass(frozen=True)
class Told:
    """What a run says of a step."""

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    figures: dict[str, float] | None
    """Of the last evaluation."""


def train(
    recipe: Recipe,
    folder: str | Path,
    stage: MakeStage,
    machines: Machines | None = None,
    report: Callable[[Told], None] | None = None,
) -> None:
    """Train as a recipe says, into a folder; if the folder holds a part of the same run, go on from there.

    Ctrl-C ends the step at hand, saves, and raises KeyboardInterrupt.
    """
    folder = Path(folder)
    machines = machines or Machines()
    fabric = machines.fabric()
    if recipe.batch % fabric.world_size:
        raise ValueError(f"a batch of {recipe.batch} cannot be shared by {fabric.world_size} processes")
    together = fabric.world_size > 1 and fabric.device.type == "cuda"  # their batch-norms see all of a batch
    if recipe.batch // fabric.world_size < 2 and not together and not recipe.frozen_norm:
        raise ValueError("batch-norms learn from two clips a process at least: batch=2 or more, or frozen_norm=true")
    claim(recipe, folder)
    job = _Run(recipe, folder, stage, report, machines.threads)
    try:
        fabric.launch(job)
    except ProcessRaisedException as error:
        raise original_error(str(error)) from None


class _Run:
    """One process's part of a run."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        make: MakeStage,
        report: Callable[[Told], None] | None,
        threads: int | None,
    ) -> None:
        self.recipe, self.folder, self.make, self.report, self.threads = recipe, folder, make, report, threads

    def __call__(self, fabric: Any) -> None:
        recipe = self.recipe
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        cv2.setNumThreads(1)  # the network has the cores
        torch.manual_seed(recipe.seed)
        dataset = open_dataset(recipe.data.path)
        clips = clips_for(recipe, dataset, fabric.world_size)
        self.stage = self.make(recipe, dataset, clips)
        module: Any = self.stage.training.to(fabric.device)
        module.to(memory_format=torch.channels_last)
        if fabric.world_size > 1 and fabric.device.type == "cuda":
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        average = None
        if recipe.average:
            average = AveragedModel(module.network, multi_avg_fn=_averaging(recipe.average), use_buffers=True)
        optimiser = optimiser_for(module, recipe.optimiser)
        progress: dict[str, Any] = {"step": 0, "best": -float("inf"), "figures": None, "minutes": 0.0}
        state = {"module": module, "optimiser": optimiser, "progress": progress, "precision": fabric.strategy.precision}
        if average is not None:
            state["average"] = average
        load_state(self.folder, state, fabric.device)
        if recipe.compile:
            module.network.compile()
        trained, optimiser = fabric.setup(module, optimiser)
        batches = batches_for(fabric, recipe, clips, progress["step"])
        log = _log(self.folder, progress["step"]) if fabric.is_global_zero else None
        began = time.monotonic() - 60 * progress["minutes"]
        with asked_to_stop() as asked:
            for step in range(progress["step"], recipe.steps):
                batch = next_batch(batches)
                rate = set_learning_rate(optimiser, recipe.optimiser, step, recipe.steps)
                losses = self._step(fabric, trained, optimiser, batch, step)
                if average is not None:
                    average.update_parameters(module.network)
                progress["step"], progress["minutes"] = step + 1, (time.monotonic() - began) / 60
                stop = any_process(fabric, asked.is_set())
                due = (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps
                if fabric.is_global_zero:
                    _log_step(log, losses, rate, step + 1)
                    if due:
                        self._evaluate(module.network if average is None else average.module, fabric, progress, log)
                    if due or stop or (step + 1) % recipe.save_every == 0:
                        save_state(self.folder, state)
                    if self.report is not None:
                        self.report(Told(step + 1, recipe.steps, losses, rate, progress["figures"]))
                if due:
                    fabric.barrier()
                if stop:
                    raise KeyboardInterrupt
        if log is not None:
            log.close()

    def _step(self, fabric: Any, module: Any, optimiser: Any, batch: dict[str, Tensor], step: int) -> dict[str, float]:
        """One step; what is drawn in it follows from the seed, the step and the process alone."""
        recipe = self.recipe
        torch.manual_seed(hash((recipe.seed, step, fabric.global_rank)) % 2**63)
        module.train()
        if recipe.frozen_norm:
            _freeze_norms(module)
        optimiser.zero_grad()
        losses: dict[str, Tensor] = module(batch)
        self._check(fabric, batch, losses, losses["loss"], step)
        fabric.backward(losses["loss"])
        most = recipe.optimiser.clip_gradient or float("inf")
        norm = fabric.clip_gradients(module, optimiser, max_norm=most, error_if_nonfinite=False)
        if fabric.strategy.precision.precision != "16-mixed":  # which skips such steps by itself, and tries a new scale
            self._check(fabric, batch, losses, norm, step)
        optimiser.step()
        return {name: float(value.detach()) for name, value in losses.items()}

    def _check(
        self, fabric: Any, batch: dict[str, Tensor], losses: dict[str, Tensor], value: Tensor, step: int
    ) -> None:
        """Stop before a loss or gradient that is no number reaches the weights; its batch is kept."""
        own = bool(torch.isfinite(value.detach()))
        if not any_process(fabric, not own):
            return
        path, where = self.folder / f"failed_batch_{fabric.global_rank}.safetensors", "another process has the batch"
        if not own:
            save_file({name: part.detach().cpu().contiguous() for name, part in batch.items()}, path)
            where = f"the batch is in {path}"
        parts = ", ".join(f"{name} {float(part.detach()):.3g}" for name, part in losses.items())
        raise FloatingPointError(
            f"the loss or its gradient is not a number at step {step} ({parts}); {where}; "
            "a lower optimiser.learning_rate or optimiser.clip_gradient=1 may help"
        )

    def _evaluate(self, network: nn.Module, fabric: Any, progress: dict[str, Any], log: Any) -> None:
        network.eval()
        step = progress["step"]
        figures = self.stage.evaluate(network, fabric.device)
        picture = self.stage.picture(network, fabric.device)
        progress["figures"] = figures
        if log is not None:
            for name, value in figures.items():
                log.add_scalar(f"val/{name}", value, step)
            if picture is not None:
                log.add_image("val/picture", picture, step, dataformats="HWC")
        if picture is not None:
            _write_picture(self.folder / "pictures" / f"{step:06d}.jpg", picture)
        shipped, card = self.stage.finished(network)
        notes = {**card.notes, "step": step, "minutes": round(progress["minutes"], 1), "figures": figures}
        # Where nothing is scored, the best weights are the last.
        score = figures.get("score", float(step))
        for name, wanted in (("last", True), ("best", score > progress["best"])):
            if wanted:
                save(self.folder / name, shipped, replace(card, notes=notes))
        progress["best"] = max(progress["best"], score)


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


def _log(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)


def _log_step(log: Any, losses: dict[str, float], rate: float, step: int) -> None:
    if log is not None:
        for name, value in losses.items():
            log.add_scalar(f"train/{name}", value, step)
        log.add_scalar("train/learning rate", rate, step)


def _write_picture(path: Path, picture: Image) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, 85])
