# dipsmith: `make demo` shows what it does, `make test` proves it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --constraint constraints.txt --python $(BIN)/python
export UV_LINK_MODE ?= copy

.PHONY: demo test lint types bench audit docs lock clean

demo: $(VENV)/.core
	$(BIN)/dipsmith demo

test: $(VENV)/.dev lint types
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

audit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m slow

docs: $(VENV)/.dev
	$(BIN)/python -m dipsmith.cli.reference docs/reference/cli.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

lock: $(VENV)/.uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --group dev pyproject.toml -o constraints.txt

clean:
	rm -rf $(VENV) demo site

$(VENV)/.uv:
	$(PYTHON) -c 'import sys; sys.exit("dipsmith needs Python 3.11 or newer: set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv==0.13.7'
	touch $@

$(VENV)/.core: $(VENV)/.uv pyproject.toml constraints.txt
	$(UV) --editable '.[analysis]'
	touch $@

$(VENV)/.dev: $(VENV)/.uv pyproject.toml constraints.txt
	$(UV) --editable '.[all]' --group dev
	touch $@ $(VENV)/.core
