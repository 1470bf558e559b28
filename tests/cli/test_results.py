import sys

from rich.console import Console

from stmg.cli.results import publish
from stmg.evaluation.machine import this_machine
from stmg.evaluation.results import BenchmarkResult
from stmg.evaluation.storage import read_result


def test_the_command_is_written_without_credentials(tmp_path, monkeypatch):
    addresses = ("rtsp://u:p@secret@cam/live", "--source=http://cam/a b?token=secret", "rtsp://u:se secret@cam/")
    monkeypatch.setattr(sys, "argv", ["stmg", "benchmark", *addresses, "--frames", "9"])
    result = BenchmarkResult(machine=this_machine(), model="m", source="", repeats=1, warning="", sizes=())
    publish(result, tmp_path, Console(quiet=True))
    command = read_result(tmp_path / "benchmark.json").command
    assert command == "stmg benchmark rtsp://cam/live --source=http://cam/a rtsp://cam/ --frames 9"
