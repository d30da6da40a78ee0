"""The reference page: every schema in it can be read, and every key it must explain is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dipsmith.schema import Schema
from dipsmith.schema.entries import BinsEntry, CollapseEntry, FieldEntry, SchemaEntry, UnitEntry
from dipsmith.schema.markup import parse

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "schema.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[b.splitlines()[0] for b in BLOCKS])
def test_examples_can_be_read(block: str, tmp_path: Path) -> None:
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "occupation.csv").write_text("code,collapse\n0000,other\n0601,medical\n0602,medical\n")
    schema = Schema.from_dict(parse(block), base=tmp_path)  # type: ignore[arg-type]
    declared = parse(block).get("rules", [])  # type: ignore[union-attr]
    assert len(schema.rules) == sum(len(rule.get("map", [0])) for rule in declared)


def test_there_are_examples() -> None:
    assert len(BLOCKS) == 4


@pytest.mark.parametrize("model", [SchemaEntry, FieldEntry, UnitEntry, BinsEntry, CollapseEntry])
def test_every_key_is_explained(model: type[SchemaEntry]) -> None:
    missing = [key for key in model.model_fields if not re.search(rf"`[{{]?{key}\b|\b{key}: |, {key}[,}}]", PAGE)]
    assert missing == []


def test_the_proof_names_tests_that_exist() -> None:
    proof = (ROOT / "docs" / "proofs" / "encoding.md").read_text(encoding="utf-8")
    code = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "tests").glob("*/test_*.py"))
    named = set(re.findall(r"`(test_[a-z_]+)`", proof))
    assert named
    assert [name for name in sorted(named) if f"def {name}(" not in code] == []
