"""Adapt a model: from its name and some videos to the same model with a corrector beside it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Video
from stmg.data.folder import open_images
from stmg.models.correctors import load_corrector_network
from stmg.models.load import open_adapted, resolve, working_size
from stmg.models.model_files import list_companion_files, list_model_files
from stmg.models.names import is_export, refuse_export
from stmg.models.spec import ModelSpec, as_spec
from stmg.runtimes.torch import find_device
from stmg.training.adapt.settings import AdaptSettings
from stmg.training.adapt.train import Adapted, Progress, train_corrector
from stmg.training.adapt.write import write_adapted
from stmg.training.run_folder import STATE as RESUME

STATE = "adapt"  # folder of what an interrupted run goes on from


class Outcome(NamedTuple):
    """What came of it."""

    adapted: Adapted
    motion: str
    frames: int
    """Of all videos."""
    kept: bool
    """Whether the corrector is of help on what was held out; if not, nothing was written."""
    whole: bool
    """Whether the folder holds the model too; if not, it is for `corrector=`."""


def adapt(
    model: str | Path | ModelSpec,
    on: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: AdaptSettings | None = None,
    *,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Outcome:
    """Train a corrector for a model on videos without labels, and write both into a folder.

    model: a name as `stmg.load` takes it, or a spec; with a `corrector` it goes on from that one, else from ImageNet.
    on: videos, folders of videos or of images, or datasets, whose labels are not looked at.
    settings: how; the defaults take about 15 minutes on two cores.

        stmg.adapt("lite0-camvid", "drive.mp4", "lite0-adapted")
        segmenter = stmg.load("lite0-adapted")
    """
    spec = open_adapted(as_spec(model))
    identity = identify(spec)  # first of all: it takes the packages that copying the model will take
    settings, folder = settings or AdaptSettings(), Path(out)
    if not is_export(spec.name):  # an export is copied over one
        refuse_export(folder)
    size = working_size(spec)
    segmenter = resolve(spec.with_options(corrector="none"))
    videos = list_videos([on] if isinstance(on, str | Path) else on)
    motion, frames = segmenter.settings.motion.name, sum(map(len, videos))
    device = find_device(spec.settings.device)
    folder = spec.options.get("corrector", "none")
    start = None if folder == "none" else load_corrector_network(Path(folder))
    adapted = train_corrector(segmenter, videos, folder / STATE, size, settings, device, on_progress, identity, start)
    check, whole = adapted.check, False
    if check.helps:
        notes: dict[str, object] = {
            "model": spec.name,
            "frames": frames,
            "steps": adapted.steps,
            "pairs": adapted.pairs,
            "minutes": round(adapted.seconds / 60, 1),
            "held_out": {
                "clips": check.clips,
                "carried": [round(share, 5) for share in check.carried],
                "between": [round(share, 5) for share in check.between],
            },
        }
        whole = write_adapted(spec, adapted, motion, notes, folder)
    # Nothing is left to go on with; the log stays.
    shutil.rmtree(folder / STATE / "pairs", ignore_errors=True)
    (folder / STATE / RESUME).unlink(missing_ok=True)
    return Outcome(adapted, motion, frames, check.helps, whole)


def identify(spec: ModelSpec) -> str:
    """Which weights a model has, and the corrector to go on from: another file, or one that was written since, is
    another model."""
    spec = spec.with_options(
        corrector=spec.options.get("corrector", "none")
    )  # one beside the model is not gone on from
    files = [*list_model_files(spec), *list_companion_files(spec)]
    stamps = [f"{file.resolve()} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.is_file()]
    return "; ".join([spec.name, *sorted(stamps)])


def list_videos(sources: Sequence[str | Path]) -> list[Video]:
    """All videos of some sources, a folder of images among them; of datasets with splits, those to train on."""
    videos: list[Video] = []
    for source in sources:
        is_plain = Path(source).is_dir() and not is_dataset(source)
        videos += (open_images(Path(source)) if is_plain else open_dataset(source)).training_videos
    return videos
