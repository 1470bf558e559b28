"""Take the picture of the page of `stmg serve` for the documentation: a rendered street, live, in Chromium.

python tools/screenshot.py [--out docs/serve.png]
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

MODEL, STREET, PORT = "ddrnet23-slim-streets", "street:900107", 8123
SECONDS = 25  # until the chart of the last 20 is full
WIDTH, HEIGHT = 1280, 936
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "serve.png")
    out = parser.parse_args().out
    chromium = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if chromium is None:
        parser.error("there is no Chromium: apt-get install chromium")
    command = [sys.executable, "-m", "stmg", "serve", STREET, "--model", MODEL, "--port", str(PORT), "--fps", "15"]
    with subprocess.Popen(command) as server, sync_playwright() as driver:
        try:
            browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            for _ in range(60):  # until the server answers
                try:
                    page.goto(f"http://127.0.0.1:{PORT}")
                    break
                except Exception:  # Playwright's own, of a connection that is refused
                    page.wait_for_timeout(1000)
            page.get_by_text("live", exact=True).wait_for(timeout=120_000)
            page.wait_for_timeout(1000 * SECONDS)
            page.screenshot(path=out)
            browser.close()
        finally:
            server.terminate()


if __name__ == "__main__":
    main()
