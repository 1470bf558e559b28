"""Separate environments with a wheel of stmg and exactly its requirements, made without network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib.metadata import distribution
from pathlib import Path

from documents import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build_wheel(folder: Path) -> None:
    """A wheel of this checkout, into a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)


def make_environment(folder: Path, wheel: Path, *extras: str) -> Path:
    """The Python of an environment with the wheel and what it requires with these extras, and nothing else."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in list_requirements(*extras):
        link_distribution(name, site)
    python = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*command, str(wheel)], check=True, capture_output=True, text=True)
    return python


def list_requirements(*extras: str) -> set[str]:
    """Names of what the package requires with these extras, and what that requires in turn."""
    found: set[str] = set()
    waiting = list(PROJECT["dependencies"])
    for extra in extras:
        waiting += PROJECT["optional-dependencies"][extra]
    while waiting:
        requirement = waiting.pop()
        name = re.match(r"[\w.-]+", requirement)
        if name is None or name[0] in found or re.search(r"extra\s*==|platform_system|sys_platform", requirement):
            continue
        found.add(name[0])
        waiting += distribution(name[0]).requires or []
    return found


def link_distribution(name: str, site: Path) -> None:
    """Make an installed package seen in another environment."""
    installed = distribution(name)
    for top in {file.parts[0] for file in installed.files or () if file.parts[0] not in ("..", "__pycache__")}:
        if not (site / top).exists():
            (site / top).symlink_to(Path(str(installed.locate_file(top))).resolve())


def run(python: Path, *arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command in an environment, which sees nothing of this one."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "COV"))}
    return subprocess.run(
        [str(python), *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True, timeout=200
    )
