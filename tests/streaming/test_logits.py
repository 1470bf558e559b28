"""One channel is read as logits or as probabilities; several classes are compared."""

import numpy as np
import pytest
import torch

from stmg.errors import ModelError, SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.torch import TorchRuntime
from stmg.streaming.logits import Foreground, argmax_labels, guess_activation, read_probability
from zoo import texture

SIZE = (4, 6)


def channel(*values):
    """One channel whose columns have these values, (1, 4, n)."""
    return np.repeat(np.array(values, np.float32)[None, None], 4, axis=1)


def test_probabilities_are_read_as_they_are():
    values = channel(0, 0.2, 0.4, 0.6, 0.8, 1)
    assert np.array_equal(read_probability(values, SIZE, "probability"), values[0])


def test_logits_go_through_a_sigmoid():
    values = channel(-100, -2, -1, 0.2, 1, 100)
    expected = 1 / (1 + np.exp(-values[0].astype(np.float64)))
    assert np.allclose(read_probability(values, SIZE, "logits"), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0, 0.5, 1), "probability"),
        ((-0.0005, 0.5, 1.0005), "probability"),
        ((-0.1, 0.5), "logits"),
        ((0, 2), None),  # depth looks like this
    ],
)
def test_values_below_0_are_logits_and_those_up_to_1_probabilities(values, expected):
    assert guess_activation(channel(*values)) == expected


def test_an_overshoot_is_cut_off():
    assert np.array_equal(read_probability(channel(-0.0005, 0.5, 1.0005), (4, 3), "probability")[0], [0, 0.5, 1])


@pytest.mark.parametrize(
    ("activation", "threshold", "expected"),
    [("logits", 0.5, [0, 1, 1]), ("probability", 0.5, [0, 0, 1]), ("probability", 0.3, [0, 1, 1])],
)
def test_labels_of_one_channel_are_its_probability_above_the_threshold(activation, threshold, expected):
    runtime = CallableRuntime(lambda image: channel(0, 0.4, 0.9), activation, threshold)
    assert np.array_equal(runtime.labels(channel(0, 0.4, 0.9), (4, 3))[0], expected)


def test_the_threshold_is_one_of_probability_for_logits_too():
    logit = np.log(0.8 / 0.2)
    runtime = CallableRuntime(lambda image: None, "logits", 0.8)
    assert np.array_equal(runtime.labels(channel(logit - 0.1, logit + 0.1), (4, 2))[0], [0, 1])


def test_several_classes_have_no_probability_and_the_best_is_taken():
    logits = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float32)
    runtime = CallableRuntime(lambda image: logits)
    assert runtime.probability(logits, SIZE) is None
    assert np.array_equal(runtime.labels(logits, SIZE), argmax_labels(logits, SIZE))
    assert np.array_equal(argmax_labels(logits, SIZE), logits.argmax(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "softmax"}, "activation is one of logits, probability; got 'softmax'"),
        ({"threshold": 1}, "threshold is a probability between 0 and 1; got 1"),
        ({"threshold": float("nan")}, "threshold"),
    ],
)
def test_what_is_no_activation_or_threshold_is_refused(options, message):
    with pytest.raises(SettingsError, match=message):
        Foreground(**options)


def test_they_are_refused_where_there_are_several_classes_or_labels():
    image = texture(*SIZE)
    for options in ({"activation": "logits"}, {"threshold": 0.4}):
        with pytest.raises(SettingsError, match="one channel; this one gives 3 classes"):
            CallableRuntime(lambda image: image.astype(np.float32).transpose(2, 0, 1), **options).full(image)
        with pytest.raises(SettingsError, match="one channel; this one gives labels"):
            CallableRuntime(lambda image: image.argmax(2), **options).full(image)
        with pytest.raises(SettingsError, match="one channel; this one gives 5 classes"):
            TorchRuntime(torch.nn.Conv2d(3, 5, 3, padding=1), device="cpu", **options)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(broken):
    runtime = CallableRuntime(lambda image: None, "logits")
    for logits in (channel(broken, 0, 1), np.concatenate([channel(broken, 0, 1), channel(0, 1, 2)])):
        with pytest.raises(ModelError, match="not finite"):
            runtime.labels(logits, (4, 3))


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_on_other_devices_too(broken):
    runtime = TorchRuntime(torch.nn.Conv2d(3, 5, 3, padding=1), device="cpu")
    runtime.device = torch.device("xpu")  # as on a device of its own, where labels are found without fetching logits
    logits = torch.randn(1, 5, 4, 6)
    assert np.array_equal(runtime.labels(logits, SIZE), logits[0].argmax(0).numpy())
    logits[0, 2, 1, 1] = broken
    with pytest.raises(ModelError, match="not finite"):
        runtime.labels(logits, SIZE)


@pytest.mark.parametrize("last", [torch.nn.Identity(), torch.nn.Sigmoid()])
def test_a_torch_network_of_one_channel_has_a_probability(last):
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Conv2d(3, 1, 3, padding=1), last).eval()
    with torch.no_grad():
        network[0].weight *= 9
    runtime, image = TorchRuntime(network, device="cpu", threshold=0.3), texture(16, 24)
    logits = runtime.full(runtime.prepare(image)).logits
    expected = (logits if isinstance(last, torch.nn.Sigmoid) else logits.sigmoid())[0, 0].numpy()
    assert np.allclose(runtime.probability(logits, (16, 24)), expected, atol=1e-6)
    assert np.array_equal(runtime.labels(logits, (16, 24)), runtime.probability(logits, (16, 24)) > 0.3)
    assert 0.05 < runtime.labels(logits, (16, 24)).mean() < 0.95
