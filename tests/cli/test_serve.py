from commands import run_stmg
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
