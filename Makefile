# The commands of the project; CONTRIBUTING.md says when to use which.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# On a terminal pip shows how far it is; a log stays short.
PIP_INSTALL = $(BIN)/python -m pip install $(shell test -t 2 || echo --quiet) --constraint envs/constraints.txt
# The service and the trainer share two cores: threads that spin on a barrier cost more than they give.
export OMP_NUM_THREADS ?= 1

.PHONY: help setup train test lint format bench fuzz fuzz-long docs picture lock clean

help:
	@echo 'make setup     the environment in .venv and the compiled core; every other target begins with it'
	@echo 'make train     set up, run the quickstart recipe on this machine, show what came out'
	@echo 'make test      set up, run every test group whose tools are here'
	@echo 'make lint      all checks that run no product code'
	@echo 'make bench     each kernel beside its peers, into docs/reference/benchmarks.md'
	@echo 'make fuzz      each parser against made-up input, FUZZ_SECONDS (60) a target'
	@echo 'make fuzz-long the same for half an hour a target, into bench/results/fuzz.json'
	@echo 'make docs      generate the reference pages and schemas'
	@echo 'make picture   docs/images/report.png from the page of the last `make train`, by Chromium'
	@echo 'make clean     remove what builds and runs made (run directories and results included)'

setup: $(READY)
	@$(BIN)/python tests/setup/links.py

$(READY): pyproject.toml envs/constraints.txt Cargo.toml Cargo.lock $(shell find native -path native/fuzz -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print 2>/dev/null)
	@command -v cargo >/dev/null || { echo 'make: no cargo here; install a Rust toolchain (1.85 or later) and try again' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo 'make: $(PYTHON) is older than 3.11; name another one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@echo 'setup: 1 of 3: a Python environment in $(VENV)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@echo 'setup: 2 of 3: what tests and checks need'
	@$(PIP_INSTALL) --group dev
	@echo 'setup: 3 of 3: torch and the other packages, about 6 GB, and the core, which is compiled; this takes some minutes'
	@$(PIP_INSTALL) --editable '.[local]'
	@touch $@
	@echo 'setup: done; `. $(BIN)/activate` puts platoon and snakemake on the path'

train: setup
	$(BIN)/snakemake --profile local train
	@$(BIN)/platoon show results

test: setup
	cargo test --quiet --workspace
	@$(BIN)/python tests/setup/groups.py run

lint: setup
	ruff check .
	ruff format --check .
	mypy
	$(BIN)/python -m mypy.stubtest platoon._native
	lint-imports
	cargo fmt --check
	cargo fmt --check --manifest-path native/fuzz/Cargo.toml
	cargo clippy --quiet --all-targets -- --deny warnings
	snakefmt --check workflow/Snakefile rules
	$(BIN)/python -m pytest -q tests/house

format: setup
	ruff check --fix .
	ruff format .
	cargo fmt
	cargo fmt --manifest-path native/fuzz/Cargo.toml
	snakefmt workflow/Snakefile rules

bench: setup
	$(BIN)/python -m bench.run $(BENCH)

fuzz: setup
	$(BIN)/python native/fuzz/run.py

fuzz-long: setup
	FUZZ_SECONDS=1800 $(BIN)/python native/fuzz/run.py --json bench/results/fuzz.json

docs: setup
	$(BIN)/python -m platoon docs write

# As high as cards, figures and the tables of the quickstart.
picture:
	$(or $(CHROMIUM),chromium) --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1100,1795 \
	  --user-data-dir=$(CURDIR)/.cache/chromium --screenshot=docs/images/report.png file://$(CURDIR)/results/report.html
	$(BIN)/python -c 'from PIL import Image; path = "docs/images/report.png"; Image.open(path).convert("RGB").quantize(128, method=1).save(path, optimize=True)'

lock:
	rm -rf $(VENV)-lock
	$(PYTHON) -m venv $(VENV)-lock
	$(VENV)-lock/bin/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(VENV)-lock/bin/python -m pip install --quiet --group dev '.[local]'
	$(VENV)-lock/bin/python tests/setup/freeze.py > envs/constraints.txt
	rm -rf $(VENV)-lock

clean:
	rm -rf $(VENV) target native/fuzz/target native/fuzz/artifacts results runs logs dist .snakemake .cache .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	rm -f platoon/_native*.so
