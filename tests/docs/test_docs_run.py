"""Every code block of the README and the tutorials runs, in order, in a fresh folder."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dipsmith.cli.main import commands

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
METHODS = sorted((ROOT / "docs" / "methods").glob("*.md"))
PEOPLE = """
name: people
unit: row
neighbours: replace
fields:
  - {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
  - {name: sex, type: string, enum: [F, M], other: M}
  - {name: grade, type: integer, minimum: 1, maximum: 5}
"""


def run_console(text, folder):
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        command = line[2:].split("  #")[0].strip()
        if command.startswith("$EDITOR"):
            (folder / shlex.split(command)[1]).write_text(PEOPLE)
            continue
        words = shlex.split(command)
        if words[0] == "make":
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            continue
        assert words[0] == "dipsmith", command
        # In this process: starting Python and importing libraries once per command would take most of the time.
        assert not commands()(words[1:], standalone_mode=False), command


def run_page(page, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "page"}
    blocks = BLOCK.findall(page.read_text("utf-8"))
    assert blocks
    for kind, text in blocks:
        if kind == "console":
            run_console(text, folder)
        else:
            module = type(sys)("page")
            sys.modules["page"] = module
            exec(compile(text, str(page), "exec"), names)


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda p: p.stem)
def test_tutorials_run(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.parametrize("page", METHODS, ids=lambda p: p.stem)
def test_pages_of_methods_run(page, tmp_path, monkeypatch):
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.slow
def test_the_page_of_households_runs(tmp_path, monkeypatch):
    """Its two schemas, its command on simulated files, and its lines of Python, each in a folder of its own."""
    from pyarrow.csv import write_csv

    from dipsmith.examples import households

    text = (ROOT / "docs" / "how-to" / "households.md").read_text("utf-8").replace("\\\n   ", "")
    blocks = {}
    for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        blocks.setdefault(kind, []).append(block)
    office, notebook = tmp_path / "office", tmp_path / "notebook"
    office.mkdir(), notebook.mkdir()
    for name, described in zip(("persons", "households"), blocks["yaml"], strict=True):
        (office / f"{name}.yaml").write_text(described)
    homes, persons, _ = households.simulate(200)
    write_csv(homes, office / "households.csv"), write_csv(persons, office / "persons.csv")
    monkeypatch.chdir(office)
    run_console("$ dipsmith ledger grant households --ledger budget.db --epsilon 1", office)
    run_console(blocks["console"][0], office)
    run_console("$ dipsmith verify release/ --ledger budget.db", office)
    monkeypatch.chdir(notebook)
    exec(compile(blocks["python"][0], "households.md", "exec"), {})
    assert (notebook / "release" / "synthetic-1-persons.csv").is_file()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_the_page_of_panels_runs(tmp_path, monkeypatch):
    run_page(ROOT / "docs" / "how-to" / "panels.md", tmp_path, monkeypatch)


def test_the_page_of_places_runs(tmp_path, monkeypatch):
    run_page(ROOT / "docs" / "how-to" / "places.md", tmp_path, monkeypatch)


def test_survey_weights(tmp_path, monkeypatch):
    run_page(ROOT / "docs" / "how-to" / "weights.md", tmp_path, monkeypatch)


def test_every_method_can_be_had_from_the_package():
    import dipsmith
    from dipsmith.methods import catalogue

    assert {m.__name__ for m in catalogue.METHODS.values()} <= set(dipsmith.__all__)
    for name in dipsmith.__all__:
        assert getattr(dipsmith, name).__name__ == name


@pytest.mark.slow
def test_readme_runs(tmp_path, monkeypatch):
    rows = "\n".join(f"{17 + i % 70},{'FM'[i % 2]},{1 + i % 5}" for i in range(2000))
    (tmp_path / "people.csv").write_text(f"age,sex,grade\n{rows}\n")
    text = (ROOT / "README.md").read_text("utf-8")
    # The Python block repeats the shell's release; it gets its own folder and budget.
    page = tmp_path / "README.md"
    page.write_text(
        text.replace('release.save("release/")', 'release.save("again/")').replace("ds.PureDP(1)", "ds.PureDP(0.5)")
    )
    run_page(page, tmp_path, monkeypatch)


def test_command_reference_is_up_to_date():
    from assurance.cli_reference import pages

    assert (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8") == pages(), "run: make docs"


def test_every_key_of_a_card_is_explained():
    from dataclasses import fields

    from dipsmith.synthesis.card import Card

    page = (ROOT / "docs" / "reference" / "card.md").read_text("utf-8")
    assert [f.name for f in fields(Card) if f"`{f.name}`" not in page] == []


def test_readme_is_short_and_links_exist():
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) < 120
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", text):
        assert (ROOT / target).exists(), target


def test_import_is_light():
    heavy = [
        "pandas",
        "scipy.stats",
        "statsmodels",
        "sklearn",
        "opendp",
        "ibis",
        "duckdb",
        "pyspark",
        "matplotlib",
    ]
    code = f"import dipsmith, sys; print([m for m in {heavy} if m in sys.modules])"
    for statement in (code, f"import dipsmith.cli.main; {code}"):
        ran = subprocess.run(
            [sys.executable, "-c", statement],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ),
        )
        assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize("page", METHODS, ids=lambda p: p.stem)
def test_every_parameter_of_a_method_is_explained_on_its_page(page):
    from dataclasses import fields

    from dipsmith.methods import catalogue

    text = page.read_text("utf-8").split("| parameter |")[1]
    named = set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in text.splitlines()[2:] if line.startswith("|"))))  # fmt: skip
    assert {f.name for f in fields(catalogue.METHODS[page.stem])} <= named


COMMAND = re.compile(r"(?:^|[`$ ])dipsmith ((?:[a-z]+)(?:[ \t]+[^`\n]*)?)")


def written_commands():
    """Every command line of every page, as words: page, name of the command, its options."""
    known = commands().commands
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = re.sub(r" *\\\n\s*", " ", page.read_text("utf-8"))
        for found in COMMAND.findall(text):
            words = re.sub(
                r"""'[^']*'|"[^"]*\"""", "TEXT", found.split("  #")[0].split(" && ")[0].split(" | ")[0]
            ).split()
            command = known.get(words[0])
            if command is not None and len(words) > 1 and words[1] in getattr(command, "commands", {}):
                command = command.commands[words[1]]
            if command is not None:
                yield (
                    page.relative_to(ROOT).as_posix(),
                    command,
                    {w for w in words if re.fullmatch(r"--[a-z][\w-]*", w)},
                )


def test_every_option_that_a_page_writes_exists():
    """Also where a command cannot be run here, because it needs a warehouse, a cluster or other people's files."""
    seen = list(written_commands())
    assert len(seen) > 200
    wrong = []
    for page, command, options in seen:
        names = {name for p in command.params for name in (*p.opts, *p.secondary_opts)} | {"--help"}
        wrong += [f"{page}: {command.name} {option}" for option in sorted(options - names)]
    assert wrong == []


HOW_TOS = ("many-columns", "publishing", "stata-spss", "comparing-methods")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dipsmith.errors.HopelessNoise")
def test_commands_of_how_tos_run(tmp_path, monkeypatch):
    """Whole commands of the short pages, in blocks or in sentences, in one folder that has what they speak of."""
    monkeypatch.chdir(tmp_path)
    rows = "\n".join(f"{17 + i % 70},{'FM'[i % 2]},{1 + i % 5}" for i in range(500))
    for name in ("people.csv", "older.csv"):
        (tmp_path / name).write_text(f"age,sex,grade\n{rows}\n")
    (tmp_path / "people.yaml").write_text(PEOPLE)
    run_console("$ dipsmith ledger grant people --ledger budget.db --epsilon 4", tmp_path)
    made = "synthesize people.csv --schema people.yaml --method mst --epsilon 0.5 --ledger budget.db --out release"
    run_console(f"$ dipsmith {made}", tmp_path)
    ran = []
    for name in HOW_TOS:
        text = (ROOT / "docs" / "how-to" / f"{name}.md").read_text("utf-8")
        found = re.findall(r"^\$ (dipsmith .*)$", text, re.MULTILINE)
        for study in re.findall(r"^```yaml\n(name: mine\n.*?)^```", text, re.MULTILINE | re.DOTALL):
            (tmp_path / "study.yaml").write_text(study)
        text = " ".join(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL).split())
        found += re.findall(r"`(dipsmith [a-z]+ [^`]*(?:--out|--ledger|--rows|release/|--on|--page)[^`]*)`", text)
        for command in (c for c in found if not re.search(r"…|[A-Z]{3}", c)):
            run_console(f"$ {command}", tmp_path)
            ran.append(command)
    assert len(ran) >= 11
    # Stata runs the Python of the do-file with its own module `sfi`; what that is asked to print is looked at here.
    page = (ROOT / "docs" / "how-to" / "stata-spss.md").read_text("utf-8")
    (inside,) = re.findall(r"^python:\n(.*?)^end$", page, re.MULTILINE | re.DOTALL)
    told, macros = [], {}
    stata = type(sys)("sfi")
    stata.SFIToolkit = type("SFIToolkit", (), {"displayln": staticmethod(told.append)})
    stata.Macro = type("Macro", (), {"setLocal": staticmethod(macros.__setitem__)})
    monkeypatch.setitem(sys.modules, "sfi", stata)
    exec(compile(inside, "planned.do", "exec"), {})
    number = r"-?\d+\.\d{4}"
    form = re.compile(rf" *\S.*(  no estimate: noise would hide it| +{number}  \[{number}, {number}\])")
    assert len(told) == 9, told
    assert all(form.fullmatch(line) for line in told[1:]), told
    assert set(macros) <= {"gap"}
