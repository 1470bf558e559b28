import pytest
import torch

from stmg.gating.aggregation import aggregate
from stmg.gating.counting import count_macs
from stmg.gating.mask_generator import MaskGenerator, spatial_mask
from stmg.networks import build


def test_spatial_mask_is_the_angle_computed_by_hand():
    before = torch.tensor([1.0, 0.0])[None, :, None, None].repeat(1, 1, 1, 4)
    now = torch.tensor([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0], [1.0, 1.0]]).T[None, :, None]
    expected = torch.tensor([0.0, 0.5, 1.0, 0.5 - 0.5 / 2**0.5])
    assert torch.allclose(spatial_mask(before, now)[0, 0, 0], expected, atol=1e-6)


def test_equal_frames_are_unchanged():
    generator = MaskGenerator(6).eval()
    features = generator.encode(torch.rand(1, 3, 64, 96))
    assert generator(features, features).changed.max().item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("size", [(64, 96), (90, 123), (360, 480)])
def test_features_lie_at_one_eighth(size):
    features = MaskGenerator(6).eval().encode(torch.rand(1, 3, *size))
    assert features.shape[-2:] == (-(-size[0] // 8), -(-size[1] // 8))


def test_encoder_costs_at_most_two_percent_of_slim():
    with torch.device("meta"):
        slim, generator = build("ddrnet23-slim", 19).eval(), MaskGenerator(6).eval()
        image = torch.zeros(1, 3, 1024, 2048)
    assert count_macs(lambda: generator.encode(image)) <= 0.02 * count_macs(lambda: slim(image))


def test_inference_is_deterministic_and_binary_and_training_is_neither():
    generator = MaskGenerator(6).eval()
    before, now = (generator.encode(torch.rand(2, 3, 64, 64)) for _ in range(2))
    first, second = generator(before, now), generator(before, now)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert set(first.keep.unique().tolist()) <= {0.0, 1.0}
    drawn = generator.sample(before, now)
    assert not torch.equal(drawn.keep, generator.sample(before, now).keep)
    assert ((drawn.keep > 0) & (drawn.keep < 1)).any()


def test_training_reaches_every_parameter():
    generator = MaskGenerator(6)
    image = torch.rand(2, 3, 64, 64)
    masks = generator.sample(generator.encode(image), generator.encode(image.flip(-1)))
    (masks.keep.sum() + masks.changed.sum() + generator.divergence()).backward()
    without = [name for name, p in generator.named_parameters() if p.grad is None or not torch.isfinite(p.grad).all()]
    assert without == []


def test_a_network_without_blocks_gets_a_spatial_mask_alone():
    generator = MaskGenerator(0).eval()
    features = generator.encode(torch.rand(1, 3, 32, 32))
    assert generator(features, features).keep.shape == (1, 0)
    assert float(generator.divergence()) == 0


def test_aggregation_is_the_value_computed_by_hand_and_exact_at_both_ends():
    now, before = torch.randn(1, 4, 6, 8), torch.randn(1, 4, 6, 8)
    for value, expected in ((0.0, before), (1.0, now)):
        (out,) = aggregate([now], [before], torch.full((1, 1, 3, 4), value))
        assert torch.equal(out, expected)
    (out,) = aggregate([now], [before], torch.full((1, 1, 6, 8), 0.3))
    assert torch.allclose(out, 0.3 * now + 0.7 * before, atol=1e-6)


def test_aggregation_takes_each_cell_from_where_the_mask_says():
    now, before = torch.ones(1, 2, 4, 4), torch.zeros(1, 2, 4, 4)
    changed = torch.zeros(1, 1, 4, 4)
    changed[..., :2] = 1
    (out,) = aggregate([now], [before], changed)
    assert torch.equal(out, changed.expand(1, 2, 4, 4))


def test_aggregation_enlarges_a_smaller_frame():
    (out,) = aggregate([torch.full((1, 2, 3, 4), 5.0)], [torch.zeros(1, 2, 6, 8)], torch.ones(1, 1, 6, 8))
    assert torch.equal(out, torch.full((1, 2, 6, 8), 5.0))
