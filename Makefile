# Every command works on a machine with only Python 3.11+, make and git; the first one builds .venv from uv.lock.
#
#   make demo    an agent that searches, asks, is refused - by policy, offline
#   make test    every check and the whole test suite
#
# More: setup lint bench fuzz serve clean

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
STAMP := $(VENV)/.remit-ready

# The environment is what uv.lock says and nothing that this machine happens to offer.
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/$(VENV)
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME
# Start-up time is one of the promises, and it counts on bytecode being kept.
unexport PYTHONDONTWRITEBYTECODE

# An environment that was copied here along with the folder would run the code of the folder it came from.
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell cat $(STAMP)),$(CURDIR))
.PHONY: $(STAMP)
endif
endif

.PHONY: help setup demo test lint types layers bench fuzz serve clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(STAMP)

# policies/ is listed with its folders: an editable install holds a copy of it, which must follow additions and deletions.
$(STAMP): pyproject.toml uv.lock $(shell find policies)
	@.ci/setup $(VENV)
	@printf '%s' "$(CURDIR)" > $@

demo: setup
	@$(BIN)/remit demo

test: lint
	$(PY) -m pytest -n auto $(PYTEST_ARGS)

lint: setup
	$(PY) -m ruff check --no-cache .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(BIN)/lint-imports --no-cache --no-logo

bench: setup
	@$(PY) -m benchmarks $(BENCH_ARGS)

fuzz: setup
	REMIT_FUZZ_EXAMPLES=$${REMIT_FUZZ_EXAMPLES:-50000} $(PY) -m pytest tests/providers/casbin/test_equality.py tests/middlewares/test_chain.py

serve:
	@echo "make serve: there is no gateway yet; 'make demo' shows an agent that obeys the policy" >&2
	@exit 2

clean:
	rm -rf $(VENV) .tools dist build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage .remit
	find authz providers middlewares tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
