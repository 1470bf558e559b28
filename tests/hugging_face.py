"""Tiny models of transformers with random weights, and their folders."""

from __future__ import annotations

import json

import torch

LABELS = {0: "road", 1: "sidewalk", 2: "sky", 3: "car", 4: "person"}


def make_segformer(**options):
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    sizes = {"hidden_sizes": [8, 16, 24, 32], "decoder_hidden_size": 16, "num_attention_heads": [1, 1, 2, 4]}
    model = _make(SegformerForSemanticSegmentation, SegformerConfig(**sizes, **_labels(options)))
    return _balance(model, model.decode_head.classifier)


def make_mobilevit(**options):
    from transformers import MobileViTConfig, MobileViTForSemanticSegmentation

    sizes = {"image_size": 64, "hidden_sizes": [16, 20, 24], "neck_hidden_sizes": [8, 8, 16, 16, 16, 16, 32]}
    small = {"num_attention_heads": 2, "aspp_out_channels": 16, "atrous_rates": [1, 2, 3]}
    model = _make(MobileViTForSemanticSegmentation, MobileViTConfig(**sizes, **small, **_labels(options)))
    return _balance(model, model.segmentation_head.classifier.convolution)


def make_mask2former(**options):
    from transformers import Mask2FormerConfig, Mask2FormerForUniversalSegmentation

    small = {"feature_size": 32, "mask_feature_size": 32, "hidden_dim": 32, "encoder_feedforward_dim": 16}
    small |= {"dim_feedforward": 16, "encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2}
    config = Mask2FormerConfig(backbone_config=_make_swin(), num_queries=7, **small, **_labels(options))
    return _make(Mask2FormerForUniversalSegmentation, config)


def make_maskformer(**options):
    from transformers import DetrConfig, MaskFormerConfig, MaskFormerForInstanceSegmentation

    halves = {f"{half}_{name}": value for half in ("encoder", "decoder") for name, value in _DETR.items()}
    decoder = DetrConfig(d_model=32, num_queries=7, **halves)
    small = {"fpn_feature_size": 32, "mask_feature_size": 32}
    config = MaskFormerConfig(backbone_config=_make_swin(), decoder_config=decoder, **small, **_labels(options))
    return _make(MaskFormerForInstanceSegmentation, config)


def make_oneformer(**options):
    from transformers import OneFormerConfig, OneFormerForUniversalSegmentation

    small = {"hidden_dim": 32, "mask_dim": 32, "conv_dim": 32, "encoder_feedforward_dim": 16, "dim_feedforward": 16}
    small |= {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "query_dec_layers": 1}
    text = {"text_encoder_width": 32, "text_encoder_num_layers": 1, "text_encoder_context_length": 7}
    text |= {"text_encoder_vocab_size": 50, "text_encoder_n_ctx": 4, "task_seq_len": 7, "is_training": False}
    config = OneFormerConfig(backbone_config=_make_swin(), num_queries=7, **small, **text, **_labels(options))
    return _make(OneFormerForUniversalSegmentation, config)


def make_eomt(**options):
    from transformers import EomtConfig, EomtForUniversalSegmentation

    small = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2, "mlp_ratio": 2, "num_blocks": 1}
    config = EomtConfig(image_size=64, patch_size=16, num_queries=7, num_upscale_blocks=2, **small, **_labels(options))
    return _make(EomtForUniversalSegmentation, config)


UNIVERSAL = {
    "Mask2Former": make_mask2former,
    "MaskFormer": make_maskformer,
    "OneFormer": make_oneformer,
    "EoMT": make_eomt,
}
"""Models that give queries, by name."""

_DETR = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}


def make_processor(kind: str, **options):
    """An image processor of transformers, in the form that needs no torchvision."""
    import transformers

    return getattr(transformers, f"{kind}ImageProcessorPil")(**options)


def write_tokenizer(folder):
    """A tokenizer of a few words, for OneFormer."""
    words = ["<pad>", "<unk>", "the", "task", "is", "semantic"]
    model = {"type": "WordLevel", "vocab": {word: at for at, word in enumerate(words)}, "unk_token": "<unk>"}
    content = {"version": "1.0", "model": model, "pre_tokenizer": {"type": "Whitespace"}, "added_tokens": []}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def _labels(options):
    return {"id2label": LABELS, "label2id": {name: at for at, name in LABELS.items()}} | options


def _make_swin():
    from transformers import SwinConfig

    small = {"embed_dim": 12, "depths": [1, 1, 1, 1], "num_heads": [1, 1, 2, 2], "window_size": 4}
    return SwinConfig(image_size=64, out_features=[f"stage{at}" for at in range(1, 5)], **small)


def _make(kind, config):
    """A model whose weights are large enough that its classes differ from pixel to pixel."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = kind(config).eval()
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "queries" in name:
                    value.normal_(0, 9)
                elif value.dim() > 1 and "position_embed" not in name:
                    value.normal_(0, (2 / value[0].numel()) ** 0.5)
            if kind.__name__.startswith(("Mask", "OneFormer")):
                _spread(model, config)
    return model


@torch.no_grad()
def _balance(model, layer):
    """The model, in which no class is the best one everywhere."""
    image = torch.randn(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    logits = model(image).logits
    layer.weight /= logits.std((0, 2, 3))[:, None, None, None]
    layer.bias.copy_((layer.bias - logits.mean((0, 2, 3))) / logits.std((0, 2, 3)))
    return model


def _spread(model, config):
    """Change the last layers of a model that gives queries, so that these are of several classes and places."""
    image = torch.randn(1, 3, 64, 96)
    tokens = {"task_inputs": torch.tensor([[2, 3, 4, 5, 0, 0, 0]])} if config.model_type == "oneformer" else {}
    layers = [layer for name, layer in model.named_modules() if "class_predictor" in name or "class_embed" in name]
    layer = next(layer for layer in layers if isinstance(layer, torch.nn.Linear))
    logits = model(image, **tokens).class_queries_logits[0]
    layer.weight *= 5 / logits.std(0)[:, None]
    layer.bias.copy_((layer.bias - logits.mean(0)) * 5 / logits.std(0))
