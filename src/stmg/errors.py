"""Errors a user can do something about: one family, so that `except stmg.StmgError` catches them all."""

from __future__ import annotations

from pathlib import Path


class StmgError(Exception):
    """A mistake in what was given, with the fix in the message. At the command line: one line and exit code 2."""


class SettingsError(StmgError, ValueError):
    """A setting, an option or a combination of them that cannot be honored."""


class ModelError(StmgError, ValueError):
    """A model that cannot be found, read, run or exported."""


class DataError(StmgError, ValueError):
    """Data that cannot be used; the message names the file and says what to do."""


class VideoError(DataError):
    """A video or another source of frames that cannot be read; the message says why and what to do."""


class SourceLostError(VideoError):
    """A live source that sent frames and then no more; what came until then has been handed out."""


class FrameError(StmgError, ValueError, TypeError):
    """A frame that is not an image; the message says what one is."""


class MissingPackageError(StmgError, ImportError):
    """A package that is not installed; the message names the extra that brings it."""


class TrainingError(StmgError, ArithmeticError):
    """A training run that cannot go on."""


def install_command(extra: str) -> str:
    """What brings an extra where this package is: in a checkout, or from the index."""
    checkout = Path(__file__).parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return f'pip install "stmg[{extra}]"'
    return f'pip install -e "{"." if checkout == Path.cwd() else checkout}[{extra}]"'


def first_line(error: BaseException) -> str:
    """What an error says, in one line; the name of its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def require(condition: bool, rule: str, value: object) -> None:
    """Refuse a setting that breaks a rule, saying both the rule and what was given."""
    if not condition:
        raise SettingsError(f"{rule}; got {value}")
