"""The commit that a result was measured at, and how many commits have changed the measured code since."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEASURED_CODE = (
    "src",
    "weights",
    *(f":(exclude)src/stmg/{folder}" for folder in ("cli", "jobs", "serve", "training")),
)
"""The code that results of `stmg benchmark`, `evaluate` and `ablate` depend on, as git pathspecs."""
HASH_LENGTH = 12
STAMP = re.compile(rf"(?P<version>[^+]+)\+g(?P<commit>[0-9a-f]{{{HASH_LENGTH}}})(?P<dirty>\.dirty)?")


@dataclass(frozen=True)
class Commit:
    """A commit, and whether the code was exactly that."""

    hash: str
    dirty: bool
    """True if files that the result depends on had uncommitted changes."""

    def stamp(self, version: str) -> str:
        """The version with the commit, as a local version of PEP 440: `0.1.0+g1a2b3c4d5e6f.dirty`."""
        return f"{version.partition('+')[0]}+g{self.hash}{'.dirty' if self.dirty else ''}"


def read_commit(version: str | None) -> Commit | None:
    """The commit in a version that `Commit.stamp` made; None in any other version."""
    match = STAMP.fullmatch(version or "")
    return Commit(match["commit"], match["dirty"] is not None) if match else None


def current_commit(paths: tuple[str, ...] = MEASURED_CODE, root: Path = ROOT, of: str = "HEAD") -> Commit | None:
    """The last commit that changed the measured code; None outside a git repository.

    Later commits do not count, so a result stays valid when a commit of documents or results is amended or rebased.
    """
    found = _git(root, "log", "-1", "--format=%H", of, "--", *paths)
    if not found:
        return None
    return Commit(found[:HASH_LENGTH], bool(_git(root, "status", "--porcelain", "--", *paths)))


def why_outdated(version: str | None, paths: tuple[str, ...] = MEASURED_CODE, root: Path = ROOT) -> str:
    """Why a result of this version of stmg is not of the current code; empty if it is."""
    commit = read_commit(version)
    if commit is None:
        return "from before commits were recorded"
    if commit.dirty:
        return f"measured with uncommitted changes on {commit.hash}"
    since = _git(root, "rev-list", "--count", f"{commit.hash}..HEAD", "--", *paths)
    if since is None or _git(root, "merge-base", "--is-ancestor", commit.hash, "HEAD") is None:
        return f"measured at {commit.hash}, which is not in this history"
    if int(since):
        return f"{since} commit{'s' if int(since) > 1 else ''} older than the code"
    if _git(root, "status", "--porcelain", "--", *paths):
        return "older than uncommitted changes"
    return ""


def stamp_file(path: Path, commit: Commit) -> None:
    """Add the commit to the version of stmg in a result."""
    content = json.loads(path.read_text(encoding="utf-8"))
    machine = content["machine"]
    machine["stmg"] = commit.stamp(machine["stmg"] or "0")
    path.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _git(root: Path, *arguments: str) -> str | None:
    """The output of a git command; None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
