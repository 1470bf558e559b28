import json

from commands import is_one_line, run_stmg
from graphs import SIZE, save_one_channel, save_several_outputs


def test_blocks_and_costs_as_json_and_as_a_table(samples):
    facts = json.loads(run_stmg("inspect", "ddrnet23-slim", "--size", "64x128", "--json").stdout)
    assert len(facts["blocks"]) == 6
    assert facts["head"] == "final_layer"
    assert facts["size"] == [64, 128]
    assert facts["num_classes"] == 19
    skipped = sum(block["macs"] for block in facts["blocks"])
    assert facts["macs_all_blocks_skipped"] == facts["macs"] - skipped
    assert facts["macs_all_blocks_skipped"] < facts["macs_without_head"] < facts["macs"]
    assert all(block["ms"] > 0 for block in facts["blocks"])
    text = run_stmg("inspect", samples.model).stdout
    assert "stage1.1" in text
    assert "5 classes" in text


def test_the_number_of_classes_is_for_a_network_without_weights(samples):
    facts = json.loads(run_stmg("inspect", "small", "--size", "64x64", "--classes", 7, "--json").stdout)
    assert facts["num_classes"] == 7
    done = run_stmg("inspect", samples.model, "--classes", 7)
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_why_a_block_is_not_listed_is_reported(samples):
    text = run_stmg("inspect", "ddrnet23-slim", "--size", "64x128").stdout
    assert "not listed, as the first of its stage, which always runs: layer1.0" in text
    facts = json.loads(run_stmg("inspect", "ddrnet23-slim", "--size", "64x128", "--json").stdout)
    names = [name for group in facts["unlisted"].values() for name in group]
    assert len(set(names)) == len(names)
    assert set(names).isdisjoint(block["name"] for block in facts["blocks"])


def test_a_graph_file_and_an_export_are_inspected(tmp_path, export_to):
    graph = save_several_outputs(tmp_path / "net.onnx")
    facts = json.loads(run_stmg("inspect", graph, "--json").stdout)
    assert facts["size"] == list(SIZE)
    outputs = {part["name"]: part["detail"] for part in facts["parts"] if part["kind"] == "output"}
    assert outputs["1959"] == "1x1x48x64"
    text = run_stmg("inspect", graph).stdout
    assert "the output used is 1959" in text
    assert "has no blocks that can be skipped" in text
    done = run_stmg("inspect", graph, "--size", "32x32")
    assert done.returncode == 2
    assert "computes frames of 48x64" in done.stderr
    facts = json.loads(run_stmg("inspect", export_to("onnx"), "--json").stdout)
    assert [part["name"] for part in facts["parts"] if part["kind"] == "block"] == ["0", "1", "2", "3", "4"]
    assert facts["num_classes"] == 5
    (tmp_path / "broken.onnx").write_bytes(b"broken")
    done = run_stmg("inspect", tmp_path / "broken.onnx")
    assert done.returncode == 2
    assert is_one_line(done.stderr)


def test_what_is_no_network_is_refused_in_a_line(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text("def box():\n    return lambda image: image\n")
    for model, message in ((f"{code}:box", "torch.nn.Module"), ("nothing", "no checkpoint at nothing")):
        done = run_stmg("inspect", model)
        assert done.returncode == 2
        assert message in done.stderr
        assert is_one_line(done.stderr)


def test_a_size_is_refused_for_a_graph_of_any_size(tmp_path):
    graph = save_one_channel(tmp_path / "any.onnx", sigmoid=False, size=None)
    assert run_stmg("inspect", graph).returncode == 0
    done = run_stmg("inspect", graph, "--size", "32x32")
    assert done.returncode == 2
    assert "--size cannot be used with" in done.stderr
