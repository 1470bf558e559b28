import pytest

from commands import is_one_line, run_stmg
from stmg.cli import serve as module


def test_a_folder_to_record_to_keeps_the_limits_of_the_file(tmp_path, monkeypatch):
    served = []
    monkeypatch.setattr(module, "serve_page", lambda config, spec: served.append(config))
    file = tmp_path / "streams.yaml"
    for limits in ("record: {folder: kept, gigabytes: 500, hours: 5000}", ""):
        file.write_text(f"streams: [{{name: a, source: street:1, model: small-streets}}]\n{limits}\n")
        done = run_stmg("serve", "--config", file, "--record", tmp_path / "other")
        assert done.returncode == 0, done.stderr
    records = [config.record for config in served]
    assert [record.folder for record in records] == [str(tmp_path / "other")] * 2
    assert [(record.gigabytes, record.hours) for record in records] == [(500, 5000), (10, 168)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scheduler", "always-key"), "cannot be used in realtime"),
        (("--fusion", "0.3"), "fusion is for online mode; the mode is realtime"),
        (("--fusion", "0.3", "--settings", "{offline}"), "fusion is for online mode; the mode is offline"),
    ],
)
def test_what_the_mode_does_not_use_is_refused(tmp_path, monkeypatch, options, message):
    monkeypatch.setattr(module, "serve_page", lambda config, spec: None)
    (tmp_path / "offline.yaml").write_text("mode: offline")
    (tmp_path / "online.yaml").write_text("mode: online")
    options = [option.format(offline=tmp_path / "offline.yaml") for option in options]
    done = run_stmg("serve", "street:1", "-m", "small-streets", *options)
    assert done.returncode == 2
    assert is_one_line(done.stderr)
    assert message in done.stderr
    for online in (("--mode", "online"), ("--settings", tmp_path / "online.yaml")):
        assert run_stmg("serve", "street:1", "-m", "small-streets", *options[:2], *online).returncode == 0


def test_a_server_knows_the_port_that_was_left_open(monkeypatch):
    ports = []
    monkeypatch.setattr(
        "stmg.serve.run.serve",
        lambda service, listener: ports.append((service.config.port, listener.getsockname()[1])),
    )
    assert run_stmg("serve", "street:1", "-m", "small-streets", "--port", "0").returncode == 0
    ((known, own),) = ports
    assert known == own > 0
