"""What `ablate` measured: settings beside each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stmg.evaluation.results.common import FrameCost, Result, Size


@dataclass(frozen=True, kw_only=True)
class AblationRow:
    """One setting; means over the seeds where something is random."""

    name: str
    miou: float | None
    miou_std: float | None
    """Over the seeds; None for a single run."""
    seeds: int
    cost: FrameCost | None
    key_share: float
    kept_blocks: float | None
    fps: float | None = None
    gain: float | None = None


@dataclass(frozen=True)
class AblationTable:
    """Settings that are compared with each other."""

    title: str
    rows: tuple[AblationRow, ...]


@dataclass(frozen=True, kw_only=True)
class AblationResult(Result):
    """What each part is worth."""

    kind: ClassVar[str] = "ablation"
    data: str
    split: str
    size: Size
    settings: str
    runtime: str
    seeds: int
    frames: int
    base: AblationRow
    tables: tuple[AblationTable, ...]
