"""What a stranger expects beside the code is there, agrees with it, and is small."""

import re
from pathlib import Path

import yaml

from dipsmith.version import VERSION

ROOT = Path(__file__).parents[2]
LARGEST = 1_500_000
"""Bytes of a distribution: 70,000 lines with their docstrings are 1.3 million when packed."""
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]


def test_one_version_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"] == VERSION
    recipe = yaml.safe_load((ROOT / "supply/conda/recipe.yaml").read_text("utf-8"))
    assert recipe["context"]["version"] == VERSION


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    listed = re.search(r"^dependencies = \[(.*?)^\]", project, re.MULTILINE | re.DOTALL)[1]
    wanted = {re.sub(r"\s", "", d).lower() for d in re.findall(r'"([^"]+)"', listed)}
    run = yaml.safe_load((ROOT / "supply/conda/recipe.yaml").read_text("utf-8"))["requirements"]["run"]
    assert {re.sub(r"\s", "", d).lower() for d in run} - {"python>=3.11"} == wanted


def test_workflows_are_read_and_hold_no_secret():
    for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
        text = file.read_text("utf-8")
        flow = yaml.safe_load(text)
        assert {"jobs", "permissions"} <= set(flow)
        assert "secrets." not in text  # releases go by trusted publishing
    quick = yaml.safe_load((ROOT / ".github/workflows/quick.yml").read_text("utf-8"))
    assert quick["jobs"]["quick"]["strategy"]["matrix"]["python"] == PYTHONS
    assert all(f"Python :: {p}" in (ROOT / "pyproject.toml").read_text("utf-8") for p in PYTHONS)


def test_distributions_are_small(distributions):
    assert {name: path.stat().st_size <= LARGEST for name, path in distributions.items()} == dict.fromkeys(
        distributions, True
    )


def test_the_navigation_leads_to_pages_that_exist():
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r"(?:^|\s)([\w/.-]+\.md)$", text, re.MULTILINE)
    assert len(listed) > 60
    assert [page for page in listed if not (ROOT / "docs" / page).is_file()] == []


def test_links_between_pages_lead_somewhere():
    for page in (ROOT / "docs").rglob("*.md"):
        for target in re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
