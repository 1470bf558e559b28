"""The API of the streams: list, add, change, remove; pictures, results, snapshots."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from stmg.serve.channels import LiveReply, Viewer
from stmg.serve.config import MOST_STREAMS, NAME
from stmg.serve.pictures import BOUNDARY, VIEWS, draw_view, encode_jpeg, encode_labels, encode_png, watch
from stmg.serve.service import SNAPSHOTS, Service, Shown, Snapshot
from stmg.serve.state import Control, StreamInfo, list_controls
from stmg.streaming.result import FrameResult

STREAM_NAME = rf"^{NAME.pattern}$"
PICTURES = f"multipart/x-mixed-replace; boundary={BOUNDARY.decode()}"
EVENTS = "text/event-stream"


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class AddStream(_Body):
    """A stream to add."""

    source: Annotated[str, Field(max_length=40, description="A name that /api/options lists; never a path or URL.")]
    name: Annotated[str, Field(pattern=STREAM_NAME, description="That of the source if not given.")] | None = None
    model: Annotated[str, Field(max_length=200, description="A name that /api/options lists.")] | None = None


def _describe_controls(schema: dict[str, Any]) -> None:
    controls = {control.name: {"description": control.help, "enum": control.values} for control in list_controls()}
    for name, control in controls.items():
        schema["properties"][name] = {key: value for key, value in control.items() if value is not None}
    schema["additionalProperties"] = False


class ChangeStream(BaseModel):
    """Controls to change. Missing ones keep their values."""

    model_config = ConfigDict(extra="allow", strict=True, json_schema_extra=_describe_controls)

    paused: bool | None = None
    opacity: Annotated[float, Field(ge=0, le=1)] | None = None


class Options(BaseModel):
    """Everything that can be chosen."""

    sources: list[str]
    models: list[str]
    controls: list[Control]
    """Settings of a stream that may change while it runs."""
    views: list[str]
    uploads: dict[str, float] | None
    """Limits of uploads; null if uploads are turned off."""


class SnapshotInfo(BaseModel):
    """A frame that is kept for a while."""

    id: str
    index: int
    picture: str
    labels: str


def make_router(service: Service) -> APIRouter:
    """The routes of the streams."""
    router = APIRouter(prefix="/api", tags=["streams"])

    @router.get("/options", summary="What can be chosen")
    def options() -> Options:
        limits = service.config.uploads
        return Options(
            sources=[stream.name for stream in service.config.streams] + list(service.config.sources),
            models=service.models.names,
            controls=list_controls(),
            views=list(VIEWS),
            uploads=None if limits is None else dict(vars(limits)),
        )

    @router.get("/streams", summary="All streams with their controls and figures")
    def streams() -> list[StreamInfo]:
        return [shown.stream.info() for shown in service.shown]

    @router.post("/streams", status_code=201, summary="Add a stream of a source that the configuration names")
    def add(body: AddStream) -> StreamInfo:
        return service.add(body.source, body.name, body.model).info()

    @router.get("/streams/{name}", summary="One stream")
    def stream(name: str) -> StreamInfo:
        return _find(service, name).stream.info()

    @router.patch("/streams/{name}", summary="Change controls, from the next frame on")
    def change(name: str, body: ChangeStream) -> dict[str, Any]:
        return _find(service, name).stream.change(body.model_dump(exclude_unset=True)).as_dict()

    @router.delete("/streams/{name}", status_code=204, summary="End a stream")
    def remove(name: str) -> Response:
        if not service.remove(name):
            raise HTTPException(404, "there is no stream of that name")
        return Response(status_code=204)

    @router.get(
        "/streams/{name}/{view}.mjpg",
        summary="A view as motion JPEG; slow viewers miss frames",
        response_class=Response,
    )
    async def motion_jpeg(name: str, view: str) -> Response:
        shown = _find(service, name)
        _check(service, view)
        return LiveReply(service, watch([(shown.pictures, view)]), PICTURES)

    @router.get("/pictures", summary="Views of several streams over one connection", response_class=Response)
    async def pictures(
        show: Annotated[list[str], Query(description="STREAM:VIEW", max_length=MOST_STREAMS)],
    ) -> Response:
        """Parts as in motion JPEG. The headers X-Stream and X-View name the stream and the view."""
        shown = []
        for text in dict.fromkeys(show):
            name, _, view = text.partition(":")
            _check(service, view)
            shown.append((_find(service, name).pictures, view))
        return LiveReply(service, watch(shown), PICTURES)

    @router.get("/streams/{name}/{view}.jpg", summary="The newest frame as JPEG", response_class=Response)
    def still(name: str, view: str) -> Response:
        shown = _find(service, name)
        if view not in VIEWS or view == "compare":
            raise HTTPException(404, f"there is no such view; there are {', '.join(VIEWS[:-1])}")
        result = _newest(shown)
        image = draw_view(view, result, shown.stream.controls.opacity)
        return Response(encode_jpeg(image), media_type="image/jpeg", headers=_index(result))

    @router.get("/streams/{name}/labels.png", summary="The newest labels as a palette PNG", response_class=Response)
    def labels(name: str) -> Response:
        result = _newest(_find(service, name))
        return Response(encode_labels(result), media_type="image/png", headers=_index(result))

    @router.get("/streams/{name}/results", summary="A record of each frame, as events", response_class=Response)
    async def results(name: str) -> Response:
        shown = _find(service, name)
        _check(service)
        return LiveReply(service, Viewer([shown.results], fresh=False), EVENTS)

    @router.get("/events", summary="Figures of all streams twice a second, as events", response_class=Response)
    async def events() -> Response:
        _check(service)
        return LiveReply(service, Viewer([service.events], fresh=False), EVENTS, service.summary(history=True))

    @router.post("/streams/{name}/snapshots", status_code=201, summary="Keep the newest frame for a while")
    def take_snapshot(name: str) -> SnapshotInfo:
        shown = _find(service, name)
        result, number = _newest(shown), secrets.token_hex(4)
        shown.snapshots[number] = Snapshot(result, shown.stream.controls.opacity)
        while len(shown.snapshots) > SNAPSHOTS:
            shown.snapshots.popitem(last=False)
        base = f"/api/streams/{name}/snapshots/{number}"
        return SnapshotInfo(id=number, index=result.index, picture=f"{base}/overlay.png", labels=f"{base}/labels.png")

    @router.get("/streams/{name}/snapshots/{number}/{kind}.png", summary="A snapshot", response_class=Response)
    def snapshot(name: str, number: str, kind: str) -> Response:
        kept = _find(service, name).snapshots.get(number)
        if kept is None or kind not in ("overlay", "raw", "labels"):
            raise HTTPException(404, "there is no such snapshot; the last few of a stream are kept")
        data = (
            encode_labels(kept.result) if kind == "labels" else encode_png(draw_view(kind, kept.result, kept.opacity))
        )
        file = f"{name}-{kept.result.index:06d}-{kind}.png"
        headers = {**_index(kept.result), "content-disposition": f'attachment; filename="{file}"'}
        return Response(data, media_type="image/png", headers=headers)

    return router


def _find(service: Service, name: str) -> Shown:
    shown = service.find(name)
    if shown is None:
        raise HTTPException(404, "there is no stream of that name")
    return shown


def _newest(shown: Shown) -> FrameResult:
    result = shown.stream.newest
    if result is None:
        raise HTTPException(503, "the stream has shown no frame yet")
    return result


def _check(service: Service, view: str | None = None) -> None:
    """Raise for an unknown view, or if there are too many viewers."""
    if view is not None and view not in VIEWS:
        raise HTTPException(404, f"there is no such view; there are {', '.join(VIEWS)}")
    if service.stopping or service.viewers >= service.config.viewers:
        raise HTTPException(503, "there are too many viewers; try again later")


def _index(result: FrameResult) -> dict[str, str]:
    return {"x-frame-index": str(result.index)}
