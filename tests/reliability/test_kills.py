"""Kills: most hit a training that has saved, and a training that does not resume is detected."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
# Stands for `stmg train`: it starts up, then saves every step. Started again, it waits until its first save has been
# looked at, however slow the machine is.
TOY = """
import json, os, sys, time
from pathlib import Path
from random import Random
from reliability import kills
from reliability.processes import Run

folder, resumes = Path(sys.argv[1]), sys.argv[2] == "resumes"

def read_saved(run):
    path = run / kills.STATE
    return int(path.read_text()) if path.is_file() else 0

def read_step(run):
    if run.is_dir():
        (run / "looked at").touch()
    return read_saved(run)

def train(out):
    out.mkdir(exist_ok=True)
    again = (out / "looked at").exists()
    (out / "looked at").unlink(missing_ok=True)
    time.sleep(0.1)
    for step in range(read_saved(out) if resumes else 0, 20):
        time.sleep(0.01)
        (out / "part").write_text(str(step + 1))
        os.replace(out / "part", out / kills.STATE)
        while again and not (out / "looked at").exists():
            time.sleep(0.01)
    (out / "last").mkdir(exist_ok=True)
    (out / "last" / "model.safetensors").write_bytes(b"weights")

def start(command, log):
    out = Path(command[command.index("--out") + 1])
    return Run(lambda: train(out), log)

kills.read_step, kills.start_stmg = read_step, start
checks = kills.kill_train(6, folder, Random(0))
print(json.dumps([[check.name, check.measured, check.holds] for check in checks]))
"""


@pytest.mark.parametrize("way", ["resumes", "begins anew"])
def test_kills_hit_trainings_that_have_saved(tmp_path, way):
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", TOY, str(tmp_path), way]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    identical, most = json.loads(done.stdout.splitlines()[-1])
    assert identical[2] == (way == "resumes"), identical
    assert most[2] or way != "resumes", most
    assert ("started over" in identical[1]) == (way != "resumes")
