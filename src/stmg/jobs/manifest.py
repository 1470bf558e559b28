"""Manifest: a line of JSON per video, with its status and totals."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass

from stmg.files import build_dataclass
from stmg.jobs.storage import Folder
from stmg.jobs.task import Totals
from stmg.jobs.videos import Video

MANIFEST = "manifest.jsonl"
WRITE_SECONDS = 5.0  # between two writes of the whole file on object stores, which cannot append


@dataclass(frozen=True)
class ManifestEntry:
    """The result of a video."""

    video: str
    """Path or URL of the video, without user name, password and query."""
    folder: str
    """Folder of its outputs, relative to the output folder."""
    status: str
    """done, failed, or skipped because it was done before."""
    reason: str = ""
    """Reason of a failure."""
    frames: int = 0
    network_runs: int = 0
    seconds: float = 0.0
    """Seconds of all workers together."""
    parts: int = 1
    """Number of parts that the video was cut into."""
    note: str = ""
    """Description of frames that could not be decoded."""


class Manifest:
    """The entries of a run. Each is written immediately, or on object stores every few seconds. There a crash may lose
    some entries, but no markers.

    Entries of earlier runs stay in the file until their folder gets a new one. Later entries override earlier ones.
    """

    def __init__(self, out: Folder) -> None:
        self.entries: dict[str, ManifestEntry] = {}
        self._earlier: dict[str, ManifestEntry] = {}
        self._out = out
        self._written: float | None = None  # time of the last write of the whole file

    def load(self) -> dict[str, str]:
        """Read the entries of earlier runs. Return the address of the video of each folder."""
        for line in (self._out.read(MANIFEST) or b"").splitlines():
            try:
                entry = build_dataclass(ManifestEntry, json.loads(line))
            except (TypeError, ValueError):
                continue  # a line that stmg did not write
            self._earlier[entry.folder] = entry
        return {folder: entry.video for folder, entry in self._earlier.items()}

    def add(self, video: Video, status: str, totals: Totals, reason: str = "", parts: int = 1) -> ManifestEntry:
        rounded = totals._replace(seconds=round(totals.seconds, 3))
        entry = ManifestEntry(video.address, video.name, status, reason, parts=parts, **rounded._asdict())
        self.entries[video.name] = entry
        if self._written is None:  # the whole file, as a killed run may have left half a line at its end
            self.write()
        elif self._out.is_local:
            self._out.append(MANIFEST, _line(entry))
        elif time.monotonic() - self._written > WRITE_SECONDS:
            self.write()
        return entry

    def write(self) -> None:
        entries = self._earlier | self.entries
        self._out.write(MANIFEST, b"".join(map(_line, entries.values())))
        self._written = time.monotonic()

    def count(self, status: str) -> int:
        return Counter(entry.status for entry in self.entries.values())[status]


def _line(entry: ManifestEntry) -> bytes:
    return (json.dumps(asdict(entry), ensure_ascii=False) + "\n").encode()
