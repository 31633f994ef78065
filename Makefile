# Two commands do everything: `make demo` and `make test`.  Both make the environment first.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Processes of the suite: most of its time goes into compiling kernels.
WORKERS ?= 2

# Settings under which results differ by rounding, which no test may rest on.  OpenBLAS crashes where
# it is told to use AVX-512 and there is none.
AVX512   := $(shell grep -qs avx512f /proc/cpuinfo && echo OPENBLAS_CORETYPE=SkylakeX)
SETTINGS := OPENBLAS_CORETYPE=Haswell OPENBLAS_CORETYPE=Zen $(AVX512) NUMBA_CPU_NAME=generic \
            SLENDER_NUM_THREADS=1 SLENDER_NUM_THREADS=4
FEW      := logistic probe tracenorm_probe multinomial stochastic larank bcfw
# Whole files in the order that tests/conftest.py puts them in.  Hundreds of processes import slender:
# its bytecode is written once.
PYTEST    = env -u PYTHONDONTWRITEBYTECODE $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: demo docs test torch lint types suite fast portable portable-short avx512 bench clean

demo: $(VENV)/.installed
	$(BIN)/slender demo

docs: $(VENV)/.installed
	$(BIN)/sphinx-build -W -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

test: lint types suite

# What the tests of computing on a device need, on the CPU; without it they are skipped.
torch: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet "torch==2.13.0" "triton>=3.5; sys_platform == 'linux'"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

suite: $(VENV)/.installed
	$(PYTEST) --durations=10

fast: $(VENV)/.installed
	$(PYTEST) -m "not slow"

portable: avx512
	set -e; for setting in $(SETTINGS); do echo "== $$setting"; env $$setting $(PYTEST) -q; done

# The same in three minutes: what is compared with numbers.  scikit-learn's fits, which it is compared
# with, are small, and BLAS's threads would wait for each other in them.
portable-short: few = OPENBLAS_NUM_THREADS=1 $(PYTEST) -q -m "not slow" -k "not contract" \
                      $(FEW:%=tests/test_%.py)
portable-short: avx512
	OPENBLAS_CORETYPE=Haswell NUMBA_CPU_NAME=generic $(few)
	SLENDER_NUM_THREADS=4 $(AVX512) $(few)

avx512: $(VENV)/.installed
	@$(if $(AVX512),,echo "no AVX-512 here: OPENBLAS_CORETYPE=SkylakeX is left out")

bench: $(VENV)/.installed
	$(BIN)/python -m benchmarks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis .numba_cache docs/_build
