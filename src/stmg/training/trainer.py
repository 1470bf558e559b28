"""Training: a recipe in, checkpoints out; resumed where it was interrupted, by one process or many."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import torch
from torch import Tensor, nn, optim
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.optim.swa_utils import AveragedModel

from stmg.data.catalogue import open_dataset
from stmg.data.clips import TrainingClips
from stmg.data.dataset import Dataset
from stmg.errors import SettingsError, TrainingError
from stmg.gating.mask_generator import MaskGenerator
from stmg.models.store import save
from stmg.models.tensor_files import write_tensors
from stmg.training.averaging import moving_average
from stmg.training.base_stage import BaseStage
from stmg.training.batches import Batch, load_batches, make_clips
from stmg.training.log import Log
from stmg.training.processes import Machines, any_process, defer_interrupt, restore_error
from stmg.training.recipe import Recipe, read_recipe
from stmg.training.resume import Progress, TrainingState, claim_folder
from stmg.training.schedule import make_optimizer, set_learning_rate
from stmg.training.stage import Figures, Stage
from stmg.training.stmg_stage import StmgStage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

STAGES: dict[str, Callable[[Recipe, Dataset, TrainingClips], Stage]] = {"base": BaseStage, "stmg": StmgStage}


@dataclass(frozen=True)
class StepReport:
    """What a run reports after each step."""

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    figures: Figures | None
    """Of the last evaluation."""


OnStep = Callable[[StepReport], None]


def train(
    recipe: Recipe | str | Path,
    overrides: Iterable[str] = (),
    *,
    out: str | Path | None = None,
    machines: Machines | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Train a network from a recipe, and return the folder of the run, with the checkpoints `best` and `last` in it.

    recipe: a YAML file such as those in `recipes/`, or a `Recipe`.
    overrides: of the file's settings, like `data.path=CamVid` or `optimizer.learning_rate=0.01`.
    out: the folder; `runs/NAME` for a recipe `NAME.yaml`. If it holds a part of the same run, that is resumed.
    machines: device, number of processes, precision and threads.
    on_step: called after each step; by the first process if there are several.

    Ctrl-C finishes the current step, saves, and raises KeyboardInterrupt.

        stmg.train("recipes/small-streets.yaml", ["steps=100"])
    """
    overrides = [overrides] if isinstance(overrides, str) else list(overrides)
    if isinstance(recipe, Recipe):
        if overrides:
            raise SettingsError("overrides are for a recipe's file; a Recipe is changed with dataclasses.replace")
        if out is None:
            raise SettingsError("a Recipe has no name to call its folder by: out=...")
        folder = Path(out)
    else:
        folder = Path("runs") / Path(recipe).stem if out is None else Path(out)
        recipe = read_recipe(recipe, overrides)
    machines = machines or Machines()
    fabric = machines.make_fabric()
    _check_batch(recipe, fabric)
    claim_folder(recipe, folder)
    try:
        fabric.launch(_Worker(recipe, folder, machines.threads, on_step))
    except ProcessRaisedException as error:
        raise restore_error(str(error)) from None
    return folder


def _check_batch(recipe: Recipe, fabric: Fabric) -> None:
    if recipe.batch % fabric.world_size:
        raise SettingsError(f"a batch of {recipe.batch} cannot be shared by {fabric.world_size} processes")
    frozen = recipe.frozen_norm and recipe.stage == "base"  # those of the mask generator never are
    if recipe.batch // fabric.world_size < 2 and not _syncs_norms(fabric) and not frozen:
        way_out = ", or frozen_norm=true" if recipe.stage == "base" else ""
        raise SettingsError(f"batch-norms need two clips per process at least: batch=2 or more{way_out}")


def _syncs_norms(fabric: Fabric) -> bool:
    """Whether the batch-norms of all processes see the whole batch."""
    return fabric.world_size > 1 and fabric.device.type == "cuda"


class _Worker:
    """One process's part of a run; `fabric.launch` calls it in each process."""

    def __init__(self, recipe: Recipe, folder: Path, threads: int | None, on_step: OnStep | None) -> None:
        self.recipe, self.folder, self.threads, self.on_step = recipe, folder, threads, on_step

    def __call__(self, fabric: Fabric) -> None:
        recipe = self.recipe
        if self.threads is not None:
            torch.set_num_threads(self.threads)
        cv2.setNumThreads(1)  # the network has the cores
        torch.manual_seed(recipe.seed)
        dataset = open_dataset(recipe.data.path)
        if recipe.data.val:
            dataset.videos(recipe.data.val)  # an error now rather than at the first evaluation
        clips = make_clips(recipe, dataset, fabric.world_size)
        stage = STAGES[recipe.stage](recipe, dataset, clips)
        module = stage.training.to(fabric.device)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if _syncs_norms(fabric):
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        average = None
        if recipe.ema_decay:
            average = AveragedModel(module.network, multi_avg_fn=moving_average(recipe.ema_decay), use_buffers=True)
        optimizer = make_optimizer(module, recipe.optimizer)
        progress = Progress(val=recipe.data.val)
        state = TrainingState(module, optimizer, progress, fabric.strategy.precision, average)
        state.load(self.folder, fabric.device)
        progress.score_on(recipe.data.val)
        if recipe.compile:
            module.network.compile()
        trained, wrapped_optimizer = fabric.setup(module, optimizer)
        batches = load_batches(fabric, recipe, clips, progress.step)
        log = Log(self.folder, progress.step) if fabric.is_global_zero else None
        start = time.monotonic() - 60 * progress.minutes
        with defer_interrupt() as interrupted:
            for step in range(progress.step, recipe.steps):
                batch = next(batches)
                rate = set_learning_rate(wrapped_optimizer, recipe.optimizer, step, recipe.steps)
                losses = self._step(fabric, trained, wrapped_optimizer, batch, step)
                if average is not None:
                    average.update_parameters(module.network)
                progress.step, progress.minutes = step + 1, (time.monotonic() - start) / 60
                stop = any_process(fabric, interrupted.is_set())
                due = (step + 1) % recipe.evaluate_every == 0 or step + 1 == recipe.steps
                if log is not None:
                    log.add_values("train", {**losses, "learning rate": rate}, step + 1)
                    if due:
                        network = module.network if average is None else average.module
                        self._evaluate(stage, network, fabric.device, progress, log)
                    if due or stop or (step + 1) % recipe.save_every == 0:
                        state.save(self.folder)
                    if self.on_step is not None:
                        self.on_step(StepReport(step + 1, recipe.steps, losses, rate, progress.figures))
                if due:
                    fabric.barrier()
                if stop:
                    raise KeyboardInterrupt
        if log is not None:
            log.close()

    def _step(
        self, fabric: Fabric, module: nn.Module, optimizer: optim.Optimizer, batch: Batch, step: int
    ) -> dict[str, float]:
        """One step; what is sampled in it follows from the seed, the step and the process alone."""
        recipe = self.recipe
        torch.manual_seed(hash((recipe.seed, step, fabric.global_rank)) % 2**63)
        module.train()
        if recipe.frozen_norm:
            _freeze_norms(module)
        optimizer.zero_grad()
        losses: dict[str, Tensor] = module(batch)
        self._check_finite(fabric, batch, losses, losses["loss"], step)
        fabric.backward(losses["loss"])
        max_norm = recipe.optimizer.clip_gradient or float("inf")
        norm = fabric.clip_gradients(module, optimizer, max_norm=max_norm, error_if_nonfinite=False)
        assert norm is not None
        if fabric.strategy.precision.precision != "16-mixed":  # which skips such steps by itself, and tries a new scale
            self._check_finite(fabric, batch, losses, norm, step)
        optimizer.step()
        return {name: float(value.detach()) for name, value in losses.items()}

    def _check_finite(self, fabric: Fabric, batch: Batch, losses: dict[str, Tensor], value: Tensor, step: int) -> None:
        """Stop before a loss or gradient that is not a number reaches the weights, and save its batch."""
        own = bool(torch.isfinite(value.detach()))
        if not any_process(fabric, not own):
            return
        path, where = self.folder / f"failed_batch_{fabric.global_rank}.safetensors", "another process has the batch"
        if not own:
            tensors = {name: part.detach().cpu().contiguous() for name, part in batch._asdict().items()}
            write_tensors(tensors, path)
            where = f"the batch is in {path}"
        parts = ", ".join(f"{name} {float(part.detach()):.3g}" for name, part in losses.items())
        raise TrainingError(
            f"the loss or its gradient is not a number at step {step} ({parts}); {where}; "
            "a lower optimizer.learning_rate or optimizer.clip_gradient=1 may help"
        )

    def _evaluate(self, stage: Stage, network: nn.Module, device: torch.device, progress: Progress, log: Log) -> None:
        """Evaluate the weights, log the figures and a picture, and save the checkpoints."""
        network.eval()
        figures, picture = stage.evaluate(network, device), stage.draw(network, device)
        progress.figures = figures
        log.add_values("val", figures, progress.step)
        if picture is not None:
            log.add_picture(picture, progress.step)
        finished, card = stage.finish(network)
        notes = {**card.notes, "step": progress.step, "minutes": round(progress.minutes, 1), "figures": figures}
        score = figures.get("score")
        # Where nothing is scored, the best weights are the last.
        for name in ("last", "best") if score is None or score > progress.best else ("last",):
            save(finished, self.folder / name, replace(card, notes=notes))
        progress.best = max(progress.best, -math.inf if score is None else score)


def _freeze_norms(module: nn.Module) -> None:
    """All but the mask generator's: it is new in the second stage, so nobody has measured its statistics."""
    generators = [part for part in module.modules() if isinstance(part, MaskGenerator)]
    new = {part for generator in generators for part in generator.modules()}
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part not in new:
            part.eval()
