"""The package of the tutorial for authors, word by word: installed, checked, and used through the command line."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "method-author.md"
SCHEMA = """\
name: people
unit: row
neighbours: replace
fields:
- {name: age, type: integer, minimum: 17, maximum: 90, bins: {width: 10}}
- {name: sex, type: string, enum: [F, M], other: M}
"""


def run(python, *words, cwd):
    done = subprocess.run(
        [python, *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def authored(install_package, tmp_path_factory):
    """The interpreter of an environment with the package that the page's blocks make."""
    blocks = re.findall(r"^```(python|toml)\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    package = tmp_path_factory.mktemp("authored")
    code = [text for kind, text in blocks if kind == "python" and "assert" not in text]
    (package / "my_package.py").write_text("\n\n".join(code), "utf-8")
    (package / "pyproject.toml").write_text("\n".join(text for kind, text in blocks if kind == "toml"), "utf-8")
    return install_package(package)


def test_a_method_a_metric_and_a_source_from_the_page(authored, tmp_path):
    check = (
        "from dipsmith.testing import check_method; from my_package import OneColumn; check_method(OneColumn('sex'))"
    )
    run(authored, "-c", check, cwd=tmp_path)
    (tmp_path / "people.yaml").write_text(SCHEMA)
    rows = [json.dumps({"age": 17 + i * 37 % 74, "sex": "FM"[i * i % 3 > 0]}) for i in range(400)]
    (tmp_path / "people.jsonl").write_text("\n".join(rows))
    dipsmith = ("-m", "dipsmith.cli.main")
    run(authored, *dipsmith, "ledger", "grant", "people", "--ledger", "budget.db", "--epsilon", 1, cwd=tmp_path)
    for words in (
        "synthesize people.jsonl --schema people.yaml --method one-column --set column=sex --epsilon 1 --out release",
        "verify release",
        "compare people.jsonl release --out comparison",
    ):
        run(authored, *dipsmith, *words.split(), "--ledger", "budget.db", cwd=tmp_path)
    compared = json.loads((tmp_path / "comparison" / "comparison.json").read_text())
    assert "row_numbers" in json.dumps(compared)
    assert "Numbers of rows" in (tmp_path / "comparison" / "comparison.html").read_text("utf-8")
    assert "sex" in run(authored, *dipsmith, "fit", "release", "sex ~ 1", cwd=tmp_path)
    run(authored, *dipsmith, "report", "release", "--out", "report.html", cwd=tmp_path)
