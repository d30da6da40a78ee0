"""`dipsmith experiment run|show`: factorial studies of methods and parameters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dipsmith.cli.options import Json, examples
from dipsmith.cli.terminal import emit, say, table
from dipsmith.report.commands import command

if TYPE_CHECKING:
    from dipsmith.experiments.experiment import Experiment
    from dipsmith.experiments.results import Results
    from dipsmith.experiments.runner import Standing

EXAMPLES = examples(
    "dipsmith experiment show study.yaml",
    "dipsmith experiment run study.yaml",
    "dipsmith experiment run study.yaml --out results/ --jobs 2",
    "dipsmith experiment run study.yaml --repeats 1 --rows 1000",
    "dipsmith experiment run study.yaml --page docs/study.md",
)

StudyFile = Annotated[Path, Argument(metavar="STUDY", help="The study file (YAML).")]
OutFolder = Annotated[
    Path | None, Option("--out", help="The folder of its results; NAME-results by default. Resumed if it exists.")
]
DataFile = Annotated[str | None, Option("--data", help="The file of rows, instead of the one that the study names.")]

Repeats = Annotated[int | None, Option("--repeats", min=1, help="Repeats, instead of the study's own number.")]
Rows = Annotated[int | None, Option("--rows", min=1, help="Rows of simulated tables, instead of the study's own.")]

app = typer.Typer(
    help="Factorial studies: run methods with varied parameters, compare, and report what matters.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=EXAMPLES)
def run(
    study: StudyFile,
    out: OutFolder = None,
    data: DataFile = None,
    repeats: Repeats = None,
    rows: Rows = None,
    jobs: Annotated[int | None, Option("--jobs", min=1, help="Processes; one per core by default.")] = None,
    page: Annotated[
        Path | None, Option("--page", help="Also write the report as Markdown, figures as SVG beside it.")
    ] = None,
    json: Json = False,
) -> None:
    """Run a study on all cores, or the rest of one that was interrupted; nothing is run twice."""
    from dipsmith.experiments.experiment import REPORT, Experiment
    from dipsmith.experiments.results import TABLE

    experiment = Experiment.read(study, out, data=data, repeats=repeats, rows=rows)
    if page is not None:
        experiment.require_page(page)
    with _progress(quiet=json) as watch:
        results = experiment.run(jobs, watch)
    if page is not None:
        given = _option_words({"--data": data, "--repeats": repeats, "--rows": rows, "--page": page})
        experiment.write_page(results, page, command("experiment", "run", study, *given))
    if json:
        emit(_facts(experiment, results))
        return
    _show(experiment, results)
    for reason in results.failed[:3]:
        say(f"Gave nothing: {reason}")
    say(f"Written: {experiment.out / TABLE}, {experiment.out / REPORT}" + (f", {page}" if page else ""))


@app.command(epilog=EXAMPLES)
def show(
    study: StudyFile,
    out: OutFolder = None,
    data: DataFile = None,
    repeats: Repeats = None,
    rows: Rows = None,
    json: Json = False,
) -> None:
    """Say what a study will do and cost, how far it is, and what it has found; runs nothing."""
    from dipsmith.experiments import runner
    from dipsmith.experiments.experiment import Experiment
    from dipsmith.experiments.results import Results

    experiment = Experiment.read(study, out, data=data, repeats=repeats, rows=rows)
    laboratory = experiment.laboratory
    results = Results.of(laboratory.study, laboratory.runs, runner.outcomes(experiment.out))
    if json:
        emit(_facts(experiment, results))
        return
    _show(experiment, results)
    given = _option_words({"--out": out, "--data": data, "--repeats": repeats, "--rows": rows})
    say(f"Next: {command('experiment', 'run', study, *given)}")


def _option_words(options: dict[str, Any]) -> list[Any]:
    """The options that were given, as words of a command."""
    return [word for name, value in options.items() if value is not None for word in (name, value)]


def _facts(experiment: Experiment, results: Results) -> dict[str, Any]:
    from dipsmith.experiments.claims import check

    laboratory = experiment.laboratory
    cost = laboratory.cost
    return {
        "study": laboratory.study.name,
        "settings": len(laboratory.settings),
        "repeats": laboratory.study.repeats,
        "runs": len(laboratory.runs),
        "done": _count_finished(results),
        "failed": list(results.failed),
        "cost": None if cost is None else {cost.currency: float(cost.exact)},
        "out": str(experiment.out),
        "means": _means(results),
        "claims": [asdict(claim) for claim in (check(results) if results.complete else ())],
    }


def _count_finished(results: Results) -> int:
    return len(results.table.column("run").unique())


def _means(results: Results) -> list[dict[str, Any]]:
    import numpy as np

    found = []
    for metric in results.metrics:
        response = results.response(metric)
        for name, labels in response.factors.items():
            for level in results.order(name):
                if (labels == level).any():
                    mean = float(np.nanmean(response.values[labels == level]))
                    found.append({"metric": metric, "factor": name, "level": level, "mean": mean})
    return found


def _show(experiment: Experiment, results: Results) -> None:
    from dipsmith.experiments.claims import check
    from dipsmith.experiments.report import protection
    from dipsmith.report.sections import number

    laboratory = experiment.laboratory
    study = laboratory.study
    say(study.question)
    runs = f"{len(laboratory.settings)} settings × {study.repeats} repeat{'' if study.repeats == 1 else 's'} = {len(laboratory.runs)} runs"
    price = protection(study, laboratory)
    if laboratory.cost is not None:
        price = f"The rows are private: all runs together cost {laboratory.cost}; every comparison is a logged look. CONFIDENTIAL."
    say(f"{runs}, {_count_finished(results)} done. {price}")
    means = _means(results)
    if not means:
        return
    metrics = results.metrics[:6]
    lines: dict[tuple[str, str], dict[str, float]] = {(m["factor"], m["level"]): {} for m in means}
    for m in means:
        lines[m["factor"], m["level"]][m["metric"]] = m["mean"]
    say("")
    table(
        "Means by level of each parameter, over all others",
        ("parameter", "level", *metrics),
        [(f, v, *(number(known.get(m)) for m in metrics)) for (f, v), known in lines.items()],
        right=range(2, 2 + len(metrics)),
    )
    if study.claims and results.complete:
        claims = [(c.says, c.finding, "holds" if c.holds else "DOES NOT HOLD") for c in check(results)]
        table("Claims", ("claim", "found", ""), claims)


@contextmanager
def _progress(*, quiet: bool) -> Iterator[Callable[[Standing], None] | None]:
    """Runs done and time left on standard error: a bar in a terminal, else a line now and then."""
    if quiet:
        yield None
        return
    if not sys.stderr.isatty():
        import time

        last = float("-inf")

        def line(standing: Standing) -> None:
            nonlocal last
            if standing.done == standing.total or time.monotonic() - last > 20:
                last = time.monotonic()
                typer.echo(_describe_progress(standing), err=True)

        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting", total=None)
        yield lambda now: bars.update(task, total=now.total, completed=now.done, description=_describe_progress(now))


def _describe_progress(standing: Standing) -> str:
    parts = [f"{standing.done} of {standing.total} runs"]
    if standing.from_journal:
        parts.append(f"{standing.from_journal} from before")
    if standing.failed:
        parts.append(f"{standing.failed} gave nothing")
    if standing.seconds_left is not None and standing.done < standing.total:
        left = standing.seconds_left
        parts.append(f"about {f'{left:.0f} s' if left < 90 else f'{left / 60:.0f} min'} left")
    return ", ".join(parts)
