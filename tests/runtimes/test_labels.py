"""One channel is read as logits or as probabilities; several classes are compared."""

import numpy as np
import pytest
import torch

from stmg.errors import ModelError, SettingsError
from stmg.runtimes.callable import CallableRuntime
from stmg.runtimes.labels import Foreground, argmax_labels
from stmg.runtimes.torch import TorchRuntime
from zoo import texture

SIZE = (4, 6)


def channel(*values):
    """One channel whose columns have these values, (1, 4, n)."""
    return np.repeat(np.array(values, np.float32)[None, None], 4, axis=1)


def test_values_within_0_and_1_are_probabilities_as_they_are():
    values = channel(0, 0.2, 0.4, 0.6, 0.8, 1)
    foreground = Foreground()
    assert np.array_equal(foreground.probability(values, SIZE), values[0])
    assert np.array_equal(foreground.labels(values, SIZE)[0], [0, 0, 0, 1, 1, 1])


def test_values_outside_are_logits_and_from_then_on_all_are():
    foreground = Foreground()
    values = channel(-100, -2, -1, 0.2, 1, 100)
    assert np.allclose(foreground.probability(values, SIZE), 1 / (1 + np.exp(-values[0].astype(np.float64))), atol=1e-6)
    assert np.array_equal(foreground.labels(values, SIZE)[0], [0, 0, 0, 1, 1, 1])
    within = channel(0, 0.2, 0.4, 0.6, 0.8, 1)
    assert np.allclose(foreground.probability(within, SIZE), 1 / (1 + np.exp(-within[0])))


@pytest.mark.parametrize(("activation", "expected"), [("logits", [0, 1, 1]), ("probability", [0, 0, 1])])
def test_what_is_stated_is_not_guessed(activation, expected):
    assert np.array_equal(Foreground(activation).labels(channel(0, 0.4, 0.9), (4, 3))[0], expected)


def test_the_threshold_is_one_of_probability_for_both():
    logit = np.log(0.8 / 0.2)
    assert np.array_equal(Foreground("logits", 0.8).labels(channel(logit - 0.1, logit + 0.1), (4, 2))[0], [0, 1])
    assert np.array_equal(Foreground("probability", 0.8).labels(channel(0.79, 0.81), (4, 2))[0], [0, 1])


def test_an_overshoot_leaves_probabilities_what_they_are():
    probability = Foreground().probability(channel(-0.0005, 0.5, 1.0005), (4, 3))
    assert np.array_equal(probability[0], [0, 0.5, 1])


def test_several_classes_have_no_probability_and_the_best_is_taken():
    logits = np.random.default_rng(0).normal(size=(5, 4, 6)).astype(np.float32)
    assert Foreground().probability(logits, SIZE) is None
    assert np.array_equal(Foreground().labels(logits, SIZE), argmax_labels(logits, SIZE))
    assert np.array_equal(argmax_labels(logits, SIZE), logits.argmax(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"activation": "softmax"}, "activation is logits or probability; got 'softmax'"),
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


def test_what_is_not_finite_is_refused():
    with pytest.raises(ModelError, match="not finite"):
        Foreground().labels(channel(np.nan, 0, 1), (4, 3))


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
