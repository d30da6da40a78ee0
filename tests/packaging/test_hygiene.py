"""What a stranger expects beside the code is there, agrees with it, and is small."""

import ast
import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import yaml

from dipsmith.version import VERSION

ROOT = Path(__file__).parents[2]
LARGEST = 1_550_000
"""Bytes of a distribution: docs/decisions/0018-size-of-the-wheel.md says what they are, and why it is not a million."""
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


def _jobs():
    for file in sorted((ROOT / ".github/workflows").glob("*.yml")):
        flow = yaml.safe_load(file.read_text("utf-8"))
        yield from ((file.name, flow, name, job) for name, job in flow["jobs"].items())


PERMISSIONS = {"contents", "pages", "id-token", "attestations"}
BY_TAG = {"actions/upload-pages-artifact", "actions/deploy-pages", "pypa/gh-action-pypi-publish"}
"""Actions that may be taken by their tag; .github/zizmor.yml says why. All others are pinned to a commit."""


def test_workflows_run_what_there_is():
    """Keys, jobs, steps, matrices and targets of make; `zizmor` and GitHub's schema were run on them by hand."""
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for file, flow, name, job in _jobs():
        where = f"{file}, {name}"
        assert set(flow) <= {"name", True, "permissions", "jobs"}, file  # YAML reads "on" as true
        assert flow["permissions"] == {"contents": "read"}, file
        assert set(job.get("permissions", {})) <= PERMISSIONS, where
        assert job["runs-on"] == "ubuntu-latest", where
        needed = job.get("needs", [])
        assert {needed} if isinstance(needed, str) else set(needed) <= set(flow["jobs"]), where
        matrix = job.get("strategy", {}).get("matrix", {})
        assert set(re.findall(r"matrix\.(\w+)", str(job["steps"]))) == set(matrix), where
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), where
            if "uses" in step:
                action, _, version = step["uses"].partition("@")
                assert version, where
                assert action in BY_TAG or re.fullmatch(r"[0-9a-f]{40}", version), where
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False, where
            for words in re.findall(r"^make (.*)$", step.get("run", ""), re.MULTILINE):
                assert {w for w in words.split() if "=" not in w} <= targets, where
            for script in re.findall(r"(\.ci/\w+)", step.get("run", "")):
                assert (ROOT / script).is_file(), where


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


def test_what_stands_beside_the_package_imports_names_that_it_has():
    """Benchmarks and studies are run by hand: a name that moved would be found by nobody else."""
    missing = []
    for file in sorted(f for folder in ("benchmarks", "studies", "assurance") for f in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "dipsmith":
                module = importlib.import_module(node.module)
                names = [a.name for a in node.names if not hasattr(module, a.name)]
                missing += [f"{file.name}: {node.module}.{n}" for n in names if not find_spec(f"{node.module}.{n}")]
    assert missing == []
