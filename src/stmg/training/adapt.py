"""Adapt a model: train a corrector on the user's own videos, without labels, and write it beside the model."""

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

RUN = "adapt"  # folder of a run, inside the folder of the model


def adapt(
    model: str | Path | ModelSpec,
    on: str | Path | Sequence[str | Path],
    out: str | Path,
    settings: AdaptSettings | None = None,
    *,
    on_progress: OnPhase = lambda report: None,
) -> Adapted:
    """Train a corrector for a model on videos without labels, and write both into a folder.

    model: a name as in `stmg.load`, or a spec. Its `corrector`, if given, is trained further; else start from ImageNet.
    on: videos, folders of videos or of images, or datasets. Their labels are not used.
    settings: how to train. The defaults take about 15 minutes on two cores.

        stmg.adapt("lite0-camvid", "drive.mp4", "lite0-adapted")
        segmenter = stmg.load("lite0-adapted")
    """
    spec = open_adapted(as_spec(model))
    identity = identify(spec)  # do this first: it needs the same packages as copying the model later
    folder = Path(out)
    run_folder = folder / RUN
    if not is_export(spec.name):  # an export may be copied over an export
        refuse_export(folder)
    segmenter = resolve(spec.with_options(corrector="none"))
    videos = list_videos([on] if isinstance(on, str | Path) else on)
    start = spec.options.get("corrector", "none")  # a corrector beside the model is not trained further
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
    # Nothing is left to resume. Keep the log.
    for part in (PAIRS, LAST):
        shutil.rmtree(run_folder / part, ignore_errors=True)
    for name in (STATE, RECIPE):
        (run_folder / name).unlink(missing_ok=True)
    return adapted._replace(has_model=adapted.check.helps and not is_code(spec.name))


def list_videos(sources: Sequence[str | Path]) -> list[Video]:
    """List all videos of some sources, including folders of images. Of datasets with splits: the training videos."""
    videos: list[Video] = []
    for source in sources:
        is_plain = Path(source).is_dir() and not is_dataset(source)
        videos += (open_images(Path(source)) if is_plain else open_dataset(source)).training_videos
    return videos


def identify(spec: ModelSpec) -> str:
    """Identify the weights of a model and of the corrector to train further. A different or newer file is another
    model."""
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
    """Copy the files of a model that is a file or a folder."""
    files = list_model_files(spec)
    for file in files:
        target = folder / file.relative_to(files[0].parent)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (target.exists() and target.samefile(file)):
            shutil.copyfile(file, target)


def _move_corrector(source: Path, folder: Path) -> None:
    """Move the files of a corrector into a folder, replacing those of an earlier one."""
    for name in reversed(FILES):  # move the card last, as it makes the files a corrector
        if (source / name).is_file():
            os.replace(source / name, folder / name)
        else:
            (folder / name).unlink(missing_ok=True)
