# The two commands of the README: `make demo` and `make test`. Both set up what they need, without root, and can be run again.

PYTHON ?= python3
BIN := .venv/bin
JOBS ?= 2

.PHONY: demo test quick lint types bench clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    see frozen tasks become winnable-but-not-won, in under two minutes"
	@echo "make test    every check: lint, types, layers, tests with the real parts"
	@echo "make quick   the checks of a local loop, under a minute"
	@echo "make bench   every benchmark, as a table"

.venv/.core: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

.venv/.full: .venv/.core scripts/install-alfworld scripts/install-local-model
	$(BIN)/python -m pip install --quiet --editable . --group dev
	scripts/install-alfworld $(BIN)/python
	scripts/install-local-model $(BIN)/python
	@touch $@

demo: .venv/.core
	$(BIN)/envharness demo

lint: .venv/.full
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports

types: .venv/.full
	$(BIN)/pyright

test: lint types
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

quick: .venv/.full
	$(BIN)/ruff check
	$(BIN)/pytest -n $(JOBS) --dist loadgroup -m "not slow"

bench: .venv/.full
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
