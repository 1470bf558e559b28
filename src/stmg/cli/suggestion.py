"""Suggestions: what has to be typed to open a model as it was opened here, but for what a settings file holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from stmg.cli.options import ModelOptions

ALL = ("device", "weights", "network", "normalize", "output", "activation", "threshold", "corrector")
OF_GRAPHS = ("device", "normalize", "output", "activation", "threshold", "corrector")
"""What holds for any graph file."""
OF_EXPORTS = ("device", "corrector")
OF_CHECKPOINTS = ("network", "activation", "threshold")
"""What a checkpoint in another folder still needs."""


def typed_options(options: ModelOptions, names: Sequence[str] = ALL) -> str:
    """Those of some options that were given, as they are typed."""
    given = ((name, getattr(options, name)) for name in names)
    return "".join(f" --{name} {shlex.quote(str(value))}" for name, value in given if value is not None)
