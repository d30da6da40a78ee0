# dipsmith: `make demo` shows what it does, `make test` proves it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip install --quiet --constraint constraints.txt --python $(BIN)/python
# Downloads lie beside what is installed from them, linked instead of copied, and go when it is done: half the disk.
export UV_CACHE_DIR ?= $(abspath $(VENV))/cache
# Processes that run side by side must not fight for the cores with the threads of their linear algebra.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: demo test browser lint types bench audit mutants faults fuzz assurance docs lock clean

demo: $(VENV)/.core
	$(BIN)/dipsmith demo

test: $(VENV)/.dev browser lint types
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

# The web page is tested in a real browser; without one those tests say so, and fail in CI.
browser:
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null) \
	  || echo 'NOT TESTED: there is no chromium, and apt-get could not install it; the web page will not be tested' >&2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Neighbouring tables replayed and attacked, every method under every relation; stop it and run it again to go on.
audit: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m dipsmith.audit.matrix docs/assurance/audit.json

mutants: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/audit/mutants/run.py --results docs/assurance/mutants.json

faults: $(VENV)/.dev
	$(BIN)/python tests/audit/fault_scenes.py --results docs/assurance/faults.json

fuzz: $(VENV)/.dev
	$(BIN)/python tests/audit/fuzz_targets.py --results docs/assurance/fuzz.json

assurance: $(VENV)/.dev
	$(BIN)/python -m dipsmith.audit.page docs/assurance docs/assurance.md

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
	rm -rf $(VENV)/cache
	touch $@

$(VENV)/.dev: $(VENV)/.uv pyproject.toml constraints.txt
	$(UV) --editable '.[all]' --group dev
	rm -rf $(VENV)/cache
	touch $@ $(VENV)/.core
