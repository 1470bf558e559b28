"""Manifest: a line of JSON per video, what became of it and what it took."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass

from stmg.files import build_dataclass
from stmg.jobs.storage import Folder
from stmg.jobs.task import Figures
from stmg.jobs.videos import Video

MANIFEST = "manifest.jsonl"
SECONDS = 5.0  # between two times that it is written where nothing can be added to a file, as on object stores


@dataclass(frozen=True)
class Entry:
    """What became of a video."""

    video: str
    """Its path or URL, without user name, password and query."""
    folder: str
    """Where its outputs are, within the output folder."""
    status: str
    """done, failed, or skipped: it was done before."""
    reason: str = ""
    """Why it failed."""
    frames: int = 0
    network_runs: int = 0
    seconds: float = 0.0
    """Of a worker, or of several added up."""
    parts: int = 1
    """Into how many it was cut."""
    note: str = ""
    """On what of it could not be decoded."""


class Manifest:
    """The entries of a run, each written as it is made, on object stores every few seconds; what a crash loses of them,
    markers know.

    Those of earlier runs stay in the file, until the folder they are about gets another; of two the later counts.
    """

    def __init__(self, out: Folder) -> None:
        self.entries: dict[str, Entry] = {}
        self._earlier: dict[str, Entry] = {}
        self._out = out
        self._written: float | None = None  # when the whole of it was

    def load(self) -> dict[str, str]:
        """Read the entries of earlier runs; the video that each of their folders is about."""
        for line in (self._out.read(MANIFEST) or b"").splitlines():
            try:
                entry = build_dataclass(Entry, json.loads(line))
            except (TypeError, ValueError):
                continue  # a line that somebody else wrote
            self._earlier[entry.folder] = entry
        return {folder: entry.video for folder, entry in self._earlier.items()}

    def add(self, video: Video, status: str, figures: Figures, reason: str = "", parts: int = 1) -> Entry:
        seconds = round(figures.seconds, 3)
        entry = Entry(
            video.address,
            video.name,
            status,
            reason,
            figures.frames,
            figures.network_runs,
            seconds,
            parts,
            figures.note,
        )
        self.entries[video.name] = entry
        if self._written is None:  # whole, as half a line may end it, of a run that was killed
            self.write()
        elif self._out.is_local:
            self._out.append(MANIFEST, _line(entry))
        elif time.monotonic() - self._written > SECONDS:
            self.write()
        return entry

    def write(self) -> None:
        entries = self._earlier | self.entries
        self._out.write(MANIFEST, b"".join(map(_line, entries.values())))
        self._written = time.monotonic()

    def count(self, status: str) -> int:
        return Counter(entry.status for entry in self.entries.values())[status]


def _line(entry: Entry) -> bytes:
    return (json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode()
