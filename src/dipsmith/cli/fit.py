"""`dipsmith fit`: a regression on a release, with honest intervals or a sentence that says why there are none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dipsmith.cli.options import Json, References, examples, references_of
from dipsmith.cli.terminal import emit, progress, say, warn
from dipsmith.errors import NotCarried, UsageError

if TYPE_CHECKING:
    from dipsmith.inference.combine import Combined
    from dipsmith.inference.fit import Fit

EXAMPLES = examples(
    'dipsmith fit release/ "log(pay) ~ sex + race + age + I(age**2) | agency"',
    'dipsmith fit release/ "pay ~ sex" --reference sex=M --level 0.9',
    'dipsmith fit release/ "employed ~ sex + age" --family logistic --json',
    'dipsmith fit release/ "pay ~ 1" --csv > mean.csv      # a mean',
    'dipsmith fit release/ "employed ~ 1" --weights w      # a weighted share',
)
DIGITS = 10


def fit(
    release: Annotated[Path, Argument(metavar="RELEASE", help="The folder of a release.")],
    formula: Annotated[str, Argument(metavar="FORMULA", help='"response ~ terms | fixed effects".')],
    family: Annotated[str, Option("--family", help="auto, ols, ridge, logistic or firth.")] = "auto",
    level: Annotated[float, Option("--level", help="The level of the intervals.")] = 0.95,
    reference: References = None,
    cluster: Annotated[str | None, Option("--cluster", help="Errors clustered by this column.")] = None,
    weights: Annotated[str | None, Option("--weights", help="Weigh rows by this column, a survey weight.")] = None,
    robust: Annotated[bool, Option("--robust", help="Robust (HC1) errors.")] = False,
    replicates: Annotated[int, Option("--replicates", help="How often the mechanism is run again, if it is.")] = 50,
    seed: Annotated[int | None, Option("--seed", help="Find the same intervals again.")] = None,
    allow_unsupported: Annotated[
        bool, Option("--allow-unsupported", help="Print estimates without intervals where there can be none.")
    ] = False,
    csv: Annotated[bool, Option("--csv", help="Print the coefficients as CSV on standard output.")] = False,
    json: Json = False,
) -> None:
    """Fit a regression to a release: estimates with honest intervals, or why this release cannot tell."""
    from dipsmith.inference.fit import fit as run
    from dipsmith.synthesis.release import Release

    if csv and json:
        raise UsageError("--csv and --json are two forms of one answer; give one")
    chosen: Any = family
    loaded = Release.load(release)
    with progress(json or csv) as bar, _in_words_of_the_command():
        found = run(
            loaded,
            formula,
            family=chosen,
            level=level,
            reference=references_of(reference),
            cluster=cluster,
            weights=weights,
            robust=robust,
            replicates=replicates,
            seed=seed,
            allow_unsupported=allow_unsupported,
            progress=_Foretold(replicates, bar),
        )
    if json:
        emit(_facts(found))
    elif csv:
        typer.echo(as_csv(found), nl=False)
    else:
        say(str(found))


@contextmanager
def _in_words_of_the_command() -> Iterator[None]:
    """Refusals name the option where Python names an argument."""
    try:
        yield
    except NotCarried as refused:
        raise NotCarried(str(refused).replace("allow_unsupported=True", "--allow-unsupported")) from None


class _Foretold:
    """Progress that says, after the first run of the mechanism, how long all of them will take.

    Privacy
    -------
    Only synthetic rows are read: how long they take tells nothing that the release does not.
    """

    def __init__(self, runs: int, bar: Any) -> None:
        from time import monotonic

        self.runs, self.bar, self.clock, self.begun, self.told = runs, bar, monotonic, monotonic(), False

    def __call__(self, stage: str, share: float) -> None:
        if share == 0:
            self.begun = self.clock()
        elif not self.told:
            self.told = True
            each = (self.clock() - self.begun) / max(1.0, share * self.runs)
            warn(
                f"the mechanism is run {self.runs} times on the synthetic rows, about {_span(each * self.runs)} in all"
            )
        if self.bar is not None:
            self.bar(stage, share)


def _span(seconds: float) -> str:
    """A time as people say it.

    >>> _span(0.4), _span(12.3), _span(400)
    ('1 second', '13 seconds', '7 minutes')
    """
    number, unit = (max(1, -int(-seconds // 1)), "second") if seconds < 120 else (round(seconds / 60), "minute")
    return f"{number} {unit}{'s' if number != 1 else ''}"


def _facts(found: Fit) -> dict[str, Any]:
    combined = found.combined
    return {
        "formula": found.formula,
        "model": found.analysis.name,
        "reference": found.analysis.references,
        "rows": found.each[0].rows,
        "level": combined.level,
        "direct": found.direct,
        "rule": combined.rule,
        "notes": list(combined.notes),
        "coefficients": estimate_lines(found),
    }


def estimate_lines(found: Fit | Combined) -> list[dict[str, Any]]:
    """Estimates with their intervals, one line each, in values that JSON has."""
    kept = ("term", "estimate", "std_error", "df", "low", "high", "p_value", "noise")
    return [{name: _plain(line[name]) for name in kept} for line in found.to_arrow().to_pylist()]


def _plain(value: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    from math import isfinite

    return value if isinstance(value, str) or isfinite(value) else None


def as_csv(found: Fit | Combined) -> str:
    """The same lines as CSV."""
    import csv
    from io import StringIO

    lines, out = estimate_lines(found), StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(lines[0])
    for line in lines:
        values = line.values()
        writer.writerow("" if v is None else v if isinstance(v, str) else f"{v:.{DIGITS}g}" for v in values)
    return out.getvalue()
