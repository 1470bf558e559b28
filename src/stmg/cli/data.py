"""stmg data: the contents of a dataset, before training on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from stmg.cli.interruption import interruptible
from stmg.cli.options import DATA_HELP
from stmg.errors import SettingsError
from stmg.files import write_atomically

if TYPE_CHECKING:
    from stmg.data.check import DatasetCheck

SHOWN_PROBLEMS = 10
SHEETS = (".png", ".jpg")

data = typer.Typer(help="Look at datasets.", no_args_is_help=True)


@data.command(epilog="\n\n".join(("Examples:", "stmg data check CAMVID", "stmg data check street:0-9")))
@interruptible
def check(
    path: Annotated[str, typer.Argument(help=DATA_HELP, show_default=False)],
    sheet: Annotated[Path, typer.Option(metavar="FILE", help="Contact sheet to write: frames with their labels.")] = (
        Path("out/contact_sheet.png")
    ),
) -> None:
    """Check a dataset: splits, frames, frame rates, sizes, class shares; every label is read.

    The exit code is 1 if a file cannot be used. A folder of your own needs a dataset.yaml:

    \b
    classes: [road, car, {name: person, color: [220, 20, 60]}]
    train:
      - {frames: train/images, labels: train/labels}
      - {frames: drive.mp4, labels: drive_labels}
    val:
      - {frames: val/images, labels: val/labels, rate: 15}
    """
    import cv2

    from stmg.cli.progress import progress_bar
    from stmg.data.catalogue import open_dataset
    from stmg.data.check import check_dataset, contact_sheet

    if sheet.suffix.lower() not in SHEETS:
        raise SettingsError(f"--sheet is a picture, {' or '.join(SHEETS)}; got {sheet}")
    console = Console()
    dataset = open_dataset(path)
    with progress_bar(console) as progress:
        tasks = {split: progress.add_task(split, total=None, status="") for split in dataset.splits}
        result = check_dataset(
            dataset, lambda split, read, total: progress.update(tasks[split], completed=read, total=total)
        )
    _print(result, console)
    picture = contact_sheet(dataset)
    if picture is not None:
        sheet.parent.mkdir(parents=True, exist_ok=True)
        _, content = cv2.imencode(sheet.suffix, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
        write_atomically(sheet, content.tobytes())
        console.print(f"contact sheet: {escape(str(sheet))}", highlight=False, soft_wrap=True)
    raise typer.Exit(1 if result.problems else 0)


def _print(result: DatasetCheck, console: Console) -> None:
    table = Table("split", "videos", "frames", "labeled", "frame rate", "size", title=escape(result.name))
    for name, split in result.splits.items():
        counts = (split.num_videos, split.num_frames, split.num_labeled)
        table.add_row(escape(name), *map(str, counts), ", ".join(split.rates), ", ".join(split.sizes))
    console.print(table)
    if result.class_names:
        console.print(_class_table(result))
    else:
        console.print("no labels: in training a teacher labels these videos (data.unlabeled, loss.teacher)")
    for problem in result.problems[:SHOWN_PROBLEMS]:
        console.print(f"[red]{escape(problem)}[/]", soft_wrap=True, highlight=False)
    if len(result.problems) > SHOWN_PROBLEMS:
        console.print(f"[red]and {len(result.problems) - SHOWN_PROBLEMS} more[/]")


def _class_table(result: DatasetCheck) -> Table:
    table = Table("class", *[f"{escape(split)}, %" for split in result.splits], title="share of the labeled pixels")
    for index, name in enumerate(result.class_names):
        shares = [split.class_shares for split in result.splits.values()]
        table.add_row(escape(name), *[_percent(None if values is None else values[index]) for values in shares])
    table.add_section()
    table.add_row("no class", *[_percent(split.ignored_share) for split in result.splits.values()])
    return table


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"
