"""Masks and pruning by hand-computed values."""

import math

import pytest
import torch
from torch.nn import functional as F

from stmg.gating.aggregation import aggregate
from stmg.gating.mask_generator import (
    BlockPruning,
    MaskGenerator,
    VariationalBatchNorm,
    distortion_bias,
    hard_keep,
    relaxed_keep,
    spatial_mask,
)
from stmg.gating.measure import count_macs
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


def test_the_threshold_follows_the_share_that_is_to_be_kept():
    pruning = BlockPruning(4, 10)
    probability = torch.linspace(0.3, 0.75, 10).repeat(3, 1)
    for _ in range(400):
        pruning.follow(probability, keep=0.3)
    assert hard_keep(probability, pruning.threshold)[0].tolist() == [True] * 3 + [False] * 7


def test_probability_is_the_value_computed_by_hand():
    norm = VariationalBatchNorm(2).eval()
    norm.normalize.running_mean[:] = torch.tensor([1.0, -1.0])
    norm.normalize.running_var[:] = torch.tensor([4.0, 0.25])
    norm.scale.data[:] = torch.tensor([0.3, 0.1])
    norm.shift.data[:] = torch.tensor([0.4, 0.6])
    phi = norm(torch.tensor([[2.0, -0.5]]), sampled=False)
    # 0.3 (2 - 1) / 2 + 0.4 and 0.1 (-0.5 + 1) / 0.5 + 0.6
    assert torch.allclose(phi, torch.tensor([[0.55, 0.7]]), atol=1e-4)


def test_probability_is_clamped_to_the_tolerance():
    norm = VariationalBatchNorm(1).double().eval()
    low, high = norm(torch.tensor([[-1e3], [1e3]], dtype=torch.float64), sampled=False).detach()
    assert float(low) == pytest.approx(1e-10)
    assert float(1 - high) == pytest.approx(1e-10, rel=1e-3)


def test_divergence_is_the_value_computed_by_hand():
    norm = VariationalBatchNorm(2, prior_mean=0.7, prior_std=0.5)
    norm.shift.data[:] = torch.tensor([0.2, 0.7])
    norm.raw_std.data[:] = torch.tensor([0.0, -2.0])
    expected = 0.0
    for shift, raw in ((0.2, 0.0), (0.7, -2.0)):
        delta = math.log(1 + math.exp(raw))
        expected += math.log(0.5 / delta) + (delta**2 + (0.7 - shift) ** 2) / (2 * 0.25)
    assert norm.divergence().item() == pytest.approx(expected, rel=1e-5)


def test_divergence_pulls_the_shift_to_the_prior():
    norm = VariationalBatchNorm(3, prior_mean=0.9, prior_std=0.3)
    optimizer = torch.optim.Adam(norm.parameters(), lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        norm.divergence().backward()
        optimizer.step()
    assert torch.allclose(norm.shift, torch.full((3,), 0.9), atol=0.02)
    assert torch.allclose(F.softplus(norm.raw_std), torch.full((3,), 0.3), atol=0.02)


def test_sampled_shift_has_the_std_it_says():
    torch.manual_seed(0)
    norm = VariationalBatchNorm(1).eval()
    norm.raw_std.data.fill_(math.log(math.expm1(0.1)))
    draws = torch.stack([norm(torch.zeros(1, 1), sampled=True) for _ in range(3000)])
    assert draws.std().item() == pytest.approx(0.1, rel=0.1)
    assert torch.equal(norm(torch.zeros(1, 1), sampled=False), norm(torch.zeros(1, 1), sampled=False))


def test_more_change_means_less_pruning():
    """The sign of the distortion bias: with all else equal, φ falls as the spatial mask rises."""
    pruning = BlockPruning(4, 3).eval()
    features = torch.rand(2, 4, 5, 6)
    changed = torch.stack([torch.full((1, 5, 6), 0.1), torch.full((1, 5, 6), 0.9)])
    eta = distortion_bias(changed)
    assert torch.allclose(eta, torch.tensor([0.4, -0.4]))
    little, much = pruning(features[:1].repeat(2, 1, 1, 1), features[:1].repeat(2, 1, 1, 1), eta, sampled=False)
    assert (little > much).all()


def test_relaxed_gates_are_open_where_pruning_is_unlikely():
    torch.manual_seed(0)
    keep = relaxed_keep(torch.tensor([[0.05, 0.95]]).repeat(2000, 1))
    assert ((keep >= 0) & (keep <= 1)).all()
    # A relaxed sample exceeds one half as often as the Bernoulli variable is one.
    assert (keep > 0.5).float().mean(0).tolist() == pytest.approx([0.95, 0.05], abs=0.02)


def test_relaxed_gates_stay_finite_at_the_clamp_and_pass_gradients():
    phi = torch.tensor([[1e-10, 1 - 1e-10, 0.5]], requires_grad=True)
    keep = relaxed_keep(phi)
    keep.sum().backward()
    assert torch.isfinite(keep).all()
    assert torch.isfinite(phi.grad).all()
    assert phi.grad[0, 2] != 0


def test_hard_gates_threshold_at_one_half():
    assert hard_keep(torch.tensor([[0.49, 0.5, 0.51]])).tolist() == [[True, False, False]]


def test_tensors_by_their_earlier_names_are_loaded():
    norm, other = VariationalBatchNorm(2), VariationalBatchNorm(2)
    with torch.no_grad():
        norm.raw_std.add_(1)
        norm.normalize.running_mean.add_(1)
    earlier = {
        name.replace("normalize", "normalise").replace("raw_std", "deviation"): value
        for name, value in norm.state_dict().items()
    }
    assert set(earlier) != set(norm.state_dict())
    other.load_state_dict(earlier)
    assert all(torch.equal(value, norm.state_dict()[name]) for name, value in other.state_dict().items())
