import pytest
import torch

from stmg.gating.counting import MacCounter
from stmg.networks.corrector import Corrector, count_macs, fit_width


def inputs(classes=4, size=(96, 128)):
    height, width = size
    pictures = [torch.randint(0, 255, (1, height // 2, width // 2, 3), dtype=torch.uint8) for _ in range(2)]
    return *pictures, torch.randn(1, classes, height // 8, width // 8)


def test_it_starts_close_to_what_was_warped():
    torch.manual_seed(0)
    image, before, warped = inputs()
    logits, mask = Corrector(4, 16).eval()(image, before, warped)
    assert logits.shape == warped.shape
    assert mask.shape == (1, 1, 12, 16)
    assert 0.02 < mask.mean() < 0.3


def test_its_output_is_the_warped_logits_where_the_mask_is_nothing():
    image, before, warped = inputs()
    corrector = Corrector(4, 16).eval()
    torch.nn.init.constant_(corrector.out[-1].bias[-1:], -50.0)
    logits, _ = corrector(image, before, warped)
    torch.testing.assert_close(logits, warped)


@pytest.mark.parametrize(("width", "size"), [(16, (96, 128)), (48, (360, 480))])
def test_its_cost_is_counted(width, size):
    with MacCounter() as meter, torch.no_grad():
        Corrector(11, width).eval()(*inputs(11, size))
    assert abs(count_macs(width, 11, size) / meter.macs - 1) < 0.05


def test_the_width_follows_what_it_may_cost():
    size = (360, 480)
    widths = [fit_width(macs, 11, size) for macs in (0, 1e8, 4e8, 1e12)]
    assert widths == sorted(widths)
    assert widths[0] == 16
    assert widths[-1] == 96
    assert count_macs(widths[2], 11, size) <= 4e8
