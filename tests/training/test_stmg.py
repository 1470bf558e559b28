import copy

import pytest
import torch

from stmg import accelerate
from stmg.data.clips import UNLABELED
from stmg.gating.mask_generator import SoftMasks
from stmg.networks import build
from stmg.streaming.masks import Masking, Masks
from stmg.training.recipe import Loss, Stmg
from stmg.training.stage import ClipBatch, freeze_norms
from stmg.training.stmg import StmgTraining

SIZE = (48, 64)


class AlwaysTwo(torch.nn.Module):
    """A teacher that sees class 2 everywhere."""

    def forward(self, image):
        return torch.eye(4)[2].view(1, 4, 1, 1).expand(len(image), 4, 6, 8)


def training(weight_sets=2, teacher=None, **settings):
    torch.manual_seed(0)
    network = accelerate(
        build("small", 4),
        torch.zeros(1, 3, *SIZE),
        mask_generator=True,
        two_weight_sets=weight_sets == 2,
        timed=False,
    )
    return StmgTraining(network, Loss(), Stmg(weight_sets=weight_sets, **settings), teacher=teacher).train()


def clip(length=2, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return ClipBatch(
        images=torch.randint(0, 255, (2, length, *SIZE, 3), generator=rng, dtype=torch.uint8),
        labels=torch.randint(0, 4, (2, length, *SIZE), generator=rng, dtype=torch.uint8),
        flows=0.05 * torch.randn(2, length - 1, 12, 16, 2, generator=rng),
    )


def trained(module):
    """Names of what a step would change."""
    module.zero_grad()
    module(clip())["loss"].backward()
    parameters = module.network.named_parameters()
    return {name.split(".")[0] for name, p in parameters if p.grad is not None and p.grad.abs().sum() > 0}


def test_two_sets_leave_the_key_network_alone():
    module = training()
    before = copy.deepcopy(module.network.network.state_dict())
    assert trained(module) == {"second", "mask_generator"}
    after = module.network.network.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)  # its batch-norms too


def test_one_set_is_trained_on_key_and_partial_frames():
    module = training(weight_sets=1)
    assert trained(module) == {"network", "mask_generator"}
    assert float(module(clip())["full"].detach()) > 0


@pytest.mark.parametrize("length", [2, 4])
def test_clips_of_any_length(length):
    losses = training()(clip(length))
    assert all(torch.isfinite(value) for value in losses.values())
    assert 0 < float(losses["keep_ratio"]) < 1


def test_alignment_explains_motion_and_the_wrong_way_does_not():
    batch = clip()
    coarse = torch.rand(2, 3, 6, 8, generator=torch.Generator().manual_seed(0)) * 255
    smooth = torch.nn.functional.interpolate(coarse, size=SIZE, mode="bilinear")
    batch.images[:, 0] = smooth.permute(0, 2, 3, 1).to(torch.uint8)
    batch.images[:, 1] = batch.images[:, 0].roll(8, 2)  # eight pixels to the right
    changed = {}
    for way in (-1, 0, 1):
        batch.flows[:] = 0
        batch.flows[..., 0] = way * 8 / SIZE[1]
        changed[way] = float(training(align=True)(batch)["changed"])
    assert changed[-1] < 0.5 * min(changed[0], changed[1])


def test_the_loss_is_the_sum_of_its_weighted_parts():
    settings = {"kl_weight": 0.1, "reconstruction": 0.5, "keep_ratio_weight": 2.0, "distill": 0.25, "fresh": 0.125}
    losses = {name: value.detach() for name, value in training(**settings)(clip()).items()}
    weights = {"segmentation": 1, "distillation": 0.25, "reconstruction": 0.5, "keep_ratio_loss": 2, "kl": 0.1}
    weights["fresh"] = 0.125
    assert float(losses["loss"]) == pytest.approx(sum(w * float(losses[n]) for n, w in weights.items()), rel=1e-5)


@pytest.mark.parametrize("weight", [0.0, 5.0])
def test_the_threshold_follows_the_share_that_is_to_be_kept_only_if_there_is_one(weight):
    module = training(keep_ratio_weight=weight, keep_ratio=0.0)
    for _ in range(3):
        module(clip())
    threshold = float(module.masks.pruning.threshold)
    assert threshold < 0.5 if weight else threshold == 0.5


@pytest.mark.parametrize("weight_sets", [1, 2])
def test_frozen_norms_are_those_that_have_statistics(weight_sets):
    module = training(weight_sets)
    freeze_norms(module)
    module(clip())
    norms = {name: part for name, part in module.network.named_modules() if hasattr(part, "running_mean")}
    measured = {name for name, part in norms.items() if part.num_batches_tracked > 0}
    assert measured == {name for name in norms if name.startswith("mask_generator.")}
    assert measured


def test_a_constant_mask_needs_no_distortion_map():
    assert float(training(constant_mask=0.8)(clip())["reconstruction"]) == 0


def test_training_blends_by_the_mask_that_a_stream_uses():
    changed = torch.rand(1, 1, 6, 8)
    masks = SoftMasks(torch.ones(1, 2), changed, torch.zeros(1, 2))
    used = Masking()(Masks((True, True), changed[0, 0].numpy()), 0).changed
    assert training()._spatial_mask(masks)[0, 0].numpy() == pytest.approx(used)


def test_partial_frames_at_a_smaller_scale():
    assert torch.isfinite(training(partial_scales=(0.5, 1.0))(clip())["loss"])


def test_frames_without_labels_get_them_from_a_teacher_and_are_compared_by_it_alone():
    module = training(teacher=AlwaysTwo())
    labels = clip().labels
    labels[0, 0] = UNLABELED
    labels[0, 0, :2] = 255  # outside the frame
    target, comparable = module._fill_in(labels, [torch.zeros(2, 3, *SIZE)] * 2)
    assert (target[0, 0, 2:] == 2).all()
    assert (target[0, 0, :2] == 255).all()
    assert torch.equal(target[0, 1], labels[0, 1])
    assert torch.equal(target[1], labels[1])
    assert (comparable[0, 1] == 2).all()
    assert torch.equal(comparable[0, 0], target[0, 0])
    assert torch.equal(comparable[1], labels[1])


def test_without_a_teacher_the_base_labels_what_has_no_labels():
    batch = clip()
    batch.labels[:] = UNLABELED
    assert float(training()(batch)["segmentation"].detach()) > 0


def test_the_spatial_mask_learns_the_distortion_map():
    # One half of the frame changes its picture and its labels, the other does not.
    torch.manual_seed(0)
    module = training(align=False, distill=0.0, reconstruction=1.0)
    images = torch.randint(0, 255, (4, 1, *SIZE, 3), dtype=torch.uint8).repeat(1, 2, 1, 1, 1)
    images[:, 1, :, 32:] = torch.randint(0, 255, (4, SIZE[0], 32, 3), dtype=torch.uint8)
    labels = torch.zeros(4, 2, *SIZE, dtype=torch.uint8)
    labels[:, 1, :, 32:] = 1
    batch = ClipBatch(images, labels, torch.zeros(4, 1, 12, 16, 2))
    optimizer = torch.optim.AdamW(module.masks.parameters(), 1e-2)
    for _ in range(40):
        optimizer.zero_grad()
        module(batch)["reconstruction"].backward()
        optimizer.step()
    module.eval()
    first, second = (module.masks.encode(module.normalize(images[:, time])) for time in (0, 1))
    changed = module.masks(first, second).changed
    assert changed[..., :3].mean() < 0.1
    assert changed[..., 5:].mean() > 0.5


def test_the_weights_of_an_earlier_versions_run_are_read():
    module = training()
    earlier = {
        name.replace("probability.normalize.", "probability.normalise.").replace(".raw_std", ".deviation"): value
        for name, value in module.state_dict().items()
    }
    assert earlier.keys() != module.state_dict().keys()
    other = training()
    for parameter in other.parameters():
        parameter.data.zero_()
    other.load_state_dict(earlier)
    for name, value in module.state_dict().items():
        assert torch.equal(other.state_dict()[name], value), name
