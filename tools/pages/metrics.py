"""The metrics of `stmg serve`, as its collector names them."""

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
            "What Prometheus reads at `/metrics` of `stmg serve`, besides memory and processor of the process.\n",
            "| metric | type | labels | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
