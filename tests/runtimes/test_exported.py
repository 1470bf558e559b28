import json
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest

import stmg
from stmg.errors import ModelError, SettingsError
from stmg.runtimes.engines import ENGINES
from stmg.runtimes.exported import ExportedRuntime
from stmg.runtimes.manifest import MANIFEST
from stmg.runtimes.torch import TorchRuntime
from stmg.segmenter import VideoSegmenter
from stmg.streaming.masks import Masking, Masks
from stmg.streaming.schedulers import DriftBudget, FixedPeriod, Level, PaperScheduler
from zoo import panning

SIZE = (64, 96)

pytestmark = pytest.mark.slow


class OneSetOfBlocks(TorchRuntime):
    """PyTorch with the blocks of an export, whatever the mask generator says."""

    def __init__(self, network, blocks):
        super().__init__(network, device="cpu")
        self.blocks = blocks

    def compare(self, before, now, flow):
        return super().compare(before, now, flow)._replace(keep=self.blocks)


@pytest.mark.parametrize("scheduler", [PaperScheduler(), FixedPeriod(3), DriftBudget(0.1), FixedPeriod(2, Level.CARRY)])
def test_a_stream_is_the_stream_of_pytorch(network, folder, scheduler):
    frames = panning(8, SIZE)
    theirs = stmg.load(folder, scheduler=scheduler, threads=1)
    ours = VideoSegmenter(OneSetOfBlocks(network, theirs.runtime.fixed_blocks), scheduler=scheduler)
    for one, two in zip(ours.stream(frames), theirs.stream(frames), strict=True):
        assert (one.level, one.keep, one.macs) == (two.level, two.keep, two.macs)
        assert np.mean(one.labels == two.labels) > 0.99  # features are warped to a thirty-second of a pixel


def test_what_a_partial_frame_costs_is_that_of_the_graph_whatever_the_frame(folder):
    runtime = stmg.load(folder, threads=1).runtime
    keep = (True,) * runtime.num_blocks
    costs = {runtime.cost(size, Level.PARTIAL, keep, 0.7, masked=True) for size in (SIZE, (360, 480), (100, 90))}
    assert len(costs) == 1


def test_streams_in_threads_share_an_export(folder):
    runtime = stmg.load(folder, threads=1).runtime
    frames = panning(6, SIZE)
    alone = [runtime.full(runtime.prepare(frame)).logits for frame in frames]
    wrong = []

    def stream(indices):
        outputs = [(index, runtime.full(runtime.prepare(frames[index])).logits) for index in indices]
        wrong.extend(index for index, logits in outputs if not np.array_equal(logits, alone[index]))

    threads = [threading.Thread(target=stream, args=([n, 5 - n] * 10,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_frames_of_another_size_are_brought_to_the_exported_one(folder):
    segmenter = stmg.load(folder, threads=1)
    result = segmenter.step(panning(1, (100, 150))[0])
    assert segmenter.runtime.input_size == SIZE
    assert result.labels.shape == (100, 150)


def test_logits_are_found_by_the_name_that_the_manifest_gives(export_to, tmp_path):
    onnx = pytest.importorskip("onnx")
    folder, renamed = export_to("onnx"), tmp_path / "renamed"
    renamed.mkdir()
    for path in folder.glob("*.onnx"):
        model = onnx.load(str(path))
        for node in model.graph.node:
            node.output[:] = ["scores" if name == "logits" else name for name in node.output]
            node.input[:] = ["scores" if name == "logits" else name for name in node.input]
        for output in model.graph.output:
            output.name = "scores" if output.name == "logits" else output.name
        onnx.save(model, str(renamed / path.name))
    (renamed / MANIFEST).write_text((folder / MANIFEST).read_text().replace('"logits"', '"scores"'))
    assert '"scores"' in (renamed / MANIFEST).read_text()
    frames = panning(2, SIZE)
    for engine in ENGINES.values():
        runtimes = [ExportedRuntime(each, engine(1)) for each in (folder, renamed)]
        one, two = (runtime.full(runtime.prepare(frames[0])) for runtime in runtimes)
        assert np.array_equal(one.logits, two.logits)
        masks = Masks(runtimes[0].fixed_blocks, np.ones((2, 2), np.float32))
        prepared = runtimes[0].prepare(frames[1])
        partial = [runtime.partial(prepared, masks, one.features, None, 1.0).logits for runtime in runtimes]
        assert np.array_equal(*partial)


def test_the_scale_of_partial_frames_is_part_of_the_export(folder):
    segmenter = stmg.load(folder, partial_scale=0.5, scheduler=FixedPeriod(2), threads=1)
    with pytest.raises(SettingsError, match=r"partial_scale: .* partial frames at 1, not 0.5"):
        list(segmenter.stream(panning(2, SIZE)))


def test_partial_frames_run_the_blocks_that_were_exported_and_no_others(folder):
    segmenter = stmg.load(folder, scheduler=FixedPeriod(2), masking=Masking(pruning="none"), threads=1)
    assert not all(segmenter.runtime.fixed_blocks)
    with pytest.raises(SettingsError, match=r"pruning: .* was exported with one set of blocks"):
        list(segmenter.stream(panning(2, SIZE)))


def made_before(folder, copied):
    """An export as it was when each frame had blocks of its own."""
    shutil.copytree(folder, copied)
    content = json.loads((copied / MANIFEST).read_text())
    del content["blocks"]
    content["pairs"] = [[0, "skip0", "block0"]]
    content["graphs"]["compare"]["outputs"] = ["keep", "changed"]
    (copied / MANIFEST).write_text(json.dumps(content))
    return copied


def test_an_export_made_before_computes_whole_frames_and_says_to_export_again(folder, tmp_path):
    earlier = stmg.load(made_before(folder, tmp_path / "earlier"), scheduler=FixedPeriod(2, Level.CARRY), threads=1)
    frames = panning(3, SIZE)
    now = stmg.load(folder, scheduler=FixedPeriod(2, Level.CARRY), threads=1)
    for one, two in zip(earlier.stream(frames), now.stream(frames), strict=True):
        assert np.array_equal(one.labels, two.labels)
    with pytest.raises(ModelError, match="whole frames only; for partial ones export it again, with --partial"):
        list(earlier.another(scheduler=FixedPeriod(2)).stream(frames))


def test_an_export_that_was_written_again_is_not_mixed_with_the_one_that_is_loaded(folder, tmp_path):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    runtime = stmg.load(copied, threads=1).runtime
    content = json.loads((copied / MANIFEST).read_text())
    (copied / MANIFEST).write_text(json.dumps({**content, "id": "another"}))
    with pytest.raises(ModelError, match="exported again since it was loaded"):
        runtime.for_throughput()


@pytest.mark.parametrize("damage", ["cut", "swapped", "random", "renamed", "classes"])
def test_a_damaged_graph_is_an_error_that_names_its_file(folder, tmp_path, damage):
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    content = json.loads((copied / MANIFEST).read_text())
    graph = copied / content["graphs"]["full"]["file"]
    if damage == "cut":
        graph.write_bytes(graph.read_bytes()[:1000])
    elif damage == "swapped":
        graph.write_bytes((copied / content["graphs"]["compare"]["file"]).read_bytes())
    elif damage == "random":
        graph.write_bytes(np.random.default_rng(0).bytes(5000))
    elif damage == "renamed":
        content["graphs"]["full"]["outputs"] = ["labels", *content["graphs"]["full"]["outputs"][1:]]
    else:
        content["card"]["num_classes"] = 7
    (copied / MANIFEST).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=rf"{copied}.*export it again") as caught:
        stmg.load(copied, threads=1).step(panning(1, SIZE)[0])
    assert "\n" not in str(caught.value)
