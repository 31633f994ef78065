# Two commands do everything: `make demo` and `make test`.  Both make the environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Processes of the suite: most of its time goes into compiling kernels.
WORKERS ?= 2

.PHONY: demo test lint types suite fast bench clean

demo: $(VENV)/.installed
	$(BIN)/slender demo

test: lint types suite

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

suite: $(VENV)/.installed
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --durations=10

fast: $(VENV)/.installed
	$(BIN)/pytest -n $(WORKERS) --dist loadfile -m "not slow"

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .numba_cache
