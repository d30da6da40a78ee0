# dipsmith: `make demo` shows what it does, `make test` proves it.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(BIN)/uv pip
# Nothing from outside is installed unless its hash stands in constraints.txt; what has no wheel is built by locked tools.
LOCKED := $(UV) install --quiet --python $(BIN)/python --require-hashes --no-build-isolation --constraint constraints.txt
ITSELF := $(UV) install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
COMPILE := $(UV) compile --quiet --universal --python-version 3.11 --custom-compile-command 'make lock'
# Downloads lie beside what is installed from them, linked instead of copied, and go when it is done: half the disk.
export UV_CACHE_DIR ?= $(abspath $(VENV))/cache
# Processes that run side by side must not fight for the cores with the threads of their linear algebra.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# What tests write lies in memory where 4 GB are free there and programs may run: a release that is saved waits for the
# disk longer than it computes.
SHM = $(shell at=$$(mktemp -p /dev/shm 2>/dev/null) && cp /bin/true $$at && chmod +x $$at && $$at \
  && df -k --output=avail /dev/shm | awk 'NR == 2 && $$1 > 4000000 {print "TMPDIR=/dev/shm"}'; rm -f "$$at")
# Tests start many processes: what they import is compiled once, also where the environment forbids to keep it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo quick test browser r lint types bench audit mutants faults fuzz assurance docs lock sbom dist lowest clean

demo: $(VENV)/.core
	$(BIN)/dipsmith demo

# While you work: the rooms on the path of a release; no engines, servers or browser, no audit, nothing slow.
quick: $(VENV)/.dev
	$(ONE_THREAD) $(SHM) $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not (server or browser or audit or slow or crowd)" \
	  $(addprefix --ignore tests/,audit confirm docs experiments inference packaging plugin report sources studies studio tuning utility)

# One process more than cores: tests of the web page and of clusters wait more than they compute.
WORKERS ?= 3
test: $(VENV)/.dev
	$(MAKE) --jobs 3 --output-sync browser r lint types
	$(ONE_THREAD) $(SHM) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The web page is tested in a real browser; without one those tests say so, and fail in CI.
browser:
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null) \
	  || echo 'NOT TESTED: there is no chromium, and apt-get could not install it; the web page will not be tested' >&2

# The R package is checked by R; without it that test says so, and fails in CI.
R_PACKAGES := r-base-core $(addprefix r-cran-,testthat jsonlite processx data.table broom knitr markdown)
r: browser # one after the other: apt-get locks its lists
	@command -v Rscript >/dev/null && Rscript -e 'for (p in c("testthat", "jsonlite", "processx", "data.table", "broom", "knitr", "markdown")) library(p, character.only = TRUE)' >/dev/null 2>&1 \
	  || (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(R_PACKAGES) >/dev/null) \
	  || echo 'NOT TESTED: there is no R, and apt-get could not install it; the R package will not be tested' >&2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Ours and every peer that installs on the tables in DATA; stop it and run it again to go on. PEERS= runs ours alone.
DATA  ?= data
PEERS ?= --peers
scoreboard: $(VENV)/.dev
	$(ONE_THREAD) $(BIN)/python benchmarks/scoreboard.py --data $(DATA) $(PEERS) --page docs/scoreboard.md

# Tests that repeat on a larger scale what `make test` shows; then neighbouring tables replayed and attacked, every
# method under every relation. Stop it and run it again to go on.
audit: $(VENV)/.dev
	$(ONE_THREAD) $(SHM) $(BIN)/python -m pytest -n 2 --dist worksteal -m crowd
	OMP_NUM_THREADS=1 $(BIN)/python -m assurance.matrix docs/assurance/audit.json
	$(BIN)/python -m assurance.page docs/assurance docs/assurance.md

mutants: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tests/audit/mutants/run.py --results docs/assurance/mutants.json

faults: $(VENV)/.dev
	$(BIN)/python tests/audit/fault_scenes.py --results docs/assurance/faults.json

fuzz: $(VENV)/.dev
	$(BIN)/python tests/audit/fuzz_targets.py --results docs/assurance/fuzz.json

assurance: $(VENV)/.dev
	$(BIN)/python -m assurance.page docs/assurance docs/assurance.md

docs: $(VENV)/.dev
	$(BIN)/python -m assurance.cli_reference docs/reference/cli.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every version that is installed, with the hashes of its files; UPGRADE=--upgrade takes the newest ones.
lock: $(VENV)/.uv
	$(COMPILE) $(UPGRADE) --generate-hashes --group installer -o supply/installer.txt
	$(COMPILE) $(UPGRADE) --generate-hashes --all-extras --group dev pyproject.toml -o constraints.txt
	$(COMPILE) --annotation-style line --constraint constraints.txt --all-extras pyproject.toml -o supply/runtime.txt
	$(MAKE) sbom

# Licences come from what is installed, everything else from the lock.
sbom: $(VENV)/.dev
	$(BIN)/python -m supply.sbom

# The same bytes from the same tree, wherever and whenever it is built.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/uv build --quiet --offline --no-cache --no-build-isolation --python $(BIN)/python --out-dir dist

# The oldest versions that pyproject.toml allows must work; they stand in no lock, and their warnings are theirs.
LOWEST := $(VENV)/lowest
lowest: $(VENV)/.uv
	$(PYTHON) -m venv --clear $(LOWEST)
	$(UV) install --quiet --python $(LOWEST)/bin/python --resolution lowest-direct --editable '.[analysis,studio]'
	$(UV) install --quiet --python $(LOWEST)/bin/python pytest hypothesis httpx
	rm -rf $(VENV)/cache
	$(ONE_THREAD) $(LOWEST)/bin/python -m pytest -q -p no:anyio -o filterwarnings= --ignore tests/studio/test_studio_browser.py \
	  tests/schema tests/codec tests/privacy tests/synthesis tests/cli tests/studio

clean:
	rm -rf $(VENV) demo site dist

$(VENV)/.uv: supply/installer.txt
	$(PYTHON) -c 'import sys; sys.exit("dipsmith needs Python 3.11 or newer: set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r supply/installer.txt
	touch $@

$(VENV)/.core: $(VENV)/.uv pyproject.toml constraints.txt
	$(LOCKED) --group build -r pyproject.toml --extra analysis
	$(ITSELF)
	rm -rf $(VENV)/cache
	touch $@

$(VENV)/.dev: $(VENV)/.uv pyproject.toml constraints.txt
	$(LOCKED) --group build
	$(LOCKED) -r pyproject.toml --all-extras --group dev
	$(ITSELF)
	rm -rf $(VENV)/cache
	touch $@ $(VENV)/.core
