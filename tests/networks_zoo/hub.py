"""Networks of transformers, saved with their image processors as those of the Hub are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from networks_zoo.row import NAMES, SIZE, Answer, Image, Network, Row, build_randomly, upsample

CLASSES = {"id2label": dict(enumerate(NAMES)), "label2id": {name: index for index, name in enumerate(NAMES)}}
Draw = tuple[int, float]
"""Seed and gain of random weights with which the labels of the test's clip differ from place to place."""
SQUARE = (64, 64)
STAGES = ["stage1", "stage2", "stage3", "stage4"]
VIT = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2, "intermediate_size": 32, "patch_size": 16}
QUERIES = {
    "hidden_dim": 32,
    "mask_feature_size": 32,
    "encoder_feedforward_dim": 32,
    "dim_feedforward": 32,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "num_attention_heads": 2,
    "num_queries": 6,
    "train_num_points": 4,
}


def segformer(hf: Any) -> nn.Module:
    config = hf.SegformerConfig(
        hidden_sizes=[8, 16, 24, 32],
        depths=[1] * 4,
        num_attention_heads=[1, 1, 2, 4],
        decoder_hidden_size=16,
        **CLASSES,
    )
    return hf.SegformerForSemanticSegmentation(config)


def swin(hf: Any) -> Any:
    return hf.SwinConfig(embed_dim=8, depths=[1] * 4, num_heads=[1, 1, 2, 4], window_size=2, out_features=STAGES)


def convnext(hf: Any) -> Any:
    return hf.ConvNextConfig(hidden_sizes=[8, 16, 24, 32], depths=[1] * 4, out_features=STAGES)


def upernet(backbone: Callable[[Any], Any], width: int, hf: Any) -> nn.Module:
    config = hf.UperNetConfig(
        backbone_config=backbone(hf),
        hidden_size=16,
        auxiliary_in_channels=width,
        auxiliary_channels=8,
        pool_scales=[1, 2],
        **CLASSES,
    )
    return hf.UperNetForSemanticSegmentation(config)


def mobilevit(hf: Any) -> nn.Module:
    config = hf.MobileViTConfig(
        hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 16, 16, 32],
        num_attention_heads=2,
        aspp_out_channels=16,
        image_size=64,
        output_stride=8,
        **CLASSES,
    )
    return hf.MobileViTForSemanticSegmentation(config)


def mobilevit2(hf: Any) -> nn.Module:
    config = hf.MobileViTV2Config(
        base_attn_unit_dims=[16, 24, 32],
        width_multiplier=0.25,
        n_attn_blocks=[1, 1, 1],
        aspp_out_channels=16,
        image_size=64,
        output_stride=8,
        **CLASSES,
    )
    return hf.MobileViTV2ForSemanticSegmentation(config)


def mobilenet2(hf: Any) -> nn.Module:
    return hf.MobileNetV2ForSemanticSegmentation(hf.MobileNetV2Config(depth_multiplier=0.25, min_depth=4, **CLASSES))


def beit(hf: Any) -> nn.Module:
    config = hf.BeitConfig(
        image_size=64, out_indices=[1, 2, 3, 4], pool_scales=[1, 2], auxiliary_channels=8, **VIT, **CLASSES
    )
    return hf.BeitForSemanticSegmentation(config)


def data2vec(hf: Any) -> nn.Module:
    config = hf.Data2VecVisionConfig(
        image_size=64, out_indices=[0, 1, 2, 3], pool_scales=[1, 2], auxiliary_channels=8, **VIT, **CLASSES
    )
    return hf.Data2VecVisionForSemanticSegmentation(config)


def dpt(hf: Any) -> nn.Module:
    config = hf.DPTConfig(
        image_size=64,
        backbone_out_indices=[0, 1, 2, 3],
        neck_hidden_sizes=[8, 8, 16, 16],
        fusion_hidden_size=16,
        is_hybrid=False,
        **VIT,
        **CLASSES,
    )
    return hf.DPTForSemanticSegmentation(config)


def maskformer(hf: Any) -> nn.Module:
    decoder = hf.DetrConfig(
        d_model=32,
        decoder_layers=1,
        encoder_layers=1,
        decoder_ffn_dim=32,
        encoder_ffn_dim=32,
        decoder_attention_heads=2,
        encoder_attention_heads=2,
        num_queries=6,
    )
    config = hf.MaskFormerConfig(
        backbone_config=swin(hf), decoder_config=decoder, fpn_feature_size=32, mask_feature_size=32, **CLASSES
    )
    return hf.MaskFormerForInstanceSegmentation(config)


def mask2former(hf: Any) -> nn.Module:
    config = hf.Mask2FormerConfig(backbone_config=swin(hf), feature_size=32, **QUERIES, **CLASSES)
    return hf.Mask2FormerForUniversalSegmentation(config)


def oneformer(hf: Any) -> nn.Module:
    queries = {name: value for name, value in QUERIES.items() if name != "mask_feature_size"}
    config = hf.OneFormerConfig(
        backbone_config=swin(hf),
        conv_dim=32,
        mask_dim=32,
        query_dec_layers=1,
        text_encoder_width=32,
        text_encoder_num_layers=1,
        text_encoder_vocab_size=64,
        text_encoder_proj_layers=1,
        text_encoder_n_ctx=2,
        is_training=False,
        **queries,
        **CLASSES,
    )
    return hf.OneFormerForUniversalSegmentation(config)


def eomt(hf: Any) -> nn.Module:
    vit = {name: value for name, value in VIT.items() if name != "intermediate_size"}
    config = hf.EomtConfig(
        image_size=64, num_blocks=1, num_queries=6, num_upscale_blocks=1, mlp_ratio=2, **vit, **CLASSES
    )
    return hf.EomtForUniversalSegmentation(config)


def eomt_dinov3(hf: Any) -> nn.Module:
    config = hf.EomtDinov3Config(
        image_size=64, num_blocks=1, num_queries=6, num_upscale_blocks=1, num_register_tokens=1, **VIT, **CLASSES
    )
    return hf.EomtDinov3ForUniversalSegmentation(config)


def save(
    make: Callable[[Any], nn.Module], processor: str, options: dict[str, Any], draw: Draw, folder: Path
) -> Network:
    """The network in a folder, as `save_pretrained` writes it, with the processor that its family has."""
    import transformers

    transformers.logging.set_verbosity_error()
    before = getattr(transformers, f"{processor}ImageProcessor")(**options)
    return save_with(before, make, draw, folder, lambda image: before(images=image, return_tensors="pt"))


def save_oneformer(folder: Path) -> Network:
    """Its processor has a tokenizer, here of letters alone, for the task that it is asked for."""
    import transformers

    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: index for index, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    classes = {str(index): {"name": name, "isthing": index > 1} for index, name in enumerate(NAMES)}
    (folder / "classes.json").write_text(json.dumps(classes))
    images = transformers.OneFormerImageProcessor(
        repo_path=str(folder), class_info_file="classes.json", num_text=2, **sized(SIZE)
    )
    tokenizer = transformers.CLIPTokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    before = transformers.OneFormerProcessor(images, tokenizer)
    return save_with(
        before,
        oneformer,
        (3, 3),
        folder,
        lambda image: before(images=image, task_inputs=["semantic"], return_tensors="pt"),
    )


def save_with(
    processor: Any,
    make: Callable[[Any], nn.Module],
    draw: Draw,
    folder: Path,
    prepare: Callable[[Image], Mapping[str, Any]],
) -> Network:
    import transformers

    model = build_randomly(partial(make, transformers), *draw)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)

    @torch.no_grad()
    def answer(image: Image) -> Answer:
        inputs = {name: value for name, value in prepare(image).items() if name != "pixel_mask"}
        outputs, size = model(**inputs), image.shape[:2]
        labels = processor.post_process_semantic_segmentation(outputs, target_sizes=[size])[0]
        logits = outputs.get("logits")
        if logits is not None:
            return Answer(np.asarray(labels, np.uint8), upsample(logits, size))
        said = processor.post_process_semantic_segmentation(outputs, [size], return_segmentation_scores=True)[0]
        return Answer(np.asarray(labels, np.uint8), said["segmentation_scores"].numpy())

    return Network({"folder": str(folder)}, answer)


def sized(size: tuple[int, int]) -> dict[str, Any]:
    return {"size": {"height": size[0], "width": size[1]}}


def row(
    name: str,
    family: str,
    make: Callable[[Any], nn.Module],
    processor: str,
    understood: tuple[str, ...],
    options: dict[str, Any] | None = None,
    size: tuple[int, int] = SIZE,
    draw: Draw = (1, 1.5),
) -> Row:
    options = sized(size) if options is None else options
    return Row(name, family, "stmg.load(folder)", understood, partial(save, make, processor, options, draw), size=size)


SEMANTIC = "transformers, semantic"
UNIVERSAL = "transformers, universal"
EDGES = {"size": {"shortest_edge": 64, "longest_edge": 64}}
NO_CROP = {"do_center_crop": False, "size": {"shortest_edge": 64}}
IMAGENET, HALF = "ImageNet normalization", "RGB from -1 to 1"

ROWS = (
    row("SegFormer", SEMANTIC, segformer, "Segformer", ("5 classes", "logits at 1/4", IMAGENET)),
    row(
        "UperNet, Swin",
        SEMANTIC,
        partial(upernet, swin, 32),
        "Segformer",
        ("5 classes", "logits at full size", IMAGENET),
    ),
    row(
        "UperNet, ConvNeXt",
        SEMANTIC,
        partial(upernet, convnext, 24),
        "Segformer",
        ("5 classes", "logits at full size", IMAGENET),
    ),
    row(
        "MobileViT",
        SEMANTIC,
        mobilevit,
        "MobileViT",
        (
            "5 classes",
            "logits at 1/8",
        ),
        NO_CROP,
    ),
    row(
        "MobileViTV2",
        SEMANTIC,
        mobilevit2,
        "MobileViT",
        (
            "5 classes",
            "logits at 1/8",
        ),
        NO_CROP,
        draw=(2, 1.5),
    ),
    row(
        "MobileNetV2, DeepLabV3+",
        SEMANTIC,
        mobilenet2,
        "MobileNetV2",
        ("5 classes", "logits at 1/32", HALF),
        NO_CROP,
        draw=(2, 1.5),
    ),
    row("BEiT", SEMANTIC, beit, "Beit", ("5 classes", "logits at 1/4", HALF), size=SQUARE),
    row("Data2Vec", SEMANTIC, data2vec, "Beit", ("5 classes", "logits at 1/4", HALF), size=SQUARE),
    row("DPT", SEMANTIC, dpt, "DPT", ("5 classes", "logits at full size", HALF), size=SQUARE),
    row("MaskFormer", UNIVERSAL, maskformer, "MaskFormer", ("5 classes", "logits at 1/4", IMAGENET), draw=(2, 3)),
    row("Mask2Former", UNIVERSAL, mask2former, "Mask2Former", ("5 classes", IMAGENET), draw=(3, 1.5)),
    Row("OneFormer", UNIVERSAL, "stmg.load(folder)", ("5 classes", "logits at 1/4", IMAGENET), save_oneformer),
    row("EoMT", UNIVERSAL, eomt, "Eomt", ("5 classes", "logits at full size", IMAGENET), EDGES, SQUARE, draw=(3, 3)),
    row(
        "EoMT, DINOv3",
        UNIVERSAL,
        eomt_dinov3,
        "Eomt",
        ("5 classes", "logits at full size", IMAGENET),
        EDGES,
        SQUARE,
        draw=(1, 3),
    ),
)
