"""Fuzzing: a small part runs here, and its checks distinguish good endings from bad ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from exporting import IN_A_PROCESS
from reliability.fuzz import Outcome, classify
from reliability.mutations import mutate_bytes, mutate_json, mutate_png, mutate_safetensors, mutate_yaml
from reliability.processes import Ending
from reliability.samples import write_inputs
from reliability.targets import TARGETS, Case, make_case

ROOT = Path(__file__).parents[2]
PART = len(TARGETS)  # one of each kind, besides one that is whole
FUZZ = f"""
from reliability.processes import preload
preload()
{IN_A_PROCESS}
from reliability.fuzz import main
main()
"""
TRACEBACK = "Traceback (most recent call last):\n  ...\nKeyError: 'size'\n"


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=1100)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_part_of_the_mutated_inputs_is_read_or_refused(tmp_path):
    done = run_program("-c", FUZZ, "--cases", str(PART), "--out", str(tmp_path / "fuzz"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{PART + len(TARGETS)} cases, 0 failures" in done.stdout


@pytest.mark.parametrize("name", [name for name in TARGETS if TARGETS[name].sample in ("video", "images", "dataset")])
def test_a_case_is_the_same_each_time(name, tmp_path):
    write_inputs(tmp_path / "samples")
    folders = [tmp_path / part for part in ("first", "second")]
    cases = [make_case(7, 3, tmp_path / "samples", folder, only=name) for folder in folders]
    assert cases[0] == cases[1]
    contents = [{p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in folders]
    assert contents[0] == contents[1]
    whole = {
        path.relative_to(tmp_path / "samples"): path.read_bytes()
        for path in (tmp_path / "samples").rglob("*")
        if path.is_file()
    }
    assert sum(whole[path] != data for path, data in contents[0].items()) == 1


@pytest.mark.parametrize("mutate", [mutate_bytes, mutate_json, mutate_yaml])
def test_mutations_of_text_differ_from_seed_to_seed(mutate):
    data = b'{"a": [1, 2, {"b": "c"}], "size": [64, 96]}'
    made = {mutate(data, Random(seed)).data for seed in range(50)}
    assert len(made) > 30


def test_mutated_headers_have_checksums_and_lengths_that_are_right(tmp_path):
    import struct
    import zlib

    write_inputs(tmp_path / "samples")
    png = mutate_png((tmp_path / "samples/dataset/labels/000.png").read_bytes(), Random(0)).data
    assert struct.unpack(">I", png[29:33])[0] == zlib.crc32(png[12:29])
    header = b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'
    data = struct.pack("<Q", len(header)) + header + bytes(4)
    made = [mutate_safetensors(data, Random(seed)).data for seed in range(20)]
    assert any(len(each) == 8 + struct.unpack("<Q", each[:8])[0] + 4 and each != data for each in made)


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        (Ending(0, "", "fine", "", 1, 0), Outcome.WORKED),
        (Ending(2, "", "", "error: size is missing\n", 1, 0), Outcome.REFUSED),
        (Ending(1, "", "a problem", "", 1, 0), Outcome.UNCLEAR),
        (Ending(1, "", "", "error: Is a directory\n", 1, 0), Outcome.UNCLEAR),
        (Ending(2, "", "", "warning\nerror: size is missing\n", 1, 0), Outcome.UNCLEAR),
        (Ending(1, "", "", TRACEBACK, 1, 0), Outcome.TRACEBACK),
        (Ending(0, "", "", TRACEBACK, 1, 0), Outcome.TRACEBACK),  # of a thread
        (Ending(-11, "", "", "", 1, 0), Outcome.SIGNAL),
        (Ending(-9, "time", "", "", 60, 0), Outcome.HANG),
        (Ending(-9, "memory", "", "", 1, 3 << 30), Outcome.MEMORY),
        (Ending(1, "", "", "error: out of memory: 60000 x 60000\n", 1, 0), Outcome.MEMORY),
    ],
)
def test_an_ending_is_called_what_it_is(ending, outcome):
    assert classify(Case("card", [], "", escapes=False, codes=(2,)), ending) == outcome


def test_problems_that_are_listed_are_no_failure_where_that_is_the_verbs_way():
    listed = Ending(1, "", "labels/000.png cannot be read", "", 1, 0)
    assert classify(Case("labels", [], "", escapes=False, codes=(1, 2)), listed) == Outcome.REFUSED


def test_a_file_outside_its_folder_that_was_used_is_a_failure():
    worked, refused = Ending(0, "", "", "", 1, 0), Ending(2, "", "", "error: it climbs\n", 1, 0)
    case = Case("manifest", [], "", escapes=True, codes=(2,))
    assert classify(case, worked) == Outcome.ESCAPED
    assert classify(case, refused) == Outcome.REFUSED


LIMITED = """
import sys, time
from pathlib import Path
from reliability.processes import Limits, Run

def hoard():
    memory = bytearray(b"1" * 300_000_000)
    time.sleep(60)
    print(len(memory))

log = Path(sys.argv[1])
hung = Run(lambda: time.sleep(60), log / "hung", Limits(seconds=0.3)).finish()
hoarded = Run(hoard, log / "hoarded", Limits(200, 100 << 20)).finish()
spoke = Run(lambda: print("said"), log / "spoke").finish()
print(hung.stopped, hung.code, hoarded.stopped, hoarded.peak > 100 << 20)
print(spoke.code, spoke.out.strip(), spoke.stopped or "-")
"""


def test_a_process_is_held_to_its_limits(tmp_path):
    done = run_program("-c", LIMITED, str(tmp_path))
    assert done.stdout.split() == ["time", "-9", "memory", "True", "0", "said", "-"], done.stderr
