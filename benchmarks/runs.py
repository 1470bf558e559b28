"""Runs: the commands whose results make up BENCHMARKS.md, its pages and the figures of the documents."""

from __future__ import annotations

import shlex
from dataclasses import replace

from benchmarks.run import CAMVID, Run
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way

RUNTIMES = {
    "PyTorch": BASE,
    "ONNX Runtime": replace(BASE, runtime="onnxruntime", bits=32),
    "OpenVINO": replace(BASE, runtime="openvino", bits=32),
    "OpenVINO INT8": replace(BASE, runtime="openvino", bits=8),
}
"""The base network on each runtime, by the name of the runtime in the summary."""
EXPORTS = {
    "onnx": ("--to", "onnx"),
    "openvino": ("--to", "openvino"),
    "openvino-int8": ("--to", "openvino", "--int8", f"{CAMVID}/train"),
}
BASELINES = (Way(kind="copied-labels", stride=5), Way(kind="warped-logits", stride=5))
PAPER = Way(kind="paper")
METHODS = (BASE, *BASELINES, PAPER, ONLINE, OFFLINE, Way(kind="realtime"))
"""The rows of a network in the summary, each on every runtime; baselines on the one that they are measured on."""
FRAMES = ("--frames", "101", "--repeats", "3")
TRIAL = {
    "benchmark": "--frames 6 --repeats 1",
    "evaluate": "--limit 3",
    "ablate": "--limit 3",
    "adapt": "--steps 2 --pairs 16",
    "batch": "--videos 1 --repeats 1 --frames 20",
    "budgets": "--length 6",
    "files": "--frames 20 --repeats 1",
    "serving": "--count 2 --minutes 0.3",
    "speed": "--repeats 2",
}
"""Options that shorten a command, by verb or program. The last value of an option counts."""


def on_runtime(method: Way, runtime: str) -> Way:
    """A method of the model itself, with the runtime of the model filled in."""
    base = RUNTIMES[runtime]
    return method if method.runtime else replace(method, runtime=base.runtime, bits=base.bits)


def _rows(*runtimes: str, paper: bool, baselines: bool = True) -> tuple[Way, ...]:
    left_out = {*(() if paper else (PAPER,)), *(() if baselines else BASELINES)}
    return tuple(
        on_runtime(method, runtime)
        for method in METHODS
        if method not in left_out
        for runtime in (runtimes[:1] if method in BASELINES else runtimes)
    )


def _exports(model: str, folder: str, *kinds: str, partial: bool = True) -> tuple[tuple[str, ...], ...]:
    blocks = ("--partial", f"{CAMVID}/train") if partial else ()
    return tuple(("export", model, *EXPORTS[kind], *blocks, "--out", f"{folder}/{kind}") for kind in kinds)


def _camvid_runs(model: str, short: str, minutes: tuple[float, float], *, paper: bool) -> tuple[Run, Run]:
    """The runs of a network trained on CamVid: its exports in turns, and PyTorch."""
    folder = f"exports/{short}"
    exported = Run(
        name=model,
        page=model,
        exports=_exports(model, folder, *EXPORTS, partial=paper),
        command=(
            *("benchmark", f"{folder}/onnx", CAMVID),
            *("--beside", f"{folder}/openvino", "--beside", f"{folder}/openvino-int8", "--baselines", *FRAMES),
        ),
        minutes=minutes[0],
        network=model,
        runtime="ONNX Runtime",
        rows=_rows("ONNX Runtime", "OpenVINO", "OpenVINO INT8", paper=paper),
    )
    pytorch = Run(
        name=f"{model}-pytorch",
        page=model,
        command=("benchmark", model, CAMVID, "--baselines", *FRAMES),
        minutes=minutes[1],
        network=model,
        rows=_rows("PyTorch", paper=paper),
    )
    return exported, pytorch


def _evaluation_run(name: str, model: str, *options: str, data: str = CAMVID, page: str = "") -> Run:
    return Run(name=name, page=page, command=("evaluate", model, data, *options), minutes=3)


def _adapted_run(name: str, *options: str, corrected: bool) -> Run:
    """lite0 with a corrector trained on rendered streets, which look unlike what it was trained on."""
    model, data = "exports/lite0-adapted", "street:1300-1339"
    adapt = (
        "adapt",
        "lite0-camvid",
        "--on",
        data,
        *shlex.split("--stills 0.2 --longest 12 --cost 30%"),
        "--out",
        model,
    )
    return Run(
        name=f"lite0-adapted-{name}" + ("" if corrected else "-uncorrected"),
        exports=(adapt,),
        command=("evaluate", model, "street:0-0", *options, *(() if corrected else ("--corrector", "none"))),
        minutes=15 if corrected and name == "late" else 2,
    )


def _untrained_run(motion: str) -> Run:
    """DDRNet-39 without weights: its times mean something, its labels nothing."""
    return Run(
        name=f"ddrnet39-untrained-{motion}",
        command=(
            *("benchmark", "ddrnet39", CAMVID, "--mode", "realtime", "--rate", "15"),
            *("--frames", "101", "--motion", motion),
        ),
        minutes=3,
    )


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
            *("--scheduler", "fixed:period=5,between=carry"),
        ),
        minutes=2,
    )


def _program(name: str, minutes: float, command: str, *, exports: tuple[str, ...] = (), needs: str = "") -> Run:
    """A program of this folder."""
    program, *words = shlex.split(command)
    kept = _exports("ddrnet23-slim-camvid", "exports/slim", *exports)
    return Run(name=name, program=program, command=tuple(words), minutes=minutes, exports=kept, needs=needs)


STREETS = "ddrnet23-slim-streets street:41-48 --motions dis --longest 12 --budgets 0.3 0.35 0.4 0.45 0.5"
ONLINE_BUDGETS = "--mode online --motions dis dis-medium dis-fine --budgets 0.4 0.5 0.6 --longest 30"
OFFLINE_BUDGETS = "--motions dis-medium --budgets 2 --longest 14 18 20 22 24"
PROGRAMS = (
    _program("carrying", 3, "carrying ddrnet23-slim-camvid CAMVID"),
    _program("budgets-slim", 3, "budgets ddrnet23-slim-camvid CAMVID --motions dis --longest 12"),
    _program("budgets-small-streets", 3, "budgets small-streets street:40-47 --motions dis --longest 12"),
    _program("budgets-streets-15fps", 3, f"budgets {STREETS}"),
    _program("budgets-streets-30fps", 7, f"budgets {STREETS} --rate 30 --length 150"),
    _program("budgets-ddrnet39-online", 5, f"budgets ddrnet39-camvid CAMVID {ONLINE_BUDGETS} --stills 5 --speed 3"),
    _program("budgets-ddrnet39-offline", 5, f"budgets ddrnet39-camvid CAMVID {OFFLINE_BUDGETS} --stills 8 --speed 3"),
    _program("partial-frames", 5, "partial_frames stream ddrnet39-camvid CAMVID --scale 0.7 --thresholds 0.47"),
    _program("mask-gain-slim", 2, "partial_frames gain ddrnet23-slim-camvid CAMVID"),
    _program("mask-gain-ddrnet39", 4, "partial_frames gain ddrnet39-camvid CAMVID --scale 0.7"),
    _program("blocks", 4, "partial_frames blocks ddrnet39-camvid CAMVID --scale 0.8"),
    _program(
        "distortion-bias",
        5,
        "distortion_bias CAMVID ddrnet39-camvid runs/ddrnet39-dbb/last runs/ddrnet39-plain/last",
        needs="two trained networks, see docs/paper.md",
    ),
    _program("macs", 1, "speed macs"),
    _program("pytorch", 2, "speed pytorch"),
    _program("skipping", 2, "speed skipping --repeats 25"),
    _program("files", 3, "files exports/slim/onnx", exports=("onnx",)),
    _program("batch", 4, "batch --videos 4 --repeats 2"),
    _program("serving-streams", 11, "serving streams --count 16"),
    _program("serving-viewers", 3, "serving viewers --count 50"),
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
            *("--mode", "offline", "--scheduler", "drift:key_above=1.0,longest=12", *FRAMES),
        ),
        minutes=7,
    ),
    Run(
        name="ddrnet23-slim-camvid-finer-motion",
        page="ddrnet23-slim-camvid",
        exports=_exports("ddrnet23-slim-camvid", "exports/slim", "onnx"),
        command=(
            *("benchmark", "exports/slim/onnx", CAMVID),
            *("--mode", "online", "--motion", "dis-medium", "--fusion", "0.5", *FRAMES),
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
    _evaluation_run("ddrnet23-slim-camvid-evaluation", "ddrnet23-slim-camvid", "--paper", page="ddrnet23-slim-camvid"),
    *(
        _evaluation_run(
            f"ddrnet23-slim-camvid-budget-{budget}",
            *("ddrnet23-slim-camvid", "--mode", "online", "--scheduler", f"drift:key_above={budget}"),
        )
        for budget in (0.26, 0.28)
    ),
    _evaluation_run("ddrnet23-slim-streets-evaluation", "ddrnet23-slim-streets", data="street:0-0", page="streets"),
    *(_untrained_run(motion) for motion in ("dis", "dis-medium", "dis-fine")),
    *(
        _adapted_run(name, *options.split(), corrected=corrected)
        for name, options in (
            ("late", "--mode realtime"),
            ("online", "--mode online --scheduler fixed:period=8,between=carry"),
        )
        for corrected in (True, False)
    ),
    *PROGRAMS,
)
