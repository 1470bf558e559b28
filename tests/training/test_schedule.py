import pytest
import torch
from torch import nn

from stmg.errors import TrainingError
from stmg.networks import build
from stmg.training.base import BaseTraining
from stmg.training.recipe import Loss, Optimizer
from stmg.training.schedule import _rate_factor, make_optimizer, set_learning_rate, share_at


def test_poly_rises_then_falls_to_nothing():
    settings = Optimizer(schedule="poly", power=0.9, warm_up=0.1)
    shares = [share_at(settings, step, 100) for step in range(100)]
    assert shares[0] == pytest.approx(0.1)
    assert max(shares) == pytest.approx(0.91, abs=0.02)
    assert shares[10:] == sorted(shares[10:], reverse=True)
    assert shares[50] == pytest.approx(0.5**0.9)
    assert shares[-1] < 0.02


def test_one_cycle_and_constant():
    one = [share_at(Optimizer(schedule="one-cycle", warm_up=0.3), step, 100) for step in range(100)]
    assert one[30] == pytest.approx(1)
    assert one[0] < 0.05
    assert one[-1] < 0.01
    constant = Optimizer(schedule="constant", warm_up=0)
    assert {share_at(constant, step, 10) for step in range(10)} == {1.0}


def test_a_pretrained_encoder_learns_slower_and_norms_do_not_decay():
    optimizer = make_optimizer(BaseTraining(build("lite0", 3), Loss()), Optimizer(encoder=0.1, weight_decay=0.5))
    rate = set_learning_rate(optimizer, Optimizer(encoder=0.1), 500, 1000)
    groups = {(round(group["lr"] / rate, 3), group["weight_decay"]) for group in optimizer.param_groups}
    assert groups == {(0.1, 0.5), (0.1, 0.0), (1.0, 0.5), (1.0, 0.0)}
    for group in optimizer.param_groups:
        assert all((p.dim() > 1) == (group["weight_decay"] > 0) for p in group["params"])
    for name in ("network.network.encoder.stem.weight", "network.second.encoder.stem.weight"):  # of the second stage
        assert _rate_factor(name, Optimizer(encoder=0.1)) == 0.1


def test_the_papers_sgd():
    optimizer = make_optimizer(nn.Linear(2, 2), Optimizer(name="sgd", momentum=0.9, weight_decay=5e-4))
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.param_groups[0]["momentum"] == 0.9


def test_nothing_to_train_is_reported():
    with pytest.raises(TrainingError, match="every weight is frozen"):
        make_optimizer(nn.Linear(2, 2).requires_grad_(False), Optimizer())
