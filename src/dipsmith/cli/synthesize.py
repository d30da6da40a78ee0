"""`dipsmith synthesize`: from a confidential file to a release folder."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from dipsmith.cli import options
from dipsmith.cli.check_first import check_command
from dipsmith.cli.settings import method_of, public_of
from dipsmith.cli.terminal import answer, progress, warn, warnings_as_notes
from dipsmith.errors import ContradictedRows, HopelessNoise, LostKey, UnlistedValues, UsageError
from dipsmith.report.commands import command

EXAMPLES = options.examples(
    "dipsmith synthesize people.csv --schema people.yaml --method loglinear --epsilon 0.75 --ledger budget.db --out release/",
    "dipsmith synthesize people.csv --schema people.yaml --method loglinear --epsilon 0.75 --analysis 'log(pay) ~ sex + age | agency' --ledger budget.db --out release/",
    "dipsmith synthesize people.parquet --schema people.yaml --method mst --epsilon 1 --delta 1e-9 --ledger budget.db --out release/",
    "dipsmith synthesize ad.csv --schema people.yaml --method forest --epsilon 1 --public sd.csv --public-map 'pay=basic_pay*1.08' --public-epsilon 0.25 --onto bd.csv --ledger budget.db --out release/",
    "dipsmith synthesize people.csv --schema people.yaml --method aim --epsilon 0.1 --delta 1e-9 --prior last-year.csv --ledger budget.db --out release/",
    "dipsmith synthesize people.csv --schema people.yaml --method flat --epsilon 1 --sets 5 --each split --format csv --ledger budget.db --out release/",
)


def synthesize(
    data: Annotated[str, Argument(metavar="FILE", help="CSV, Parquet, folder, glob or database address.")],
    schema: options.SchemaFile,
    method: Annotated[str, Option("--method", help="flat, marginals, forest, loglinear, mst, aim, …")],
    ledger: options.LedgerFile,
    out: options.NewFolder,
    epsilon: options.Epsilon = None,
    rho: options.Rho = None,
    delta: options.Delta = None,
    sets: options.Sets = 1,
    each: options.Each = None,
    rows: Annotated[int | None, Option("--rows", help="How many rows to make; default: as many as FILE has.")] = None,
    known_rows: options.KnownRows = None,
    members: Annotated[
        str | None, Option("--members", metavar="FILE", help="Where FILE has households: the table of their members.")
    ] = None,
    members_table: options.MembersTable = None,
    onto: Annotated[str | None, Option("--onto", help="Under label: another, public file to label.")] = None,
    onto_map: Annotated[
        list[str] | None,
        Option("--onto-map", metavar="NAME=…", help="Where that file has a column: pay=basic_pay*1.08."),
    ] = None,
    public: options.Public = None,
    public_map: options.PublicMap = None,
    public_epsilon: options.PublicEpsilon = None,
    factors: options.Factors = None,
    analysis: options.Analyses = None,
    settings: options.Settings = None,
    request: Annotated[str | None, Option("--request", help="Id of this run; it never draws twice.")] = None,
    another_grant: options.AnotherGrant = False,
    format: Annotated[str, Option("--format", help="parquet, csv, dta (Stata) or sav (SPSS).")] = "parquet",  # noqa: A002
    escape: options.Escape = False,
    table: options.Table = None,
    encoding: options.Encoding = None,
    delimiter: options.Delimiter = None,
    json: options.Json = False,
) -> None:
    """Make synthetic tables in place of a confidential one, and charge the ledger."""
    from dipsmith.privacy.ledger import Ledger
    from dipsmith.schema import Schema
    from dipsmith.sources import source
    from dipsmith.sources.fingerprint import fingerprints
    from dipsmith.synthesis.checked import is_checked
    from dipsmith.synthesis.column_map import map_columns, read_map
    from dipsmith.synthesis.exit import require_format
    from dipsmith.synthesis.public import PublicInput, require_public
    from dipsmith.synthesis.sets import maker_of
    from dipsmith.synthesis.synthesize import synthesize as run
    from dipsmith.synthesis.writing import require_absent

    # 1. Everything that can be refused without reading a row is refused first: after that the charge stays.
    require_format(format)
    budget = options.budget_of(epsilon, rho, delta)
    declared = Schema.read(schema)
    chosen = method_of(method, settings, declared)
    if (onto_map and onto is None) or (factors and not (onto_map or public_map)):
        raise UsageError("--onto-map goes with --onto, and --factors with a map that uses its columns")
    require_absent(out)
    # 2. The files: the confidential ones, and public ones that go with the method or are to be labelled.
    confidential = source(data, table=table, encoding=encoding, delimiter=delimiter)
    persons = None if members is None else source(members, table=members_table, encoding=encoding, delimiter=delimiter)
    # Checked before any of their rows is read: a message about a public file may quote it.
    public_files = [PublicInput(f, fingerprints(source(f)), public_epsilon is not None) for f in (public, factors) if f]
    require_public(public_files, [confidential, persons], Ledger(ledger))
    with warnings_as_notes(UnlistedValues):
        chosen = public_of(chosen, declared, budget, public, public_map, public_epsilon, factors)
    target = None
    if onto is not None:
        columns = read_map(onto_map or (), "--onto-map", declared)
        target = map_columns(onto, columns, factors if columns else None)
    # 3. What the steward should know before the charge.
    for column, label in declared.formula_like()[:3]:
        warn(
            f"column '{column}' has the label {label!r}, which a spreadsheet reads as a formula; see --escape-formulas"
        )
    if not is_checked(confidential, declared, Ledger(ledger)):
        warn(
            "nobody has counted the cells of this file that the schema does not hold; they count silently as missing or at a "
            f"bound. First: {check_command(schema, data, table, members=persons is not None, ledger=ledger)}"
        )
    if onto is None:
        maker_of(confidential).require_output(out, format)
    # 4. The run, which charges the ledger.
    with progress(json) as show, warnings_as_notes(HopelessNoise, ContradictedRows, UnlistedValues, LostKey):
        release = run(
            confidential,
            declared,
            chosen,
            budget=budget,
            ledger=Ledger(ledger),
            sets=sets,
            each=each,  # type: ignore[arg-type]  # checked by the callee
            rows=rows,
            known_rows=known_rows,
            onto=target,
            members=persons,
            analyses=analysis or (),
            request=request,
            another_grant=another_grant,
            progress=show,
        )
    # 5. The folder. A request that was answered before has one already: nothing is drawn again.
    where, message = release.folder, "Released before, nothing was drawn or charged: it is in"
    if where is None:
        where, message = release.save(out, format=format, escape=escape), "Written to"  # type: ignore[arg-type]
    for result in release.results:
        hidden = [c.name for c in result.coefficients if c.estimate is None]
        if result.refusal is not None:
            warn(f"planned '{result.formula}' has no estimate: {result.refusal.reason}")
        elif hidden:
            warn(f"planned '{result.formula}' has no estimate of {', '.join(hidden)}: the noise is too large")
    card, anchor = release.card, Ledger(ledger).anchor
    facts = {name: getattr(card, name) for name in ("rows", "sets", "guarantee", "request")}
    answer(
        json,
        {"head": anchor.head, "out": str(where), **facts},
        str(card),
        f"{message} {where}/ — read card.html first; check it with: {command('verify', where)}",
        f"ledger head: {anchor}",
    )
