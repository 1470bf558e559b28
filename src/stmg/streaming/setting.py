"""Declaration of a setting, besides its name and type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, field
from typing import Any

from stmg.streaming.values import MODES, Mode, Read, flag

STREAM, MODEL = "Streaming", "Model"


@dataclass(frozen=True)
class Setting:
    """Properties of a setting besides its name and type."""

    help: str
    read: Read
    """Checks a value, which may be text, and converts it; called with the name of the setting and the value."""
    metavar: str = "NAME"
    """Placeholder for the value in the help of the command line."""
    group: str = STREAM
    """Streaming: how a stream is segmented; Model: how a model is opened."""
    python_only: bool = False
    """True if it exists only in Python: neither as a command-line option nor as a key of settings files."""
    modes: tuple[Mode, ...] = MODES
    """The modes it means something in."""
    common: bool = False
    """True if the short help lists it."""
    live: bool = False
    """True if it may change while a stream runs."""
    offered: Callable[[], tuple[object, ...]] | None = None
    """The values that a page offers; None: text. They are listed when asked for, since some need heavy imports."""
    in_files: bool = True
    """True if a settings file may hold it. Files get shared, so they name no code and no other files."""
    name: str = ""
    default: Any = None

    @property
    def is_flag(self) -> bool:
        return self.read is flag

    @property
    def full_help(self) -> str:
        """The help, and the modes that use the setting where not all do."""
        return self.help if self.modes == MODES else f"{self.help} For {' or '.join(self.modes)} mode."


def setting(default: Any, help: str, read: Read, *, factory: Any = MISSING, **known: Any) -> Any:
    """Declare a field of `Settings`."""
    if known.get("python_only"):
        known["in_files"] = False
    metadata = {"setting": Setting(help, read, **known)}
    if factory is not MISSING:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)
