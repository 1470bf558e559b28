"""Adapt a model: train a corrector on a user's own videos, without labels, and write it beside the model."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from stmg.data.catalogue import is_dataset, open_dataset
from stmg.data.dataset import Video
from stmg.data.folder import open_images
from stmg.models.correctors import FILES, GraphModel, load_corrector_network
from stmg.models.load import open_adapted, resolve
from stmg.models.model_files import list_companion_files, list_model_files
from stmg.models.names import is_code, is_export, is_graph_file, refuse_export
from stmg.models.spec import ModelSpec, as_spec
from stmg.runtimes.torch import find_device
from stmg.training.corrector import LAST
from stmg.training.corrector_run import PAIRS, Adapted, AdaptSettings, OnPhase, train_corrector
from stmg.training.run_folder import RECIPE, STATE
from stmg.video.normalization import Normalization

RUN = "adapt"  # folder of a run, in that of the model


def adapt(
    model: str | Path | ModelSpec,
    on: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: AdaptSettings | None = None,
    *,
    on_progress: OnPhase = lambda report: None,
) -> Adapted:
    """Train a corrector for a model on videos without labels, and write both into a folder.

    model: a name as `stmg.load` takes it, or a spec; with a `corrector` it goes on from that one, else from ImageNet.
    on: videos, folders of videos or of images, or datasets, whose labels are not looked at.
    settings: how; the defaults take about 15 minutes on two cores.

        stmg.adapt("lite0-camvid", "drive.mp4", "lite0-adapted")
        segmenter = stmg.load("lite0-adapted")
    """
    spec = open_adapted(as_spec(model))
    identity = identify(spec)  # first of all: it takes the packages that copying the model will take
    folder = Path(out)
    run_folder = folder / RUN
    if not is_export(spec.name):  # an export is copied over one
        refuse_export(folder)
    segmenter = resolve(spec.with_options(corrector="none"))
    videos = list_videos([on] if isinstance(on, str | Path) else on)
    start = spec.options.get("corrector", "none")  # one beside the model is not gone on from
    adapted = train_corrector(
        segmenter,
        videos,
        run_folder,
        settings or AdaptSettings(),
        find_device(spec.settings.device),
        on_progress,
        identity,
        start=None if start == "none" else load_corrector_network(Path(start)),
        name=spec.name,
        graph=_describe_graph(spec),
    )
    if adapted.check.helps:
        _copy_model(spec, folder)
        _move_corrector(run_folder / LAST, folder)
    # Nothing is left to resume; the log stays.
    for part in (PAIRS, LAST):
        shutil.rmtree(run_folder / part, ignore_errors=True)
    for name in (STATE, RECIPE):
        (run_folder / name).unlink(missing_ok=True)
    return adapted._replace(has_model=adapted.check.helps and not is_code(spec.name))


def list_videos(sources: Sequence[str | Path]) -> list[Video]:
    """All videos of some sources, a folder of images among them; of datasets with splits, those to train on."""
    videos: list[Video] = []
    for source in sources:
        is_plain = Path(source).is_dir() and not is_dataset(source)
        videos += (open_images(Path(source)) if is_plain else open_dataset(source)).training_videos
    return videos


def identify(spec: ModelSpec) -> str:
    """The weights of a model, and the corrector to go on from: another file, or one that was written since, is
    another model."""
    spec = spec.with_options(corrector=spec.options.get("corrector", "none"))
    files = [*list_model_files(spec), *list_companion_files(spec)]
    stamps = [f"{file.resolve()} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files if file.is_file()]
    return "; ".join([spec.name, *sorted(stamps)])


def _describe_graph(spec: ModelSpec) -> GraphModel | None:
    if not is_graph_file(spec.name):
        return None
    settings = spec.settings
    normalization = settings.normalize or Normalization()
    return GraphModel(
        file=Path(spec.name).name,
        mean=tuple(normalization.mean),
        std=tuple(normalization.std),
        output=None if settings.output is None else str(settings.output),
        activation=settings.activation,
        threshold=settings.threshold,
    )


def _copy_model(spec: ModelSpec, folder: Path) -> None:
    """Copy the files of a model, where it is a file or a folder."""
    files = list_model_files(spec)
    for file in files:
        target = folder / file.relative_to(files[0].parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.exists() and target.samefile(file)):
            shutil.copyfile(file, target)


def _move_corrector(source: Path, folder: Path) -> None:
    """Put the files of a corrector into a folder, in place of those of an earlier one."""
    for name in reversed(FILES):  # the card, which makes it a corrector, at the end
        if (source / name).is_file():
            os.replace(source / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
