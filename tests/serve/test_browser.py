"""The page in a real browser: Debian's Chromium, headless. Skipped where there is none; `.ci/run` installs it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servers import Camera, Running, make_config, run_server

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
SCREENSHOTS = os.environ.get("STMG_SCREENSHOTS")
"""A folder to keep screenshots in, to be looked at."""

PATIENCE = 120.0
"""Seconds until a wait has failed: a busy machine takes its time, and only a failure takes all of it."""

REQUIRED = "STMG_BROWSER" in os.environ
"""Whether these tests must run: then they fail where there is no browser."""

if REQUIRED:
    from playwright import sync_api as playwright
else:
    playwright = pytest.importorskip("playwright.sync_api", reason="the browser tests need Playwright")
pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not REQUIRED, reason="the browser tests need Chromium: apt-get install chromium"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        # Containers allow no sandbox inside theirs; the page is ours.
        assert CHROMIUM is not None, "there is no Chromium: apt-get install chromium"
        browser = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=1000 * PATIENCE
        )
        yield browser
        browser.close()


class Watched:
    """A page whose errors are noted."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.set_default_timeout(1000 * PATIENCE)
        self.page.goto(url)


@pytest.fixture
def page(browser: Any, running: Running) -> Iterator[Any]:
    watched = Watched(browser, running.url)
    watched.page.wait_for_selector(".tile .badge.live")
    yield watched.page
    errors = list(watched.errors)
    watched.context.close()
    assert errors == []


def pixels(page: Any, selector: str = ".tile .picture") -> str:
    return page.eval_on_selector(selector, "canvas => canvas.toDataURL()")


def wait_until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_the_picture_moves_and_figures_are_shown(page):
    first = pixels(page)
    wait_until(lambda: pixels(page) != first)
    assert page.locator(".tile h2").inner_text() == "clip"
    wait_until(lambda: float(page.locator(".figures dd").first.inner_text()) > 5)
    blank = "canvas => !canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
    assert not page.eval_on_selector(".timeline canvas", blank)
    assert page.locator(".areas span").count() > 0
    assert "frames" in page.get_attribute(".timeline canvas", "aria-label")


def test_views_are_chosen(page, running):
    seen = {}
    for view in ("Raw", "Labels", "Change", "Beside network"):
        page.get_by_label(view, exact=True).check()
        before = pixels(page)
        wait_until(lambda before=before: pixels(page) != before)
        seen[view] = page.eval_on_selector(".tile .picture", "canvas => canvas.width")
    wait_until(lambda: page.eval_on_selector(".tile .picture", "canvas => canvas.width") == 256)
    page.get_by_label("Overlay").check()
    wait_until(lambda: page.eval_on_selector(".tile .picture", "canvas => canvas.width") == 128)


def test_controls_change_what_the_api_reports(page, running):
    def controls():
        return running.get("/api/streams/clip")["controls"]

    page.get_by_role("button", name="Pause").click()
    wait_until(lambda: controls()["paused"])
    page.wait_for_selector(".badge.paused")
    page.get_by_role("button", name="Paused").press("Enter")
    wait_until(lambda: not controls()["paused"])
    page.locator(".tile").get_by_label("Mode").select_option("online")
    wait_until(lambda: controls()["mode"] == "online")
    page.locator(".tile").get_by_label("Mode").select_option("realtime")
    page.locator(".tile").get_by_label("Motion").select_option("dis-fine")
    wait_until(lambda: controls()["motion"] == "dis-fine")
    page.locator(".tile").get_by_label("Max change").select_option("0.02")
    wait_until(lambda: controls()["max_change"] == 0.02)
    page.locator(".tile").get_by_label("Max change").select_option("")
    wait_until(lambda: controls()["max_change"] is None)
    page.locator(".tile").get_by_label("Opacity").fill("0.9")
    wait_until(lambda: controls()["opacity"] == 0.9)
    assert page.locator(".tile > .problem").is_hidden()


def test_a_snapshot_is_a_picture_and_its_labels(page, tmp_path):
    downloads: list[Any] = []
    page.on("download", lambda download: downloads.append(download))
    page.get_by_role("button", name="Snapshot").click()
    wait_until(lambda: (page.wait_for_timeout(50), len(downloads) == 2)[1])
    names = sorted(download.suggested_filename for download in downloads)
    assert [name.rpartition("-")[2] for name in names] == ["labels.png", "overlay.png"]
    for download in downloads:
        assert Path(download.path()).read_bytes().startswith(b"\x89PNG")


def test_streams_are_added_and_removed(page, running):
    page.get_by_role("button", name="Add stream").click()
    page.get_by_role("combobox", name="Source", exact=True).select_option("spare")
    page.locator("#add").get_by_label("Name").fill("second")
    page.get_by_role("button", name="Add", exact=True).click()
    tile = page.locator("[data-stream=second]")
    tile.locator(".badge.live").wait_for()
    first = pixels(page, "[data-stream=second] .picture")
    wait_until(lambda: pixels(page, "[data-stream=second] .picture") != first)
    tile.get_by_role("button", name="Remove").click()
    tile.wait_for(state="detached")
    assert [info["name"] for info in running.get("/api/streams")] == ["clip"]


def test_an_uploaded_video_comes_out(page, video):
    page.set_input_files("#file", str(video))
    page.locator(".job .badge.done").wait_for()
    # Not page.wait_for_function: it evaluates text in the page, which the page's own policy forbids.
    wait_until(lambda: page.eval_on_selector(".job video", "video => video.readyState") >= 1)
    assert page.eval_on_selector(".job video", "video => video.duration") == pytest.approx(1.2, abs=0.3)
    assert page.locator(".job a").count() == 3
    with page.expect_download() as download:
        page.get_by_text("records (JSON lines)").click()
    assert len(Path(download.value.path()).read_text().splitlines()) == 30
    page.locator(".job").get_by_role("button", name="Remove").click()
    page.locator(".job").wait_for(state="detached")


def test_a_stream_that_is_down_says_so_and_comes_back(browser, network_file, camera: Camera):
    with run_server(make_config(network_file, {"gate": camera.url})) as server:
        watched = Watched(browser, server.url)
        page = watched.page
        page.wait_for_selector(".badge.live")
        camera.stop()
        page.wait_for_selector(".badge.offline")
        down = page.locator(".down")
        down.wait_for(state="visible")
        assert "Offline" in down.inner_text()
        assert "127.0.0.1" in down.locator(".why").inner_text()
        assert "since" in down.locator(".when").inner_text()
        wait_until(lambda: "gate is offline" in page.locator("#announce").inner_text())
        camera.start()
        page.wait_for_selector(".badge.live")
        down.wait_for(state="hidden")
        first = pixels(page)
        wait_until(lambda: pixels(page) != first)
        assert watched.errors == []
        watched.context.close()


def test_the_token_is_requested_once(browser, network_file, video):
    with run_server(make_config(network_file, {"clip": video}, token="correct horse")) as server:
        watched = Watched(browser, server.url)
        page = watched.page
        page.get_by_role("textbox", name="Token").fill("wrong horse")
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("the token is wrong").wait_for()
        page.get_by_role("textbox", name="Token").fill("correct horse")
        page.get_by_role("button", name="Go on").click()
        page.wait_for_selector(".badge.live")
        page.reload()
        page.wait_for_selector(".badge.live")
        watched.context.close()


def test_escape_leaves_no_page_that_does_nothing(browser, network_file, video):
    with run_server(make_config(network_file, {"clip": video}, token="correct horse")) as server:
        watched = Watched(browser, server.url)
        page, token = watched.page, watched.page.get_by_role("textbox", name="Token")
        token.wait_for()
        assert page.locator("#add-open").is_disabled()
        for _ in range(3):
            page.keyboard.press("Escape")
            page.wait_for_timeout(100)
            token.wait_for()
        token.fill("correct horse")
        token.press("Enter")
        page.wait_for_selector(".badge.live")
        token.wait_for(state="hidden")
        assert page.locator("#add-open").is_enabled()
        watched.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width", "height"), [("desktop", 1280, 900), ("phone", 390, 844)])
def test_the_page_fits_its_screen(browser, running, tmp_path, device, width, height, scheme):
    watched = Watched(browser, running.url, viewport={"width": width, "height": height}, color_scheme=scheme)
    page = watched.page
    page.wait_for_selector(".tile .badge.live")
    page.wait_for_timeout(700)
    folder = Path(SCREENSHOTS) if SCREENSHOTS else tmp_path
    page.screenshot(path=folder / f"{device}-{scheme}.png", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(int(value) for value in back.removeprefix("rgb(").removesuffix(")").split(",")) / 3
    assert (brightness > 128) == (scheme == "light")
    unnamed = (
        "nodes => nodes.filter(node => !(node.labels?.length || node.textContent.trim() || node.ariaLabel)).length"
    )
    assert page.eval_on_selector_all("button, input, select", unnamed) == 0
    assert watched.errors == []
    watched.context.close()
