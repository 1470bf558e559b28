"""Correctors on disk, beside their model: weights, a graph that runs without PyTorch, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stmg.errors import ModelError, SettingsError, explain_missing, require
from stmg.files import atomic_path, build_from_file, path_inside, read_mapping
from stmg.runtimes.correctors import GraphCorrector
from stmg.runtimes.engine import Engine
from stmg.streaming.correction import MIN_SIDE, Corrector
from stmg.streaming.cost import Cost
from stmg.video.frames import check_size
from stmg.video.normalization import Normalization

if TYPE_CHECKING:
    from stmg.networks.corrector import Corrector as CorrectorNetwork

CARD, WEIGHTS, GRAPH = FILES = ("corrector.json", "corrector.safetensors", "corrector.onnx")
MAX_WIDTH, MAX_SHRINK = 512, 8


@dataclass(frozen=True, kw_only=True)
class GraphModel:
    """A graph file, and the settings to open it with."""

    file: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    output: str | None = None
    activation: str | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        Normalization(self.mean, self.std)


@dataclass(frozen=True, kw_only=True)
class CorrectorCard:
    """Description of a corrector."""

    num_classes: int
    width: int
    stages: int = 5
    shrink: int = 1
    size: tuple[int, int]
    """(H, W) of the frames that it was trained on, and that its graph takes."""
    macs: int
    params: int
    motion: str
    """Level of motion that it was trained with."""
    between: bool = True
    """True if it also helps frames between two computed ones. Otherwise offline mode does not use it."""
    graph: GraphModel | None = None
    """The model it belongs to, if that is a graph file in the same folder."""
    notes: Mapping[str, object] = field(default_factory=dict)
    """Model, data, command, time, figures."""

    def __post_init__(self) -> None:
        require(2 <= self.num_classes <= 256, "num_classes is from 2 to 256", self.num_classes)
        require(2 <= self.width <= MAX_WIDTH, f"width is from 2 to {MAX_WIDTH}", self.width)
        require(self.stages in (3, 5), "stages is 3 or 5", self.stages)
        require(1 <= self.shrink <= MAX_SHRINK, f"shrink is from 1 to {MAX_SHRINK}", self.shrink)
        check_size(self.size)
        require(min(self.size) >= MIN_SIDE, f"size is at least {MIN_SIDE}x{MIN_SIDE}", self.size)


def has_corrector(folder: str | Path) -> bool:
    """True if a folder holds a corrector."""
    return (Path(folder) / CARD).is_file()


def refuse_other_corrector(folder: Path, own: Path | None = None) -> None:
    """Raise if a folder to write a model to holds another model's corrector, which took long to train.

    own: the folder of the model's own corrector, if it has one.
    """
    if has_corrector(folder) and (own is None or own.resolve() != folder.resolve()):
        raise SettingsError(f"{folder} holds the corrector of another model; choose another folder")


def read_corrector_card(folder: Path) -> CorrectorCard:
    """Read the card of a folder's corrector."""
    path = folder / CARD
    if not path.is_file():
        raise ModelError(f"{folder} holds no corrector: it has no {CARD}")
    card = build_from_file(CorrectorCard, read_mapping(path, ModelError), path, ModelError)
    if card.graph is not None:
        try:
            path_inside(folder, card.graph.file)
        except SettingsError as error:
            raise ModelError(f"{path} is damaged: graph.file: {error}") from None
    return card


def load_corrector(folder: str | Path, engine: Engine | None = None, device: str | None = None) -> Corrector:
    """Load the corrector of a folder: its graph for an engine, or its weights for PyTorch if there is no graph."""
    folder = Path(folder)
    card = read_corrector_card(folder)
    graph = folder / GRAPH
    if engine is not None and graph.is_file():
        cost = Cost(card.macs, 0, card.params)
        return GraphCorrector(graph, engine, card.num_classes, card.size, cost, between=card.between)
    why = "" if engine is None else f", as {GRAPH} is missing (stmg adapt writes it where onnxscript is installed)"
    with explain_missing("torch", why=f"the corrector of {folder} needs PyTorch here{why}", extra="torch"):
        from stmg.runtimes.torch import find_device
        from stmg.runtimes.torch_corrector import TorchCorrector
    return TorchCorrector(load_corrector_network(folder), find_device(device), between=card.between)


def load_corrector_network(folder: Path) -> CorrectorNetwork:
    """Load the corrector of a folder as a PyTorch module."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from stmg.networks.corrector import Corrector as CorrectorNetwork
    from stmg.networks.corrector import Shape

    card = read_corrector_card(folder)
    module = CorrectorNetwork(card.num_classes, Shape(card.width, card.stages, card.shrink))
    try:
        module.load_state_dict(load_file(folder / WEIGHTS))
    except (OSError, SafetensorError) as error:
        raise ModelError(f"{folder / WEIGHTS} cannot be read: {error}") from None
    except RuntimeError:
        raise ModelError(f"{folder / WEIGHTS} belongs to another corrector than {CARD} describes") from None
    if not all(bool(torch.isfinite(value).all()) for value in module.state_dict().values()):
        raise ModelError(f"the weights in {folder / WEIGHTS} are not finite: adapt again")
    return module


def describe_corrector(
    module: CorrectorNetwork,
    size: tuple[int, int],
    motion: str,
    *,
    between: bool,
    graph: GraphModel | None = None,
    notes: Mapping[str, object] | None = None,
) -> CorrectorCard:
    """Make the card of a corrector for frames of a size."""
    from stmg.gating.measure import count_parameters
    from stmg.runtimes.torch_corrector import count_correction

    return CorrectorCard(
        num_classes=module.num_classes,
        **module.shape._asdict(),
        size=size,
        macs=count_correction(module, size),
        params=count_parameters(module),
        motion=motion,
        between=between,
        graph=graph,
        notes=notes or {},
    )


def save_corrector(module: CorrectorNetwork, card: CorrectorCard, folder: Path) -> None:
    """Write a corrector, with its graph if onnx is installed."""
    from importlib.util import find_spec

    from stmg.networks.weights import write_tensors

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().cpu().clone().contiguous() for name, value in module.state_dict().items()}
    (folder / GRAPH).unlink(missing_ok=True)  # the graph of an earlier corrector
    with atomic_path(folder / CARD) as card_part, atomic_path(folder / WEIGHTS) as weights_part:
        write_tensors(tensors, weights_part)
        card_part.write_text(json.dumps(asdict(card), indent=2) + "\n", encoding="utf-8")
    if find_spec("onnx") and find_spec("onnxscript"):
        _write_graph(module, card, folder / GRAPH)


def _write_graph(module: CorrectorNetwork, card: CorrectorCard, path: Path) -> None:
    import torch

    from stmg.models.graphs import write_graph
    from stmg.runtimes.correctors import INPUTS, OUTPUTS
    from stmg.runtimes.torch_corrector import example_inputs

    inputs = example_inputs(card.num_classes, card.size, torch.device("cpu"))
    write_graph(module.cpu().eval(), dict(zip(INPUTS, inputs, strict=True)), OUTPUTS, path, opset=18)
