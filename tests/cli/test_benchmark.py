from commands import is_one_line, run_stmg
from stmg.evaluation import benchmark as module
from stmg.evaluation.storage import read_result
from stmg.evaluation.way import BASE, OFFLINE, ONLINE, Way


def test_a_model_beside_its_base_network_baselines_and_another_network(samples, tmp_path, monkeypatch):
    measured, peak_memory = [], module.peak_memory

    def measure_once(*arguments):
        """A real process for one row: one for each would take most of the time of this test."""
        if not measured:
            measured.append(peak_memory(*arguments))
        return measured[0]

    monkeypatch.setattr(module, "peak_memory", measure_once)
    timing = ("--frames", 4, "--repeats", 1, "--threads", 1, "--size", "96x128")
    others = ("--baselines", "--smaller", "ddrnet23-narrow")
    done = run_stmg("benchmark", samples.model, samples.video, *timing, *others, "--out", tmp_path, columns=80)
    assert done.returncode == 0, done.stderr
    (run,) = read_result(tmp_path / "benchmark.json").sizes
    assert (run.size, run.frames) == ((96, 128), 4)
    assert run.row(BASE).timing.gain == 1
    assert run.row(ONLINE).peak_memory > 10_000_000
    assert run.row(OFFLINE).peak_memory > 10_000_000
    assert run.row(Way(kind="copied-labels", stride=2)).miou is None  # the video has no labels
    assert run.row(Way(kind="other-model", model="ddrnet23-narrow")).timing.fps > 0
    for name in ("base on every frame", "last labels copied,", "half resolution", "ddrnet23-narrow on"):
        assert name in done.stdout
    assert (tmp_path / "benchmark-latency-96x128.png").is_file()


def test_what_cannot_be_compared_is_reported_in_one_line(samples, tmp_path):
    done = run_stmg("benchmark", samples.model, samples.video, "--frames", 2, "--beside", samples.frames)
    assert done.returncode == 2
    assert "is no export; first: stmg export" in done.stderr
    assert is_one_line(done.stderr)
    done = run_stmg("benchmark", samples.model, samples.video, "--rivals")
    assert done.returncode == 2
