"""Run the study: `python -m studies.rdt_association`; `--page-only` writes the page from the committed results."""

from __future__ import annotations

import argparse
from pathlib import Path

from studies.rdt_association.page import draw, page
from studies.rdt_association.runs import REPEATS, read, run_all, write

RESULTS = Path(__file__).parent / "results.csv"
PAGE = Path("docs/studies/rdt-association.md")


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m studies.rdt_association", description=__doc__)
    options.add_argument("--repeats", type=int, default=REPEATS)
    options.add_argument("--page-only", action="store_true")
    chosen = options.parse_args()
    if not chosen.page_only:
        write(run_all(repeats=chosen.repeats), RESULTS)
    runs = read(RESULTS)
    PAGE.write_text(page(runs), "utf-8")
    folder = PAGE.with_suffix("")
    folder.mkdir(exist_ok=True)
    (folder / "figure-1.svg").write_text(draw(runs), "utf-8")


if __name__ == "__main__":
    main()
