"""Results: what `evaluate`, `benchmark`, `ablate` and `tune` measured; JSON, tables and plots are views of them.

Accuracies and shares are in percent, times in milliseconds; None stands where there was nothing to measure.
"""

from stmg.evaluation.results.ablation import AblationResult, AblationRow, AblationTable
from stmg.evaluation.results.benchmark import (
    BenchmarkResult,
    BenchmarkRow,
    Latency,
    LevelLatency,
    PassRow,
    RealtimeRow,
    SizeBenchmark,
    Timing,
)
from stmg.evaluation.results.common import FrameCost, Picture, Result, Size, percent
from stmg.evaluation.results.evaluation import (
    ClassIou,
    DistanceScore,
    EvaluationResult,
    FrameRecord,
    LevelShare,
    ModeScores,
    PairScores,
    StreamScores,
)
from stmg.evaluation.results.tune import Goal, TuneMode, TuneOutcome, TuneResult, TuneSetting

__all__ = [
    "AblationResult",
    "AblationRow",
    "AblationTable",
    "BenchmarkResult",
    "BenchmarkRow",
    "ClassIou",
    "DistanceScore",
    "EvaluationResult",
    "FrameCost",
    "FrameRecord",
    "Goal",
    "Latency",
    "LevelLatency",
    "LevelShare",
    "ModeScores",
    "PairScores",
    "PassRow",
    "Picture",
    "RealtimeRow",
    "Result",
    "Size",
    "SizeBenchmark",
    "StreamScores",
    "Timing",
    "TuneMode",
    "TuneOutcome",
    "TuneResult",
    "TuneSetting",
    "percent",
]
