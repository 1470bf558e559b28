"""Models of transformers: a folder of `save_pretrained` as a network, with what its image processor says of images."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor, nn

from stmg.errors import ModelError, explain_missing, first_line
from stmg.models.names import CONFIG
from stmg.video.normalization import Normalization

Size = tuple[int, int]

SHAPE = (9, 16)  # of the video that a model is meant for, where its processor states one side alone
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
TASK = "the task is semantic"  # the prompt of OneFormer


class LibraryModel(NamedTuple):
    """A network that another library saved, and what it says of itself."""

    network: nn.Module
    normalization: Normalization | None = None
    """Normalization that it was trained with; None if unknown."""
    size: Size | None = None
    """(H, W) it is meant for; None if nothing says so."""
    class_names: tuple[str, ...] = ()


class ImageNetwork(nn.Module):
    """A network whose forward takes RGB images alone: colors are swapped and tokens added here.

    bgr: True if the network takes blue first.
    tokens: (1, length), the prompt of OneFormer.
    """

    def __init__(self, network: nn.Module, bgr: bool, tokens: Tensor | None) -> None:
        super().__init__()
        self.network, self.bgr = network, bgr
        self.original_name = type(network).__name__
        self.register_buffer("tokens", tokens, persistent=False)

    def forward(self, image: Tensor) -> Any:
        image = image.flip(1) if self.bgr else image
        return self.network(image) if self.tokens is None else self.network(image, self.tokens)


def open_transformers(folder: Path, name: str) -> LibraryModel:
    """The network in a folder of `save_pretrained`; `name` is what the user called it. No code in it is run."""
    kind = _read_kind(folder, name)
    why = f"{name} is a model of transformers; loading it needs"
    with explain_missing("transformers", why=why, extra="hf"):
        library: Any = importlib.import_module("transformers")
    semantic = kind.endswith("ForSemanticSegmentation")
    auto = library.AutoModelForSemanticSegmentation if semantic else library.AutoModelForUniversalSegmentation
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with _quiet(library):
        try:
            network, report = auto.from_pretrained(folder, output_loading_info=True, weights_only=True, **options)
            is_stated = any((folder / file).is_file() for file in PROCESSORS)
            processor = library.AutoImageProcessor.from_pretrained(folder, **options) if is_stated else None
            is_told = kind.startswith("OneFormer")
            tokenizer = library.AutoTokenizer.from_pretrained(folder, **options) if is_told else None
        except ImportError as error:  # a package that this model alone needs
            raise ModelError(f"{name} cannot be loaded: {first_line(error)}") from error
        except Exception as error:  # transformers may raise anything for such files
            raise ModelError(f"{name} cannot be loaded by transformers: {first_line(error)}") from error
    missing = sorted(set(report["missing_keys"]) & {key for key, _ in network.named_parameters()})
    if missing:
        raise ModelError(f"{name} lacks weights of {kind}, first {missing[0]}: it was not trained to segment")
    return _describe(network, processor, tokenizer)


def read_pipeline(pipeline: Any) -> LibraryModel:
    """Read the network of a transformers pipeline."""
    return _describe(pipeline.model.eval(), pipeline.image_processor, pipeline.tokenizer)


def _describe(network: Any, processor: Any, tokenizer: Any) -> LibraryModel:
    bgr = bool(getattr(processor, "do_flip_channel_order", None))
    tokens = None
    if type(network).__name__.startswith("OneFormer") and tokenizer is not None:
        length = network.config.task_seq_len
        told = tokenizer(TASK, padding="max_length", max_length=length, truncation=True, return_tensors="pt")
        tokens = told["input_ids"] * told["attention_mask"]  # zeros, whatever it fills up with
    names = tuple(str(network.config.id2label[index]) for index in sorted(network.config.id2label))
    return LibraryModel(
        ImageNetwork(network, bgr, tokens) if bgr or tokens is not None else network,
        None if processor is None else _read_normalization(processor),
        None if processor is None else _read_size(processor),
        () if names[0] == "LABEL_0" else names,
    )


def _read_kind(folder: Path, name: str) -> str:
    """The class that a folder's model is of; an error if it is not one that segments."""
    try:
        config = json.loads((folder / CONFIG).read_text())
        kinds = config.get("architectures") or []
        kind = str(kinds[0]) if kinds else ""
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        raise ModelError(f"{folder / CONFIG} cannot be read: {first_line(error)}") from None
    if "_model_class" in config:
        raise ModelError(f"{name} is of segmentation_models_pytorch; load it as smp:{name}")
    if not kind.endswith(("ForSemanticSegmentation", "ForUniversalSegmentation", "MaskFormerForInstanceSegmentation")):
        found = f"is a {kind}" if kind else "has no architecture in its config.json"
        raise ModelError(f"{name} {found}; of transformers, semantic and universal segmentation can be loaded")
    return kind


def _read_normalization(processor: Any) -> Normalization:
    """Normalization for RGB values from 0 to 1. The processor may use another scale."""
    scale = processor.rescale_factor * 255 if processor.do_rescale else 255.0
    scale = 1.0 if abs(scale - 1) < 1e-6 else scale
    mean, std = ((0.0,) * 3, (1.0,) * 3)
    if processor.do_normalize:
        mean, std = processor.image_mean, processor.image_std
    return Normalization(tuple(value / scale for value in mean), tuple(value / scale for value in std))


def _read_size(processor: Any) -> Size | None:
    """(H, W) that the processor resizes to: of one side alone, in the shape of most videos; None if it does not."""
    size = dict(processor.size or {}) if processor.do_resize else {}
    height, width = size.get("height"), size.get("width")
    if height and width:
        return int(height), int(width)
    short, long = size.get("shortest_edge"), size.get("longest_edge")
    return shape_of_edges(short, long) if short else None


def shape_of_edges(short: int, long: int | None = None) -> Size:
    """(H, W) in the shape of most videos, of which the shorter side is `short`, unless the other is beyond `long`."""
    if short == long:
        return short, short
    wide = short * SHAPE[1] / SHAPE[0]
    scale = min(1, long / wide) if long else 1.0
    return round(short * scale), round(wide * scale)


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Hide the progress bars and messages of transformers while it loads."""
    logging = library.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
