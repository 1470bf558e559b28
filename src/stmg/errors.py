"""Errors that users can fix: one family, so that `except stmg.StmgError` catches them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StmgError(Exception):
    """A user's mistake, with the fix in the message. On the command line: one line and exit code 2."""


class SettingsError(StmgError, ValueError):
    """A setting, an option or a combination of them that cannot be honored."""


class ModelError(StmgError, ValueError):
    """A model that cannot be found, read, run or exported."""


class DataError(StmgError, ValueError):
    """Data that cannot be used; the message names the file and the fix."""


class VideoError(DataError):
    """A video or another source of frames that cannot be read; the message has the reason and the fix."""


class SourceLostError(VideoError):
    """A live source that broke off; all of its frames until then were delivered."""


class FrameError(StmgError, ValueError, TypeError):
    """A frame that is not an image. The message lists what is accepted."""


class StmgWarning(UserWarning):
    """Something that is probably not meant: what a network says cannot be right, say. Nothing was refused."""


class MissingPackageError(StmgError, ImportError):
    """A package that is not installed; the message names the extra that installs it."""


class TrainingError(StmgError, ArithmeticError):
    """A training run that cannot continue."""


def install_command(extra: str) -> str:
    """The command that installs an extra, for a checkout or from the package index."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return f'pip install "stmg[{extra}]"'
    return f'pip install -e "{"." if checkout == Path.cwd() else checkout}[{extra}]"'


@contextmanager
def explain_missing(*packages: str, why: str, extra: str) -> Iterator[None]:
    """Wrap imports: if one of the packages is not installed, the error names the extra that installs it.

    A package that is installed and fails keeps its own error.

        with explain_missing("openvino", why="the runtime openvino needs", extra="openvino"):
            import openvino
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in packages:
            raise
        raise MissingPackageError(f"{why}: {install_command(extra)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error; the name of its type if it has no message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def require(condition: bool, rule: str, value: object) -> None:
    """Raise a SettingsError with the rule and the value, unless the condition holds."""
    if not condition:
        raise SettingsError(f"{rule}; got {value}")
