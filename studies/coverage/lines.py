"""Lines of results: what was measured in which scenario, in pieces, so that a study can be interrupted."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results.csv"


@dataclass(frozen=True)
class Line:
    """One kind of interval (or test) in one scenario.

    Attributes
    ----------
    part, case
        Which table of the page, and which line of it.
    rows, epsilon
        Of each release.
    kind
        Of interval or test.
    repeats
        Simulated releases.
    share
        How often the interval covered, or the test rejected.
    width
        Mean width of the intervals; nan for tests.
    seconds
        Processor time of the whole scenario.
    """

    part: str
    case: str
    rows: int
    epsilon: float
    kind: str
    repeats: int
    share: float
    width: float
    seconds: float

    @property
    def scenario(self) -> tuple[str, str, int, float]:
        """What was simulated, whatever was computed from it."""
        return self.part, self.case, self.rows, self.epsilon


def read(path: Path = RESULTS) -> list[Line]:
    """The lines of earlier runs; none where there is no file."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as held:
        return [
            Line(
                row["part"],
                row["case"],
                int(row["rows"]),
                float(row["epsilon"]),
                row["kind"],
                int(row["repeats"]),
                float(row["share"]),
                float(row["width"]),
                float(row["seconds"]),
            )
            for row in csv.DictReader(held)
        ]


def merged(lines: Sequence[Line]) -> list[Line]:
    """One line for each kind of each scenario: what several pieces found, weighted by their repeats."""
    pieces: dict[tuple[object, ...], list[Line]] = {}
    for line in lines:
        pieces.setdefault((*line.scenario, line.kind), []).append(line)
    found = []
    for mine in pieces.values():
        repeats = sum(line.repeats for line in mine)
        share, width = (
            sum(line.repeats * value for line, value in zip(mine, values, strict=True)) / repeats
            for values in ([line.share for line in mine], [line.width for line in mine])
        )
        seconds = sum(line.seconds for line in mine)
        found.append(replace(mine[0], repeats=repeats, share=share, width=width, seconds=seconds))
    return found


def write(lines: Sequence[Line], path: Path = RESULTS) -> None:
    """Write all lines, five digits each."""
    with path.open("w", encoding="utf-8", newline="") as held:
        writer = csv.DictWriter(held, [f.name for f in fields(Line)], lineterminator="\n")
        writer.writeheader()
        for line in lines:
            row = asdict(line)
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
