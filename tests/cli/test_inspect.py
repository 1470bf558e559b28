import json

from commands import is_one_line, run_stmg


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


def test_what_is_no_network_is_refused_in_a_line(tmp_path):
    code = tmp_path / "mine.py"
    code.write_text("def box():\n    return lambda image: image\n")
    for model, message in ((f"{code}:box", "torch.nn.Module"), ("nothing", "no checkpoint at nothing")):
        done = run_stmg("inspect", model)
        assert done.returncode == 2
        assert message in done.stderr
        assert is_one_line(done.stderr)
