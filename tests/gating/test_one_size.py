"""Networks that take one image size only: the size is given, stated by the network, or found."""

import numpy as np
import pytest
import torch
from torch import nn

import stmg
from stmg.errors import ModelError
from stmg.gating.accelerate import accelerate_at
from zoo import texture


class Positional(nn.Module):
    """Adds a value to each position, of which there are as many as one size of images has."""

    def __init__(self, height, width):
        super().__init__()
        self.head = nn.Conv2d(3, 4, 8, stride=8)
        self.position = nn.Parameter(torch.randn(1, 3, height, width))

    def forward(self, image):
        return self.head(image + self.position)


class Multiples(nn.Module):
    """Takes any size whose sides are multiples of 28."""

    def __init__(self):
        super().__init__()
        self.head = nn.Conv2d(3, 4, 1)

    def forward(self, image):
        if image.shape[2] % 28 or image.shape[3] % 28:
            raise ValueError("sides are multiples of 28")
        return self.head(image)


def test_a_common_size_is_found():
    network = Positional(256, 256).eval()
    segmenter = stmg.VideoSegmenter(network, device="cpu")
    assert segmenter.runtime.input_size == (256, 256)
    image = texture(256, 256)
    labels = segmenter.step(image).labels
    assert labels.shape == (256, 256)
    assert len(np.unique(labels)) > 1
    assert segmenter.step(texture(90, 120)).labels.shape == (90, 120)


def test_another_size_is_given_by_name():
    network = Positional(48, 80).eval()
    with pytest.raises(ModelError, match="images of one size only, give that as size"):
        stmg.VideoSegmenter(network, device="cpu")
    segmenter = stmg.VideoSegmenter(network, device="cpu", size=(48, 80))
    assert segmenter.runtime.input_size == (48, 80)
    assert segmenter.step(texture(90, 120)).labels.shape == (90, 120)


def test_a_network_that_takes_multiples_is_not_of_one_size():
    assert accelerate_at(Multiples(), (128, 128)).input_size is None


def test_what_fails_at_every_size_keeps_its_error():
    with pytest.raises(ModelError, match="sides are multiples of 0"):
        accelerate_at(Failing(), (128, 128))


class Failing(nn.Module):
    def forward(self, image):
        raise ValueError("sides are multiples of 0")
