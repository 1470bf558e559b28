"""stmg adapt: a corrector for a model, trained on your own video without labels."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from stmg.cli.options import Model, ModelOptions, Motion, Size, make_spec, parse_share
from stmg.cli.progress import INTERRUPTED, progress_bar

if TYPE_CHECKING:
    from stmg.training.adapt.train import Progress

STATE = "adapt"  # folder of what an interrupted run goes on from


def adapt(
    model: Model,
    on: Annotated[
        list[str],
        typer.Option(
            "--on", metavar="VIDEO", help="Video, folder of videos, or dataset to adapt to. Repeat.", show_default=False
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the model with its corrector.")
    ] = Path("out/adapted"),
    cost: Annotated[
        str, typer.Option(metavar="SHARE", help="Most MACs of the corrector, as a share of the network's.")
    ] = "5%",
    minutes: Annotated[float, typer.Option(min=0.1, metavar="N", help="How long it may take, about.")] = 15.0,
    longest: Annotated[
        int, typer.Option(min=2, metavar="FRAMES", help="Frames that labels are carried, at most, while it learns.")
    ] = 8,
    stills: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="Share of the clips that are stills set in motion.")
    ] = 0.5,
    steps: Annotated[int | None, typer.Option(min=1, metavar="N", help="Steps of training. Default: by time.")] = None,
    pairs: Annotated[int | None, typer.Option(min=16, metavar="N", help="Pairs of frames. Default: by time.")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of everything that is sampled.")] = 0,
    size: Size = None,
    motion: Motion = None,
    *,
    options: ModelOptions,
) -> None:
    """Train a corrector for a model on your own video, without labels.

    The network is the teacher: the corrector learns to mend labels that were carried along motion. A part of each video
    is held out; if the corrector is no help there, the model stays as it was.

    Ctrl-C keeps what is done, and the same command goes on from there.
    """
    from stmg.checkpoints.resolve import resolve, working_size
    from stmg.data.catalogue import open_dataset
    from stmg.runtimes.torch import find_device
    from stmg.segmenter import VideoSegmenter
    from stmg.streaming.fit import fit_motion
    from stmg.streaming.motion import AutoMotion
    from stmg.training.adapt.train import AdaptSettings
    from stmg.training.adapt.train import adapt as run
    from stmg.training.adapt.write import write_adapted
    from stmg.video.frames import Frame

    console = Console()
    spec = make_spec(model, options, size=size)
    frame_size = working_size(spec)
    segmenter = resolve(spec)
    if motion is not None:
        segmenter = segmenter.another(motion=motion)
    videos = [video for name in on for videos in open_dataset(name).splits.values() for video in videos]
    if isinstance(segmenter.settings.motion, AutoMotion):
        first = Frame(videos[0].image(0, frame_size))
        segmenter = VideoSegmenter(
            segmenter.runtime, settings=segmenter.settings, motion=fit_motion(segmenter.runtime, first)
        )
    settings = AdaptSettings(
        cost=parse_share("--cost", cost) or 0.05,
        minutes=minutes,
        longest=longest,
        still_share=stills,
        steps=steps,
        pairs=pairs,
        seed=seed,
    )
    frames = sum(map(len, videos))
    console.print(
        f"{escape(model)} at {frame_size[0]}x{frame_size[1]}, motion {segmenter.settings.motion.name}, "
        f"on {frames} frames of {len(videos)} videos"
    )
    state = out / STATE
    try:
        with progress_bar(console) as progress:
            task = progress.add_task("", total=None, status="")

            def show(at: Progress) -> None:
                progress.update(task, description=at.what, completed=at.done, total=at.total, status=escape(at.status))

            device = find_device(options.device or "cpu")
            adapted = run(segmenter, videos, state, frame_size, settings, device, show)
    except KeyboardInterrupt:
        console.print(f"[yellow]interrupted; the same command goes on from what {escape(str(state))} holds[/]")
        raise typer.Exit(INTERRUPTED) from None
    check = adapted.check
    console.print(
        f"{adapted.steps} steps on {adapted.pairs} pairs in {adapted.seconds / 60:.1f} min; the corrector takes "
        f"{adapted.macs / 1e9:.2f} GMACs a frame"
    )
    if not check.clips:
        console.print("[yellow]nothing could be held out to check it on: the video is too short, or cut too often[/]")
    else:
        console.print(
            f"on {check.clips} clips held out, labels differ from the network's on {check.warped:.2%} of the pixels "
            f"with motion alone, on {check.corrected:.2%} corrected"
        )
    if not check.helps:
        console.print("[yellow]the corrector is no help there; the model stays as it was[/]")
        raise typer.Exit(0)
    notes: dict[str, object] = {
        "model": model,
        "frames": frames,
        "steps": adapted.steps,
        "pairs": adapted.pairs,
        "minutes": round(adapted.seconds / 60, 1),
        "held_out": {"clips": check.clips, "warped": round(check.warped, 5), "corrected": round(check.corrected, 5)},
    }
    whole = write_adapted(spec, adapted, segmenter.settings.motion.name, notes, out)
    shutil.rmtree(state / "pairs", ignore_errors=True)
    use = f"--model {out}" if whole else f"--model {model} --corrector {out}"
    console.print(f"to use it: stmg segment VIDEO {escape(use)}", soft_wrap=True)
