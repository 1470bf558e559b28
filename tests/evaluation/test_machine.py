"""The machine that figures come from."""

import psutil
import torch

from stmg.evaluation.machine import busy_warning, this_machine


def test_a_busy_machine_is_warned_of(monkeypatch):
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 55.0)
    assert busy_warning() == "others were using 55% of the machine: times are too long"
    monkeypatch.setattr(psutil, "cpu_percent", lambda interval: 3.0)
    assert busy_warning() == ""


def test_the_machine_says_what_computes():
    machine = this_machine()
    assert machine.processor
    assert machine.packages["torch"] == torch.__version__
    assert machine.threads == torch.get_num_threads()
    assert str(machine).startswith(f"{machine.processor}, {machine.cores} cores")
