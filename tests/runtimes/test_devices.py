"""Devices of graph files: which engine runs where, with fakes for devices that this machine lacks."""

import re
import sys

import numpy as np
import onnxruntime
import openvino
import pytest

import stmg
from graphs import SIZE, save_one_channel, save_tflite
from stmg.errors import ModelError, SettingsError
from stmg.runtimes.engine import UnreadableGraphError
from stmg.runtimes.openvino import OpenVino
from zoo import texture

PLAIN = {"normalize": "none", "threads": 1}
IMAGE = texture(*SIZE)


@pytest.fixture
def graph(tmp_path):
    return save_one_channel(tmp_path / "one.onnx", sigmoid=True)


class Provided:
    """Stands for ONNX Runtime with the execution providers of other devices, which the CPU's does the work of."""

    def __init__(self, monkeypatch, *providers, starts=True):
        real, self.asked = onnxruntime.InferenceSession, []

        def open_session(path, options, providers):
            self.asked.append(providers)
            session = real(path, options, providers=["CPUExecutionProvider"])
            names = [name for name, _ in providers]
            session.get_providers = lambda: names if starts else names[1:]
            return session

        monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [*providers, "CPUExecutionProvider"])
        monkeypatch.setattr(onnxruntime, "InferenceSession", open_session)


@pytest.mark.parametrize(
    ("device", "provider", "settings"),
    [
        ("cuda", "CUDAExecutionProvider", {}),
        ("cuda:1", "CUDAExecutionProvider", {"device_id": "1"}),
        ("tensorrt", "TensorrtExecutionProvider", {}),
        ("directml", "DmlExecutionProvider", {}),
        ("coreml", "CoreMLExecutionProvider", {}),
        ("openvino", "OpenVINOExecutionProvider", {}),
    ],
)
def test_a_device_is_an_execution_provider_of_onnx_runtime(monkeypatch, graph, device, provider, settings):
    expected = stmg.load(graph, **PLAIN).step(IMAGE).labels
    provided = Provided(monkeypatch, provider)
    segmenter = stmg.load(graph, device=device, **PLAIN)
    assert np.array_equal(segmenter.step(IMAGE).labels, expected)
    assert provided.asked[0][0] == (provider, settings)
    assert provided.asked[0][-1] == ("CPUExecutionProvider", {})  # for what it does not take
    assert provider in segmenter.runtime.description
    assert "threads" not in segmenter.runtime.description
    assert segmenter.runtime.one_at_a_time
    assert segmenter.runtime.for_throughput() is segmenter.runtime
    results = list(segmenter.stream([IMAGE] * 3, mode="offline"))
    assert all(np.array_equal(result.labels, expected) for result in results)


def test_tensorrt_leaves_the_rest_to_cuda(monkeypatch, graph):
    provided = Provided(monkeypatch, "TensorrtExecutionProvider", "CUDAExecutionProvider")
    stmg.load(graph, device="tensorrt", **PLAIN)
    assert [name for name, _ in provided.asked[0]][1] == "CUDAExecutionProvider"


def test_a_provider_that_does_not_start_is_no_run_on_the_cpu(monkeypatch, graph):
    Provided(monkeypatch, "CUDAExecutionProvider", starts=False)
    with pytest.raises(SettingsError, match=r"'cuda' does not start: .* chose CPUExecutionProvider; cpu works"):
        stmg.load(graph, device="cuda", **PLAIN)


def test_a_device_that_is_not_installed_is_refused_with_those_that_are(monkeypatch, graph):
    with pytest.raises(SettingsError, match=r"'cuda': onnxruntime has cpu here; the package onnxruntime-gpu brings"):
        stmg.load(graph, device="cuda", **PLAIN)
    with pytest.raises(SettingsError, match=r"'mps': onnxruntime has cpu here$"):
        stmg.load(graph, device="mps", **PLAIN)
    with pytest.raises(SettingsError, match=r"'gpu': openvino has cpu, auto here$"):
        stmg.load(graph, runtime="openvino", device="gpu", **PLAIN)
    Provided(monkeypatch, "CUDAExecutionProvider")
    with pytest.raises(SettingsError, match=r"'cuda:x': onnxruntime has cpu, cuda here$"):
        stmg.load(graph, device="cuda:x", **PLAIN)


class Machine:
    """Stands for OpenVINO on a machine with other devices, whose work the CPU does."""

    def __init__(self, monkeypatch, *devices):
        real, self.asked = openvino.Core, []
        machine = self

        class Core:
            available_devices = ("CPU", *devices)

            def compile_model(self, model, device, settings):
                machine.asked.append((device, settings))
                return real().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

        monkeypatch.setattr(openvino, "Core", Core)


@pytest.mark.parametrize(
    ("device", "name"), [("gpu", "GPU"), ("gpu.1", "GPU.1"), ("gpu:1", "GPU.1"), ("npu", "NPU"), ("cpu", "CPU")]
)
def test_openvino_runs_on_the_device_of_that_name(monkeypatch, graph, device, name):
    machine = Machine(monkeypatch, "GPU.0", "GPU.1", "NPU")
    segmenter = stmg.load(graph, runtime="openvino", device=device, **PLAIN)
    assert segmenter.step(IMAGE).labels.any()
    asked, settings = machine.asked[0]
    assert asked == name
    assert ("INFERENCE_PRECISION_HINT" in settings) == (name != "NPU")  # which has no single precision
    assert ("INFERENCE_NUM_THREADS" in settings) == (name == "CPU")
    assert f", {name}" in segmenter.runtime.description
    assert segmenter.runtime.one_at_a_time == (name != "CPU")


def test_what_openvino_chose_is_reported(graph):
    segmenter = stmg.load(graph, runtime="openvino", device="auto", **PLAIN)
    assert segmenter.step(IMAGE).labels.any()
    assert "AUTO (CPU)" in segmenter.runtime.description


def test_exports_run_on_devices_too(monkeypatch, export_to):
    folder = export_to("onnx")
    provided = Provided(monkeypatch, "CUDAExecutionProvider")
    runtime = stmg.load(folder, device="cuda").runtime
    assert "CUDAExecutionProvider" in runtime.description
    assert provided.asked[0][0][0] == "CUDAExecutionProvider"
    assert runtime.for_throughput() is runtime


@pytest.fixture
def tflite(tmp_path):
    return save_tflite(tmp_path / "one.tflite")


def refuse(self, graph):
    raise UnreadableGraphError(f"{graph} cannot be loaded: no translator for CUSTOM")


def test_litert_gives_what_openvino_gives(tflite):
    ours, theirs = (stmg.load(tflite, runtime=name, **PLAIN) for name in ("litert", "openvino"))
    assert np.allclose(ours.step(IMAGE).probability, theirs.step(IMAGE).probability, atol=1e-5)
    assert re.match(r"litert \S+, CPU, 1 threads", ours.runtime.description)
    assert ours.runtime.activation == "probability"
    for one, two in zip(*(each.stream([IMAGE] * 3, mode="offline") for each in (ours, theirs)), strict=True):
        assert np.array_equal(one.labels, two.labels)


def test_litert_runs_what_openvino_refuses(monkeypatch, tflite):
    monkeypatch.setattr(OpenVino, "open", refuse)
    assert stmg.load(tflite, **PLAIN).runtime.engine.name == "litert"
    with pytest.raises(ModelError, match="no translator for CUSTOM"):
        stmg.load(tflite, runtime="openvino", **PLAIN)  # asked for by name


def test_without_litert_the_error_names_its_extra(monkeypatch, tflite):
    monkeypatch.setattr(OpenVino, "open", refuse)
    monkeypatch.delitem(sys.modules, "ai_edge_litert.interpreter", raising=False)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with pytest.raises(ModelError, match=r"no translator for CUSTOM; litert may read it: .*pip install .*\[litert\]"):
        stmg.load(tflite, **PLAIN)


def test_a_file_that_neither_reads_is_reported_once(tmp_path):
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"\xff\xfe no graph" * 20)
    with pytest.raises(ModelError, match=r"broken\.tflite cannot be loaded: \S"):
        stmg.load(path)


def test_litert_runs_tflite_files_alone_on_the_cpu(graph, tflite, export_to):
    with pytest.raises(SettingsError, match=r"\.onnx files are for onnxruntime and openvino"):
        stmg.load(graph, runtime="litert")
    with pytest.raises(SettingsError, match=r"which is no \.tflite file"):
        stmg.load(export_to("onnx"), runtime="litert")
    with pytest.raises(SettingsError, match="'gpu': litert has cpu here"):
        stmg.load(tflite, runtime="litert", device="gpu")
