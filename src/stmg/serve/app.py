"""The application: page, API, metrics and health behind one guard; every error is JSON with a reason."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from stmg import __version__
from stmg.errors import StmgError
from stmg.serve import api, api_uploads
from stmg.serve.metrics import make_registry
from stmg.serve.safety import Guard, RefusedError, Reply, SafetyMiddleware, address_of
from stmg.serve.service import Service

PAGE_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
log = logging.getLogger("stmg.serve")


class Login(BaseModel):
    """The token of the server."""

    token: Annotated[str, Field(max_length=1000)]


def make_app(service: Service) -> FastAPI:
    """The application of a service. It starts and stops the service."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="stmg",
        version=__version__,
        description="Live segmentation: streams, figures, uploads.",
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        default_response_class=Reply,
        redirect_slashes=False,
    )
    guard, registry, page = Guard(service.config), make_registry(service), _read_page()

    @app.head("/", include_in_schema=False)
    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return _page_file(page, "index.html")

    @app.get("/page/{name}", include_in_schema=False)
    async def page_file(name: str) -> Response:
        return _page_file(page, name)

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", tags=["operation"], summary="Whether the process answers")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", tags=["operation"], summary="Whether every stream is live or known to be down; else 503")
    async def ready() -> Response:
        states = {shown.stream.name: shown.stream.status.state for shown in service.shown}
        return Reply({"ready": service.is_ready, "streams": states}, 200 if service.is_ready else 503)

    @app.get("/metrics", tags=["operation"], summary="For Prometheus", response_class=Response)
    def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @app.post("/api/session", tags=["operation"], status_code=204, summary="Show the token, get a cookie")
    def log_in(body: Login, request: Request) -> Response:
        session = guard.open_session(body.token, address_of(request.scope))
        response = Response(status_code=204)
        secure = request.url.scheme == "https"
        response.set_cookie(guard.cookie, session, httponly=True, samesite="strict", secure=secure)
        return response

    app.include_router(api.make_router(service))
    app.include_router(api_uploads.make_router(service))
    _answer_errors(app, service)
    app.add_middleware(SafetyMiddleware, guard=guard)
    return app


def _answer_errors(app: FastAPI, service: Service) -> None:
    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return Reply({"error": error.detail}, error.status_code, headers=error.headers)

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> Response:
        return Reply({"error": error.reason}, error.status)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return Reply({"error": f"{where or 'the request'}: {first['msg']}"}, 422)

    @app.exception_handler(StmgError)
    async def mistake(request: Request, error: StmgError) -> Response:
        return Reply({"error": service.config.hide_credentials(str(error))}, 422)

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return Reply({"error": "an error in the server; its log says more"}, 500)


def _read_page() -> dict[str, tuple[bytes, str]]:
    """The files of the page by name, each with its media type."""
    found = {}
    for file in (files("stmg.serve") / "page").iterdir():
        suffix = file.name.rpartition(".")[2]
        if suffix in PAGE_TYPES:
            found[file.name] = file.read_bytes(), PAGE_TYPES[suffix]
    return found


def _page_file(page: dict[str, tuple[bytes, str]], name: str) -> Response:
    if name not in page:
        raise HTTPException(404, "there is no such file")
    data, media_type = page[name]
    return Response(data, media_type=media_type)
