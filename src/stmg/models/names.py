"""Names of models: what kind each is, and where its files are: shipped, in a folder, in the cache, or on the Hub."""

from __future__ import annotations

import os
import re
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path

from platformdirs import user_cache_path

from stmg.errors import ModelError, explain_missing, first_line
from stmg.models.card import CARD
from stmg.models.correctors import FILES as CORRECTOR_FILES
from stmg.models.user_code import list_functions
from stmg.runtimes.engines import GRAPH_ENGINES
from stmg.runtimes.manifest import MANIFEST

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
"""Config file of a transformers folder, in place of a checkpoint's card."""
LIBRARY_FILES = (
    CONFIG,
    *("preprocessor_config.json", "processor_config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt"),
    *("model.safetensors.index.json", "model-*.safetensors"),
)
"""Files of a transformers model on the Hub besides `model.safetensors`."""
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin")
"""Weights of older transformers models, in place of `model.safetensors`."""
OTHER_NAMES = (
    "a folder, a Hub id (nvidia/segformer-b0-finetuned-ade-512-512), a file (.onnx, .xml, .tflite, .pt, .pt2), "
    "torchvision:NETWORK, smp:FOLDER or nets.py:function"
)
"""Other valid names, as listed in errors."""
LARGE = ("ddrnet39-camvid",)
"""Checkpoints too large for the package: in the repository's `weights/`, in the cache, or on the Hub."""
LIBRARIES = ("torchvision", "smp")
"""Libraries whose models are named as `library:model`."""
TORCH_SUFFIXES = (".pt", ".pt2", ".pth", ".ckpt", ".bin", ".safetensors")
HUB_OWNER = "STMG_HUB"  # environment variable: owner of Hub repositories to load from; none by default


def is_library_name(name: str) -> bool:
    """True if a name has the form `torchvision:NETWORK` or `smp:FOLDER`."""
    return name.partition(":")[0] in LIBRARIES and ":" in name and not Path(name).exists()


def is_torch_file(name: str) -> bool:
    """True if a name is that of a file saved by PyTorch: TorchScript, torch.export, or weights alone."""
    return Path(name).suffix in TORCH_SUFFIXES and Path(name).is_file()


def is_graph_file(name: str) -> bool:
    """True if a name is that of an .onnx, .xml or .tflite file."""
    return Path(name).suffix in GRAPH_ENGINES and Path(name).is_file()


def is_export(name: str) -> bool:
    """True if a name is that of a folder exported by stmg."""
    return (Path(name) / MANIFEST).is_file()


def is_library_folder(folder: Path) -> bool:
    """True if a folder was saved by another library's `save_pretrained`."""
    return (folder / CONFIG).is_file() and not (folder / CARD).is_file()


def refuse_export(folder: Path) -> None:
    """An error where a folder, to which a checkpoint is to be written, holds an export."""
    if is_export(str(folder)):
        raise ModelError(f"{folder} holds an export, which would be loaded instead; choose another folder")


def is_exported(name: str) -> bool:
    """True if a name is that of an exported folder or a graph file. Both run without PyTorch."""
    return is_export(name) or is_graph_file(name)


def is_user_function(name: str) -> bool:
    """True if a name has the form `module:function`. A path with a drive letter does not."""
    is_function = re.fullmatch(r".+:[A-Za-z_]\w*", name) is not None and not Path(name).exists()
    return is_function and not is_library_name(name)


def is_network(name: str) -> bool:
    """True if a name is that of a network that comes with the package, without weights."""
    if is_exported(name) or (Path(name) / CARD).is_file():  # to know the names is to import PyTorch
        return False
    try:
        from stmg.networks import NETWORKS
    except ModuleNotFoundError as error:
        if error.name != "torch":  # without PyTorch there are none
            raise
        return False
    return name in NETWORKS


def is_code(name: str) -> bool:
    """True if a name is that of a network in code, a user's or the package's: it has no card."""
    return is_user_function(name) or is_network(name)


def shipped_names() -> tuple[str, ...]:
    """Names of the checkpoints that come with the package."""
    return tuple(sorted(path.name for path in _shipped().iterdir())) if _shipped().is_dir() else ()


def find_checkpoint(name: str | Path) -> Path:
    """Find the folder of a checkpoint: a path, a shipped name, or a Hub id, which is downloaded."""
    folder = Path(name)
    if folder.is_dir():
        return folder
    name = str(name)
    if name in shipped_names():
        return _shipped() / name
    if name in LARGE:
        return _find_large(name)
    if name.count("/") == 1 and not folder.parent.exists() and not name.startswith((".", "/")):
        return _download(name)
    if folder.suffix == ".py" and folder.is_file():
        raise ModelError(f"{name} is code; name the function that returns the network: {list_functions(folder)}")
    if folder.suffix in (*GRAPH_ENGINES, *TORCH_SUFFIXES, ".py"):
        raise ModelError(f"{name} does not exist")
    known = (*shipped_names(), *LARGE)
    near = get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"give a shipped name ({', '.join(known)}) or {OTHER_NAMES}"
    raise ModelError(f"no checkpoint at {name}; {hint}")


def _find_large(name: str) -> Path:
    cache = user_cache_path("stmg", appauthor=False) / "weights"
    for place in (_checkout(), cache):
        if (place / name / CARD).is_file():
            return place / name
    if owner := os.environ.get(HUB_OWNER):
        return _download(f"{owner}/{name}")
    raise ModelError(
        f"{name} does not come with the package: copy weights/{name} of the repository to {cache}, or set {HUB_OWNER} "
        "to the account of the Hub that has it"
    )


def _shipped() -> Path:
    return Path(str(files("stmg") / "weights"))


def _checkout() -> Path:
    """`weights/` of the repository, if the package is run from one."""
    return Path(str(files("stmg"))).parents[1] / "weights"


@cache
def _download(name: str) -> Path:
    """Download a Hub id and return its folder. Each id is downloaded once."""
    why = f"{name} looks like a Hub id; loading it needs"
    with explain_missing("huggingface_hub", why=why, extra="hub"):
        from huggingface_hub import snapshot_download
    try:
        folder = Path(snapshot_download(name, allow_patterns=[WEIGHTS, CARD, *CORRECTOR_FILES, *LIBRARY_FILES]))
        if is_library_folder(folder) and not any(folder.glob("*.safetensors")):
            folder = Path(snapshot_download(name, allow_patterns=[*PICKLED, *LIBRARY_FILES]))
        return folder
    except Exception as error:  # whatever the Hub, the network or the disk raises
        raise ModelError(f"{name} could not be downloaded from the Hub: {first_line(error)}") from None
