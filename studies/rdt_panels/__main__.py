"""Draw the first report's figures: `python -m studies.rdt_panels`.

Writes the drawings beside `docs/studies/rdt-memo-a.md`, their summary into `studies/rdt_panels/results.csv`, and the section
of that page that shows them into `studies/rdt_parameters/memo-a-figures.md`, which is put into the page, too. Every
release is made again; two minutes of processor time.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import fields
from pathlib import Path

from studies.rdt_panels.drawing import draw, points_of
from studies.rdt_panels.page import PAGE, Summary, insert, read, section
from studies.rdt_panels.settings import FIGURES, Setting, release

from dipsmith.utility.metric import SideBySide

RESULTS = Path(__file__).parent / "results.csv"


def main() -> None:
    argparse.ArgumentParser(prog="python -m studies.rdt_panels", description=__doc__).parse_args()
    made: dict[str, tuple[SideBySide, tuple[float, float]]] = {}

    def of(setting: Setting) -> tuple[SideBySide, tuple[float, float]]:
        if repr(setting) not in made:
            made[repr(setting)] = release(setting)
        return made[repr(setting)]

    lines: list[Summary] = []
    for compared in FIGURES:
        found = []
        for name, setting in zip(compared.names, compared.settings, strict=True):
            both, agreement = of(setting)
            panels = points_of(compared, both)
            found.append(panels)
            lines += [Summary.of(compared, name, setting, agreement, panel, points) for panel, points in panels]
        (PAGE.with_suffix("") / f"{compared.file}.svg").write_text(draw(compared, found), "utf-8")
        print(f"figure {compared.number}: {compared.varied}", flush=True)
    with RESULTS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f.name for f in fields(Summary)])
        writer.writerows(line.row() for line in lines)
    insert(section(read(RESULTS)))


if __name__ == "__main__":
    main()
