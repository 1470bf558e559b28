"""Queries: graphs of MaskFormer and its kin, which give a class and a mask for each of a number of queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stmg.runtimes.engine import GraphOutput

NOTE = "queries, each with a class and a mask: their masks are added up for each class"


class QueryOutputs(NamedTuple):
    """The indices of the outputs that hold queries."""

    classes: int
    """(1, Q, C + 1) logits, the last of no class."""
    masks: int
    """(1, Q, h, w) logits."""


def find_queries(outputs: Sequence[GraphOutput]) -> QueryOutputs | None:
    """Find the outputs that hold queries; None unless one table of classes has as many rows as there are maps."""
    pairs = [
        QueryOutputs(classes, masks)
        for classes, table in enumerate(outputs)
        for masks, maps in enumerate(outputs)
        if len(table.shape) == 3
        and len(maps.shape) == 4
        and table.is_float
        and maps.is_float
        and isinstance(count := table.shape[1], int)
        and 1 < count == maps.shape[1]
    ]
    return pairs[0] if len(pairs) == 1 else None


def add_up_queries(classes: NDArray[Any], masks: NDArray[Any]) -> NDArray[np.float32]:
    """Scores (C, h, w): each query's mask times the probabilities of its classes, added up over the queries."""
    table = classes[0].astype(np.float32)
    exponentials = np.exp(table - table.max(1, keepdims=True))
    probabilities = (exponentials / exponentials.sum(1, keepdims=True))[:, :-1]
    opened = 1 / (1 + np.exp(-np.clip(masks[0].astype(np.float32), -80, 80)))
    scores: NDArray[np.float32] = np.tensordot(probabilities, opened, ((0,), (0,)))
    return scores
