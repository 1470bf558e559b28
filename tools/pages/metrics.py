"""The metrics of `stmg serve`, from what it tells Prometheus."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stmg.serve.metrics import StreamCollector


def metrics_page() -> str:
    """Every metric with its type and labels."""
    nothing: Any = SimpleNamespace(shown=(), uploads=None)  # a server without streams names its metrics all the same
    rows = []
    for metric in StreamCollector(nothing).collect():
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        labels = ", ".join(f"`{label}`" for label in getattr(metric, "_labelnames", ()))
        rows.append(f"| `{name}` | {metric.type} | {labels} | {metric.documentation} |")
    return "\n".join(
        [
            "# Metrics\n",
            "What `stmg serve` tells Prometheus at `/metrics`, besides memory and processor of the process.\n",
            "| metric | type | labels | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
