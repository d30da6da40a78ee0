"""The studio's pages in a browser: bytes and paint of the first page, and from a slider to the redrawn page.

Reach: 60 kB and 300 ms for the first page, 100 ms for a slider. Times are medians, in milliseconds of the clock and of the
server's processor: what the clock has beyond that on a busy machine is waiting.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "studio"))

from playwright.sync_api import sync_playwright
from test_studio_browser import REDRAWN, SKETCHED, first_page, fresh

from conftest import CHROMIUM, serve, settle, write_people

VALUES = {
    "budget": ("#amount-slider", "drawn", ["0.05", "-0.4", "-0.2", "0.1", "-0.5", "-0.1", "0.02", "-0.3"]),
    "records of a leaf": ("#x-n", "explored", ["10", "30", "50", "60", "80", "20", "40", "75"]),
    "noise of a leaf": ("#x-lam", "explored", ["0.5", "0.6", "0.7", "0.8", "0.9", "1", "1.1", "1.2"]),
}


def used(process: int) -> float:
    """Milliseconds of processor time of a process, all threads."""
    ticks = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return 10.0 * sum(map(int, ticks))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="pages-"))
    write_people(folder)
    running = serve(folder, "--grace", "0")
    running.enter()
    try:
        project = running.project()
        running.choose(project, method="forest", rows=50_000)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            settle(page)
            fresh(running, page)
            size, painted = first_page(running, page)
            print(f"first page: {size / 1000:.1f} kB, visible after {statistics.median(painted):.0f} ms")
            page.goto(f"{running.origin}/p/{project}/plan", wait_until="networkidle")
            page.wait_for_selector("#stages td")
            for name, asked in VALUES.items():
                before = used(running.process.pid)
                took = page.evaluate(REDRAWN, list(asked))
                server = (used(running.process.pid) - before) / len(took)
                print(f"{name}: {statistics.median(took):.0f} ms to the redrawn page, {server:.0f} ms of the server's")
            sketch = page.evaluate(SKETCHED, ["0.05", "-0.4", "-0.2", "0.1"])
            print(f"budget, what the page knows by itself: {statistics.median(sketch):.0f} ms")
            browser.close()
    finally:
        running.stop()


if __name__ == "__main__":
    main()
