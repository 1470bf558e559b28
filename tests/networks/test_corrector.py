import pytest
import torch

from stmg.networks.corrector import SHAPES, Corrector
from stmg.runtimes.torch_corrector import count_correction
from stmg.training.corrector import fit_shape

SMALLEST = SHAPES[0]


def inputs(classes=4, size=(96, 128)):
    height, width = size
    pictures = [torch.randint(0, 255, (1, height // 2, width // 2, 3), dtype=torch.uint8) for _ in range(2)]
    return *pictures, torch.randn(1, classes, height // 8, width // 8)


def test_it_starts_close_to_what_was_warped():
    torch.manual_seed(0)
    image, before, warped = inputs()
    logits, mask = Corrector(4, SMALLEST).eval()(image, before, warped)
    assert logits.shape == warped.shape
    assert mask.shape == (1, 1, 12, 16)
    assert 0.02 < mask.mean() < 0.3


def test_its_output_is_the_warped_logits_where_the_mask_is_nothing():
    image, before, warped = inputs()
    corrector = Corrector(4, SMALLEST).eval()
    torch.nn.init.constant_(corrector.out[-1].bias[-1:], -50.0)
    logits, _ = corrector(image, before, warped)
    torch.testing.assert_close(logits, warped)


@pytest.mark.parametrize("size", [(16, 16), (97, 131), (96, 128)])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_takes_any_size(shape, size):
    image, before, warped = inputs(3, size)
    logits, mask = Corrector(3, shape).eval()(image, before, warped)
    assert logits.shape == warped.shape
    assert mask.shape[-2:] == warped.shape[-2:]


def test_shapes_cost_more_from_one_to_the_next():
    with torch.device("meta"):
        costs = [count_correction(Corrector(11, shape), (360, 480)) for shape in SHAPES]
    assert costs == sorted(set(costs))
    assert costs[0] < 6e7
    assert costs[-1] > 5e8


def test_the_shape_follows_what_it_may_cost():
    size = (360, 480)
    shapes = [fit_shape(macs, 11, size) for macs in (0, 1e8, 4e8, 1e12)]
    assert shapes[0] == SHAPES[0]
    assert shapes[-1] == SHAPES[-1]
    assert count_correction(Corrector(11, shapes[2]), size) <= 4e8
