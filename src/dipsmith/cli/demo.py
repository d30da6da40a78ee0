"""`dipsmith demo`: the main job on simulated personnel records, in one command."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from dipsmith.cli.options import Json
from dipsmith.cli.terminal import emit, progress, say, table
from dipsmith.errors import MissingExtraError, OutputError, UsageError
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.privacy.budget import Budget
    from dipsmith.schema import Schema
    from dipsmith.synthesis.release import Release

EXAMPLES = "Example:\n\n  dipsmith demo --rows 20000"
EPSILON = "0.75"
MARKER = ".dipsmith-demo"
ANALYSIS = "log(pay) ~ sex + race + age + I(age**2) + education | year + agency + occupation"
REFERENCE = {"sex": "M", "race": "E"}
FEWEST = 100
"""Employees per year, so that there are some of every race."""


def demo(
    rows: Annotated[int, Option("--rows", help="Simulated employees per year.")] = 10_000,
    folder: Annotated[Path, Option("--folder", help="Where to work; an earlier demo there is replaced.")] = Path(
        "demo"
    ),
    json: Json = False,
) -> None:
    """Simulate personnel records, synthesise sex and race, and say where things are."""
    from dipsmith.examples import personnel
    from dipsmith.methods.catalogue import make_method
    from dipsmith.privacy.budget import PureDP
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.schema.analysis import PlannedAnalysis
    from dipsmith.synthesis.synthesize import synthesize

    if rows < FEWEST:
        too_few = "fewer do not suffice for the regression at the end"
        raise UsageError(f"--rows is {rows}, expected {FEWEST} or more; {too_few}")
    _make_room(folder)
    confidential, budget = folder / "personnel.csv", PureDP(EPSILON)
    with progress(json) as show:
        tell = show or (lambda stage, share: None)
        tell("simulating", 0.0)
        personnel.write(folder, rows_per_year=rows)
        tell("simulating", 1.0)
        schema = Schema.read(folder / "personnel.yaml")
        labellers = _labellers(schema, budget)
        granted = PureDP(len(labellers) * budget.exact)
        ledger = Ledger(folder / "budget.db")
        ledger.grant(schema.name, granted, by="data office", why="demo")
        releases = {}
        for i, name in enumerate(labellers):
            method = make_method(name, {}, schema)
            releases[name] = synthesize(
                confidential,
                schema,
                method,
                budget=budget,
                ledger=ledger,
                analyses=[PlannedAnalysis.of({"formula": ANALYSIS, "reference": REFERENCE})],
                request=f"demo {name}",
                progress=show,
            )
            releases[name].save(folder / (f"release-{name}" if i else "release"), format="csv")
        ledger.look(schema.name, "coefficients of log pay beside those of the releases")
        coefficients = _coefficients(confidential, releases)
    first, *others = labellers
    card, where = releases[first].card, folder / "release"
    left = ledger.show(schema.name).remaining
    if json:
        facts = {"guarantee": card.guarantee, "remaining": left, "coefficients": coefficients}
        emit({"folder": str(folder), "release": str(where), **facts})
        return
    say(str(card))
    files = [
        (confidential, "the confidential table (simulated)"),
        (folder / "personnel.yaml", "its schema: everything that is public"),
        (folder / "budget.db", f"the ledger: ε = {left:g} of {float(granted.exact):g} is left"),
        (where / "card.html", "what was released, under which guarantee"),
        (where / "synthetic-1.csv", f"the synthetic table, by {first}"),
        *((folder / f"release-{name}", f"the same by {name}, for comparison") for name in others),
    ]
    table("Where things are", ("file", "what"), files)
    if coefficients:
        say(f"Is the pay gap kept? {ANALYSIS}, planned before anything was spent:")
        lines = [(term, *values) for term, values in _story(coefficients, releases).items()]
        each = (part for name in labellers for part in (f"{name}: rows", "direct estimate, 95 % interval"))
        table(
            "Coefficients against M and E", ("", "confidential", *each), lines, right=range(1, 2 + 2 * len(labellers))
        )
        say(
            "The synthetic rows, regressed as they stand, say what was estimated from the confidential ones with noise."
        )
    verify = command("verify", where, "--ledger", folder / "budget.db")
    say(f"Next: open {where / 'card.html'}, then: {verify}")


def _make_room(folder: Path) -> None:
    """An empty folder with the demo's marker; only an earlier demo is replaced."""
    import shutil

    if folder.exists():
        if not (folder / MARKER).is_file():
            raise OutputError(f"'{folder}' exists and is not an earlier demo; choose another --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / MARKER).write_text("Made by dipsmith demo; replaced by the next one.\n", "utf-8")


def _labellers(schema: Schema, budget: Budget) -> list[str]:
    """Every installed method that labels rows, the one that suits the table best first."""
    from dipsmith.methods.catalogue import METHODS
    from dipsmith.planning.suggest import suggest

    best = suggest(schema, budget).method
    found = [name for name, method in METHODS.items() if "label" in getattr(method, "relations", ())]
    return sorted(found, key=lambda name: name != best)


def _story(
    coefficients: Mapping[str, Mapping[str, float]], releases: Mapping[str, Release]
) -> dict[str, tuple[str, ...]]:
    """Of every coefficient: confidential, by plain regression on each release, and estimated directly."""
    found = {}
    for term, values in coefficients.items():
        told = [f"{values['confidential']:+.4f}"]
        for name, release in releases.items():
            c = release.results[0][term]
            told += [
                f"{values[name]:+.4f}",
                "not told" if c.estimate is None else f"{c.estimate:+.4f} [{c.low:+.3f}, {c.high:+.3f}]",
            ]
        found[term] = tuple(told)
    return found


def _coefficients(confidential: Path, releases: Mapping[str, Release]) -> dict[str, dict[str, float]]:
    """The coefficients of sex and race on simulated rows and on every release; empty without the analysis extra."""
    from pyarrow.csv import ConvertOptions, read_csv

    from dipsmith.inference.fit import fit

    codes = ConvertOptions(column_types={"occupation": "string"})
    tables = {"confidential": read_csv(confidential, convert_options=codes)}
    tables |= {name: release.tables[0] for name, release in releases.items()}
    found: dict[str, dict[str, float]] = {}
    try:
        for name, rows in tables.items():
            for line in fit(rows, ANALYSIS, reference=REFERENCE, rule="sampling").to_arrow().to_pylist():
                if str(line["term"]).startswith(("sex", "race")):
                    found.setdefault(str(line["term"]), {})[name] = float(line["estimate"])
    except MissingExtraError:
        return {}
    return found
