"""Settings of `adapt`."""

from __future__ import annotations

from dataclasses import dataclass

from stmg.errors import require


@dataclass(frozen=True, kw_only=True)
class AdaptSettings:
    """How a corrector is trained."""

    cost: float = 0.05
    """Most multiply-accumulates of the corrector, relative to the network's."""
    minutes: float = 15.0
    """How long it may take, about; steps and pairs follow, where they are not given."""
    longest: int = 8
    """Frames between which pairs are taken."""
    still_share: float = 0.5
    """Of the clips that are stills set in motion."""
    steps: int | None = None
    pairs: int | None = None
    """To learn from; as many as fit into 1.5 GB and at most 4000 are kept."""
    batch: int = 16
    learning_rate: float = 2e-3
    seed: int = 0
    checks: int = 40
    """Clips, held out, on which it is compared with motion alone."""

    def __post_init__(self) -> None:
        require(0 < self.cost <= 1, "cost is above 0 and at most 1", self.cost)
        require(self.minutes > 0, "minutes is above 0", self.minutes)
        require(self.longest >= 2, "longest is at least 2", self.longest)
        require(0 <= self.still_share <= 1, "still_share is from 0 to 1", self.still_share)
