"""Runs: the commands of stmg whose results make up BENCHMARKS.md and its pages."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

from stmg.evaluation.method import BASE, OFFLINE, ONLINE, Method

CAMVID = "CAMVID"
"""Stands for the folder of the dataset in commands; `--data` says where it is."""

RUNTIMES = {
    "PyTorch": BASE,
    "ONNX Runtime": replace(BASE, runtime="onnxruntime", bits=32),
    "OpenVINO": replace(BASE, runtime="openvino", bits=32),
    "OpenVINO INT8": replace(BASE, runtime="openvino", bits=8),
}
"""By what the summary calls them: the base network on each."""
EXPORTS = {
    "onnx": ("--to", "onnx"),
    "openvino": ("--to", "openvino"),
    "openvino-int8": ("--to", "openvino", "--int8", f"{CAMVID}/train"),
}
BASELINES = (Method(kind="copied-labels", stride=5), Method(kind="warped-logits", stride=5))
PAPER = Method(kind="paper")
METHODS = (BASE, *BASELINES, PAPER, ONLINE, OFFLINE, Method(kind="realtime"))
"""The rows of a network in the summary, each on every runtime; baselines on the one that they are measured on."""
MEASURED = ("--frames", "101", "--repeats", "3")
TRIAL = {"benchmark": ("--frames", "6", "--repeats", "1"), "evaluate": ("--limit", "3"), "ablate": ("--limit", "3")}
"""What makes a command short, by verb; the last value of an option counts."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A command of stmg that writes a result."""

    name: str
    """Of the result's file."""
    page: str
    """The page that shows the result."""
    command: tuple[str, ...]
    minutes: float
    """How long it is expected to take on two cores, exports included."""
    exports: tuple[tuple[str, ...], ...] = ()
    """Commands that have to be carried out before."""
    network: str = ""
    """Whose rows of the summary the result may give; empty for settings other than its own."""
    runtime: str = "PyTorch"
    """Of the model itself; exports beside it have their own."""
    rows: tuple[Method, ...] = ()
    """Those that the result is there to give."""

    @property
    def typed(self) -> str:
        """What a reader types, and what the result says of itself."""
        return shlex.join(["stmg", *self.command, "--out", f"results/{self.name}"])

    @property
    def needs_data(self) -> bool:
        return any(word.partition("/")[0] == CAMVID for command in (*self.exports, self.command) for word in command)


def on_runtime(method: Method, runtime: str) -> Method:
    """A method of the model itself, said of the runtime that the model had."""
    base = RUNTIMES[runtime]
    return method if method.runtime else replace(method, runtime=base.runtime, bits=base.bits)


def _rows(*runtimes: str, paper: bool, baselines: bool = True) -> tuple[Method, ...]:
    left_out = {*(() if paper else (PAPER,)), *(() if baselines else BASELINES)}
    return tuple(
        on_runtime(method, runtime)
        for method in METHODS
        if method not in left_out
        for runtime in (runtimes[:1] if method in BASELINES else runtimes)
    )


def _exports(model: str, folder: str, *kinds: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("export", model, *EXPORTS[kind], "--out", f"{folder}/{kind}") for kind in kinds)


def _camvid_runs(model: str, short: str, minutes: tuple[float, float], *, paper: bool) -> tuple[Run, Run]:
    """A network trained on CamVid: as exports, in turns, and in PyTorch."""
    folder = f"exports/{short}"
    exported = Run(
        name=model,
        page=model,
        exports=_exports(model, folder, *EXPORTS),
        command=(
            *("benchmark", f"{folder}/onnx", CAMVID),
            *("--beside", f"{folder}/openvino", "--beside", f"{folder}/openvino-int8", "--baselines", *MEASURED),
        ),
        minutes=minutes[0],
        network=model,
        runtime="ONNX Runtime",
        rows=_rows("ONNX Runtime", "OpenVINO", "OpenVINO INT8", paper=paper),
    )
    pytorch = Run(
        name=f"{model}-pytorch",
        page=model,
        command=("benchmark", model, CAMVID, "--baselines", *MEASURED),
        minutes=minutes[1],
        network=model,
        rows=_rows("PyTorch", paper=paper),
    )
    return exported, pytorch


def _realtime_run(motion: str) -> Run:
    return Run(
        name=f"ddrnet23-slim-camvid-realtime-{motion}",
        page="ddrnet23-slim-camvid",
        command=("evaluate", "ddrnet23-slim-camvid", CAMVID, "--mode", "realtime", "--motion", motion),
        minutes=3,
    )


def _streets_run(motion: str) -> Run:
    return Run(
        name=f"small-streets-every-5-{motion}",
        page="streets",
        command=(
            *("evaluate", "small-streets", "street:0-0", "--mode", "offline", "--motion", motion),
            *("--offline", "fixed:period=5,between=carry"),
        ),
        minutes=2,
    )


RUNS = (
    *_camvid_runs("ddrnet23-slim-camvid", "slim", (9, 5), paper=True),
    Run(
        name="ddrnet23-slim-camvid-larger-budget",
        page="ddrnet23-slim-camvid",
        exports=_exports("ddrnet23-slim-camvid", "exports/slim", *EXPORTS),
        command=(
            *("benchmark", "exports/slim/onnx", CAMVID),
            *("--beside", "exports/slim/openvino", "--beside", "exports/slim/openvino-int8"),
            *("--mode", "offline", "--offline", "drift:key_above=1.0,longest=12", *MEASURED),
        ),
        minutes=7,
    ),
    Run(
        name="ddrnet23-slim-camvid-finer-motion",
        page="ddrnet23-slim-camvid",
        exports=_exports("ddrnet23-slim-camvid", "exports/slim", "onnx"),
        command=(
            *("benchmark", "exports/slim/onnx", CAMVID),
            *("--mode", "online", "--motion", "dis-medium", "--fusion", "0.5", *MEASURED),
        ),
        minutes=3,
    ),
    Run(
        name="ddrnet23-slim-camvid-ablations",
        page="ddrnet23-slim-camvid",
        command=("ablate", "ddrnet23-slim-camvid", CAMVID, "--seeds", "2"),
        minutes=4,
    ),
    *(_realtime_run(motion) for motion in ("dis", "dis-fine")),
    *_camvid_runs("lite0-camvid", "lite0", (8, 5), paper=False),
    # Of a network this heavy, less: a pass of it over the frames takes most of a minute.
    Run(
        name="ddrnet39-camvid",
        page="ddrnet39-camvid",
        exports=_exports("ddrnet39-camvid", "exports/ddrnet39", "onnx"),
        command=("benchmark", "exports/ddrnet39/onnx", CAMVID, "--frames", "101", "--repeats", "2"),
        minutes=8,
        network="ddrnet39-camvid",
        runtime="ONNX Runtime",
        rows=_rows("ONNX Runtime", paper=True, baselines=False),
    ),
    Run(
        name="ddrnet39-camvid-pytorch",
        page="ddrnet39-camvid",
        command=("benchmark", "ddrnet39-camvid", CAMVID, "--baselines", "--frames", "101", "--repeats", "2"),
        minutes=13,
        network="ddrnet39-camvid",
        rows=_rows("PyTorch", paper=True),
    ),
    Run(
        name="ddrnet39-camvid-late",
        page="ddrnet39-camvid",
        command=("evaluate", "ddrnet39-camvid", CAMVID, "--mode", "realtime"),
        minutes=3,
    ),
    Run(
        name="ddrnet39-camvid-late-uncorrected",
        page="ddrnet39-camvid",
        command=("evaluate", "ddrnet39-camvid", CAMVID, "--mode", "realtime", "--corrector", "none"),
        minutes=3,
    ),
    Run(
        name="ddrnet39-camvid-late-fine",
        page="ddrnet39-camvid",
        command=("evaluate", "ddrnet39-camvid", CAMVID, "--mode", "realtime", "--motion", "dis-fine"),
        minutes=3,
    ),
    Run(
        name="ddrnet39-camvid-every-second",
        page="ddrnet39-camvid",
        command=(
            *("benchmark", "ddrnet39-camvid", CAMVID, "--mode", "online", "--scheduler", "fixed:period=2"),
            *("--motion", "none", "--corrector", "none", "--frames", "101", "--repeats", "2"),
        ),
        minutes=5,
    ),
    Run(
        name="ddrnet39-camvid-ablations",
        page="ddrnet39-camvid",
        command=("ablate", "ddrnet39-camvid", CAMVID, "--seeds", "2"),
        minutes=15,
    ),
    Run(
        name="ddrnet23-slim-streets",
        page="streets",
        command=(
            *("benchmark", "ddrnet23-slim-streets", "street:0-0", "--baselines"),
            *("--frames", "120", "--repeats", "2"),
        ),
        minutes=4,
        network="ddrnet23-slim-streets",
        rows=_rows("PyTorch", paper=True),
    ),
    *(_streets_run(motion) for motion in ("dis", "dis-fine", "dis-finest")),
)
