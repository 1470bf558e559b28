"""Training: takes a stage and writes checkpoints. Resumes interrupted runs, with one process or many."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.spawn import ProcessRaisedException
from torch.optim.swa_utils import AveragedModel

from stmg.data.catalogue import open_dataset
from stmg.data.clips import TrainingClips
from stmg.data.dataset import Dataset
from stmg.errors import SettingsError, TrainingError
from stmg.networks.weights import write_tensors
from stmg.training.base import BaseStage
from stmg.training.processes import Interruption, Machines, any_process, defer_interrupt, limit_threads, restore_error
from stmg.training.recipe import FREE_SETTINGS, Optimizer, Recipe, read_recipe
from stmg.training.run_folder import Log, RunRecord, TrainingState, claim_folder
from stmg.training.schedule import make_optimizer, moving_average, set_learning_rate
from stmg.training.stage import Figures, Stage, freeze_norms, make_clips
from stmg.training.stmg import StmgStage

if TYPE_CHECKING:
    from lightning_fabric import Fabric

STAGES: dict[str, Callable[[Recipe, Dataset, TrainingClips], Stage]] = {"base": BaseStage, "stmg": StmgStage}


@dataclass(frozen=True)
class StepReport:
    """Progress of a run after a step."""

    step: int
    steps: int
    losses: dict[str, float]
    learning_rate: float
    figures: Figures | None
    """Results of the last evaluation."""


OnStep = Callable[[StepReport], None]


def train(
    recipe: Recipe | str | Path,
    overrides: Iterable[str] = (),
    *,
    out: str | Path | None = None,
    machines: Machines | None = None,
    on_step: OnStep | None = None,
) -> Path:
    """Train a network from a recipe. Return the folder of the run with the checkpoints `best` and `last`.

    recipe: a YAML file such as those in `recipes/`, or a `Recipe`.
    overrides: of settings in the file, like `data.path=CamVid` or `optimizer.learning_rate=0.01`.
    out: the folder. Default: `runs/NAME` for a recipe `NAME.yaml`. If it holds a part of the same run, resume that.
    machines: device, number of processes, precision and threads.
    on_step: called after each step, in the first process.

    Ctrl-C finishes the current step, saves, and raises KeyboardInterrupt.

        stmg.train("recipes/small-streets.yaml", ["steps=100"])
    """
    overrides = [overrides] if isinstance(overrides, str) else list(overrides)
    if isinstance(recipe, Recipe):
        if overrides:
            raise SettingsError("overrides need a recipe file; change a Recipe with dataclasses.replace")
        if out is None:
            raise SettingsError("a Recipe has no name for its folder; give out=...")
        folder = Path(out)
    else:
        folder = Path("runs") / Path(recipe).stem if out is None else Path(out)
        recipe = read_recipe(recipe, overrides)
    machines = machines or Machines()
    fabric = machines.make_fabric()
    _check_batch(recipe, fabric)
    claim_folder(recipe, folder, FREE_SETTINGS)
    try:
        fabric.launch(_Worker(recipe, folder, machines.threads, on_step))
    except ProcessRaisedException as error:
        raise restore_error(str(error)) from None
    return folder


def _check_batch(recipe: Recipe, fabric: Fabric) -> None:
    if recipe.batch % fabric.world_size:
        raise SettingsError(f"a batch of {recipe.batch} cannot be shared by {fabric.world_size} processes")
    frozen = recipe.frozen_norm and recipe.stage == "base"  # the mask generator's norms are never frozen
    if recipe.batch // fabric.world_size < 2 and not _syncs_norms(fabric) and not frozen:
        way_out = ", or frozen_norm=true" if recipe.stage == "base" else ""
        raise SettingsError(f"batch-norm needs at least two clips per process: set batch=2 or more{way_out}")


def _syncs_norms(fabric: Fabric) -> bool:
    """True if batch-norms are synchronized over all processes."""
    return fabric.world_size > 1 and fabric.device.type == "cuda"


@dataclass
class _Worker:
    """One process's part of a run. `fabric.launch` calls it in each process."""

    recipe: Recipe
    folder: Path
    threads: int | None
    on_step: OnStep | None

    def __call__(self, fabric: Fabric) -> None:
        recipe = self.recipe
        with limit_threads(self.threads):
            torch.manual_seed(recipe.seed)
            dataset = open_dataset(recipe.data.path)
            if recipe.data.val:
                dataset.videos(recipe.data.val)  # raise now rather than at the first evaluation
            stage = STAGES[recipe.stage](recipe, dataset, make_clips(recipe, dataset, fabric.world_size))
            trainer = Trainer(
                stage,
                fabric,
                self.folder,
                steps=recipe.steps,
                optimizer=recipe.optimizer,
                seed=recipe.seed,
                ema_decay=recipe.ema_decay,
                frozen_norm=recipe.frozen_norm,
                compile=recipe.compile,
                val=recipe.data.val,
                evaluate_every=recipe.evaluate_every,
                save_every=recipe.save_every,
                on_step=self.on_step,
            )
            trainer.run()


class Trainer:
    """Trains a stage: steps, evaluations and checkpoints in a folder. Resumes an interrupted run.

    The other arguments are settings of a recipe.
    val: the split to score on.
    minutes: time that the preparation took.
    """

    def __init__(
        self,
        stage: Stage,
        fabric: Fabric,
        folder: Path,
        *,
        steps: int,
        optimizer: Optimizer,
        seed: int,
        ema_decay: float = 0.0,
        frozen_norm: bool = False,
        compile: bool = False,
        val: str = "",
        evaluate_every: int,
        save_every: int,
        on_step: OnStep | None = None,
        minutes: float = 0.0,
    ) -> None:
        self.stage, self.fabric, self.folder, self.on_step = stage, fabric, folder, on_step
        self.steps, self.seed, self.frozen_norm = steps, seed, frozen_norm
        self.evaluate_every, self.save_every = evaluate_every, save_every
        self._settings = optimizer
        module = stage.training.to(fabric.device)
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        if _syncs_norms(fabric):
            module = nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-untyped-call]
        self._network = module.network
        self._average = None
        if ema_decay:
            self._average = AveragedModel(module.network, multi_avg_fn=moving_average(ema_decay), use_buffers=True)
        plain_optimizer = make_optimizer(module, optimizer)
        self.record = RunRecord(val=val, minutes=minutes)
        self._state = TrainingState(module, plain_optimizer, self.record, fabric.strategy.precision, self._average)
        self._state.load(folder, fabric.device)
        self.record.score_on(val)
        if compile:
            module.network.compile()
        self._module, self._optimizer = fabric.setup(module, plain_optimizer)

    @property
    def network(self) -> nn.Module:
        """The network that is evaluated and saved: the average of the weights, if there is one."""
        network = self._network if self._average is None else self._average.module
        assert isinstance(network, nn.Module)
        return network

    def run(self) -> None:
        """Train up to the last step. Ctrl-C finishes the current step, saves, and raises KeyboardInterrupt."""
        record, fabric = self.record, self.fabric
        batches = self.stage.load_batches(fabric, record.step, self.steps)
        log = Log(self.folder, record.step) if fabric.is_global_zero else None
        self._started = time.monotonic() - 60 * record.minutes
        with defer_interrupt() as interruption:
            if self._is_due(record.step) and record.evaluated < record.step:  # the run ended during an evaluation
                self._evaluate(log, interruption)
            for step in range(record.step, self.steps):
                batch = next(batches)
                rate = set_learning_rate(self._optimizer, self._settings, step, self.steps)
                losses = self._step(batch, step)
                if self._average is not None:
                    self._average.update_parameters(self._network)
                record.step, record.minutes = step + 1, self._minutes
                stop = any_process(fabric, interruption.is_set())
                is_due = self._is_due(step + 1)
                if log is not None:
                    log.add_values("train", {**losses, "learning rate": rate}, step + 1)
                    if is_due or stop or (step + 1) % self.save_every == 0:
                        self._state.save(self.folder)
                if is_due:
                    self._evaluate(log, interruption)
                if self.on_step is not None and log is not None:
                    self.on_step(StepReport(step + 1, self.steps, losses, rate, record.figures))
                if stop:
                    raise KeyboardInterrupt
        if log is not None:
            log.close()

    @property
    def _minutes(self) -> float:
        """Duration of the run so far, including parts before it was resumed."""
        return (time.monotonic() - self._started) / 60

    def _is_due(self, step: int) -> bool:
        """True if there is an evaluation after this step."""
        return step > 0 and (step % self.evaluate_every == 0 or step == self.steps)

    def _step(self, batch: Any, step: int) -> dict[str, float]:
        """Run one step. Its random numbers depend only on the seed, the step and the process."""
        module, fabric = self._module, self.fabric
        torch.manual_seed(hash((self.seed, step, fabric.global_rank)) % 2**63)
        module.train()
        if self.frozen_norm:
            freeze_norms(module)
        self._optimizer.zero_grad()
        losses: dict[str, Tensor] = module(batch)
        self._check_finite(batch, losses, losses["loss"], step)
        fabric.backward(losses["loss"])
        max_norm = self._settings.clip_gradient or float("inf")
        norm = fabric.clip_gradients(module, self._optimizer, max_norm=max_norm, error_if_nonfinite=False)
        assert norm is not None
        if fabric.strategy.precision.precision != "16-mixed":  # half precision skips such steps and lowers its scale
            self._check_finite(batch, losses, norm, step)
        self._optimizer.step()
        return {name: float(value.detach()) for name, value in losses.items()}

    def _check_finite(self, batch: Any, losses: dict[str, Tensor], value: Tensor, step: int) -> None:
        """Raise before a loss or gradient that is not finite reaches the weights, and save its batch."""
        own = bool(torch.isfinite(value.detach()))
        if not any_process(self.fabric, not own):
            return
        path, where = (
            self.folder / f"failed_batch_{self.fabric.global_rank}.safetensors",
            "another process has the batch",
        )
        if not own:
            tensors = {name: part.detach().cpu().contiguous() for name, part in batch._asdict().items()}
            write_tensors(tensors, path)
            where = f"the batch is in {path}"
        parts = ", ".join(f"{name} {float(part.detach()):.3g}" for name, part in losses.items())
        raise TrainingError(
            f"the loss or its gradient is not a number at step {step} ({parts}); {where}; "
            "a lower optimizer.learning_rate or optimizer.clip_gradient=1 may help"
        )

    def _evaluate(self, log: Log | None, interruption: Interruption) -> None:
        """Evaluate in the first process. Log figures and a picture, write checkpoints and the state to resume from.

        Ctrl-C interrupts it immediately, because a resumed run starts with it. Not with several processes: the
        others would wait.
        """
        record, device = self.record, self.fabric.device
        if log is not None:
            with interruption.at_once() if self.fabric.world_size == 1 else nullcontext():
                network = self.network.eval()
                figures, picture = self.stage.evaluate(network, device), self.stage.draw(network, device)
            record.minutes = self._minutes
            log.add_values("val", figures, record.step)
            if picture is not None:
                log.add_picture(picture, record.step)
            score = figures.get("score")
            notes = {"step": record.step, "minutes": round(record.minutes, 1), "figures": figures}
            # If nothing is scored, the best weights are the last.
            self.stage.save(network, self.folder, notes, score is None or score > record.best)
            record.figures, record.evaluated = figures, record.step
            record.best = max(record.best, -math.inf if score is None else score)
            self._state.save(self.folder)
        self.fabric.barrier()
