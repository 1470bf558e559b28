import pytest
import torch

from stmg.acceleration.accelerate import accelerate
from stmg.networks import build
from stmg.runtimes.torch import TorchRuntime

# The tests' tensors are tiny, and threads that wait for each other on a busy machine take far longer than the work.
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def model():
    """A small network of five classes."""
    torch.manual_seed(0)
    return build("small", 5).eval()


@pytest.fixture(scope="module")
def plain(model):
    """It as it is, gated and nothing else."""
    return TorchRuntime(accelerate(model, torch.zeros(1, 3, 96, 128)), device="cpu", optimise=False)
