"""Methods: what a benchmark runs over its frames, as fields for programs and as a name for people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

MethodKind = Literal[
    "base",
    "online",
    "offline",
    "realtime",
    "paper",
    "copied-labels",
    "warped-logits",
    "half-resolution",
    "other-model",
]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to segment every frame of a stream."""

    kind: MethodKind
    budget: float | None = None
    """Drift budget, where it is not the stream's own."""
    stride: int | None = None
    """Frames from one that the network computed to the next."""
    model: str | None = None
    """Of another model: which."""
    runtime: str | None = None
    """Of an export beside the model: its engine."""
    bits: int | None = None
    """Of an export: 32, or 8 for INT8."""
    export: str | None = None
    """Of several exports alike: which folder."""

    @property
    def family(self) -> str:
        """The name without stride, budget and runtime."""
        return {
            "base": "base on every frame",
            "online": "online",
            "offline": "offline",
            "realtime": "realtime",
            "paper": "paper's mode",
            "copied-labels": "last labels copied",
            "warped-logits": "logits warped",
            "half-resolution": "half resolution",
            "other-model": f"{self.model} on every frame",
        }[self.kind]

    @property
    def engine(self) -> str:
        """The runtime of an export, told apart from other exports for it; empty for the model itself."""
        int8, folder = "INT8" if self.bits == 8 else "", f"({self.export})" if self.export else ""
        return " ".join(filter(None, (self.runtime, int8, folder)))

    @property
    def name(self) -> str:
        family = "base" if self.kind == "base" and self.runtime else self.family
        budget = "" if self.budget is None else f"budget {self.budget:g}"
        stride = "" if self.stride is None else f"every {self.stride}"
        return ", ".join(filter(None, (family, budget, stride, self.engine)))

    @property
    def reference(self) -> Method:
        """What its gain is relative to: the base network on the same runtime."""
        return replace(BASE, runtime=self.runtime, bits=self.bits, export=self.export)


BASE, ONLINE, OFFLINE = Method(kind="base"), Method(kind="online"), Method(kind="offline")
