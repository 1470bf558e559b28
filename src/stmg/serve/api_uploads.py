"""The API of uploads: send a video, follow its progress, fetch its results."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, BinaryIO

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from stmg.serve.safety import Receive, Reply, Scope, Send
from stmg.serve.service import Service
from stmg.serve.uploads import Upload, UploadRefusedError, Uploads
from stmg.serve.worker import RESULTS

TYPES = {"overlay": "video/mp4", "labels": "application/zip", "records": "application/jsonl"}
PATIENCE = 30.0  # seconds without a byte after which an upload is abandoned
RANGE = re.compile(r"bytes=[ \t]*(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))[ \t]*")  # one range; several may be ignored
log = logging.getLogger("stmg.serve")


def make_router(service: Service) -> APIRouter:
    """The routes of uploads."""
    router = APIRouter(prefix="/api/uploads", tags=["uploads"])

    @router.get("", summary="All uploads that are kept")
    def uploads() -> list[Upload]:
        return [] if service.uploads is None else service.uploads.list()

    @router.post("", status_code=201, summary="Send a video, as it is, as the body")
    async def send(
        request: Request,
        name: Annotated[str, Query(max_length=400, description="What the video is called")] = "video",
        model: Annotated[str | None, Query(max_length=200, description="A name that /api/options lists")] = None,
    ) -> Upload:
        queue = _uploads(service)
        chosen = service.models.named(model)
        most = int(1e6 * queue.limits.megabytes)
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:15]) > most:
            raise HTTPException(413, f"a video has at most {queue.limits.megabytes:g} MB")
        try:
            job, path = queue.begin(_safe_name(name), chosen.name, chosen.spec)
        except UploadRefusedError as refused:
            raise HTTPException(429, str(refused)) from None
        try:
            size = await _receive(request, path, most, lambda: queue.get(job.id) is not None)
            return queue.finish(job.id, size)
        except UploadRefusedError as refused:
            raise HTTPException(409, str(refused)) from None
        except BaseException:
            queue.remove(job.id)
            raise

    @router.get("/{number}", summary="How far an upload is")
    def upload(number: str) -> Upload:
        return _find(_uploads(service), number)

    @router.delete("/{number}", status_code=204, summary="Cancel an upload, or remove it and its results")
    def remove(number: str) -> Response:
        if not _uploads(service).remove(number):
            raise HTTPException(404, "there is no such upload")
        return Response(status_code=204)

    @router.get("/{number}/{result}", summary="overlay, labels or records", response_class=FileReply)
    def result(number: str, result: str) -> FileReply:
        queue = _uploads(service)
        job, path = _find(queue, number), queue.result(number, result)
        if path is None or not path.is_file():
            raise HTTPException(404, f"there is no such result; a video that is done has {', '.join(RESULTS)}")
        stem = Path(job.name).stem.encode("ascii", "replace").decode().replace("?", "_") or "video"
        kind = "inline" if result == "overlay" else "attachment"
        return FileReply(
            path, media_type=TYPES[result], filename=f"{stem}-{RESULTS[result]}", content_disposition_type=kind
        )

    return router


class FileReply(FileResponse):
    """A file, or the range that the request asks for. An invalid range is ignored; one beyond the end gives 416."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        requested = headers.get("range")
        if requested is not None:
            size = Path(self.path).stat().st_size
            is_range, is_within = _check_range(requested, size)
            if is_range and not is_within and "if-range" not in headers:
                reply = Reply({"error": f"the file has {size} bytes"}, 416, {"content-range": f"bytes */{size}"})
                await reply(scope, receive, send)
                return
            if not is_within:
                scope = {**scope, "headers": [(name, value) for name, value in headers.raw if name != b"range"]}
        await super().__call__(scope, receive, send)


def _check_range(requested: str, size: int) -> tuple[bool, bool]:
    """True, if a Range header holds one range of bytes; and True, if a file of this size contains part of it."""
    match = RANGE.fullmatch(requested)
    if match is None:
        return False, False
    first, last, suffix = match.groups()
    if suffix is not None:
        return True, int(suffix) > 0 and size > 0
    if last and int(last) < int(first):
        return False, False
    return True, int(first) < size


async def _receive(request: Request, path: Path, most: int, is_wanted: Callable[[], bool]) -> int:
    """Write a body to a file while the upload exists. Return its size."""
    size = 0
    chunks = request.stream()
    with path.open("wb") as file:
        try:
            while True:
                async with asyncio.timeout(PATIENCE):
                    chunk = await anext(chunks, None)
                if chunk is None or not is_wanted():
                    break
                size += len(chunk)
                if size > most:
                    raise HTTPException(413, f"a video has at most {most / 1e6:g} MB")
                await asyncio.to_thread(_write, file, chunk)
        except TimeoutError:
            raise HTTPException(408, "no more of the video came") from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection broke off") from None
        except OSError as error:
            log.error("an upload cannot be written: %s", error)
            raise HTTPException(507, "the server has no room for the video") from None
    if not size:
        raise HTTPException(422, "the video is empty; send it as the body of the request")
    return size


def _write(file: BinaryIO, chunk: bytes) -> None:
    file.write(chunk)


def _uploads(service: Service) -> Uploads:
    if service.uploads is None:
        raise HTTPException(403, "this server takes no videos")
    return service.uploads


def _find(uploads: Uploads, number: str) -> Upload:
    job = uploads.get(number)
    if job is None:
        raise HTTPException(404, "there is no such upload")
    return job


def _safe_name(name: str) -> str:
    """Make a name safe to show: without folders and unprintable characters, and not too long."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(letter for letter in last if letter.isprintable() and letter not in "<>\"'&")[:80].strip() or "video"
