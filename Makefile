# The first `make demo` or `make test` sets everything up in .venv; later ones start at once.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Faster than pip's own, which compiles in one process; some packages hold files that do not compile.
COMPILE := -@$(BIN)/python -m compileall -qq -j 0 .venv/lib
# The benchmark sets, which tests and benchmarks read if they are there.
export TERTIUM_DATA ?= $(abspath $(wildcard ../shared/data))
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal --durations 40

.PHONY: demo test test-all attack lint bench clean

demo: .venv/core.done
	$(BIN)/python examples/tour.py

test: .venv/dev.done
	@$(BIN)/python -m compileall -q src tests  # many tests start processes
	$(PYTEST) -m "not long"

test-all: .venv/dev.done
	$(PYTEST)

# One process for each file, so that each starts its servers once.
attack: .venv/dev.done
	$(PYTEST) --dist loadfile -m attack

lint: .venv/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.done
	$(BIN)/python benchmarks/evaluate_sts.py
	$(BIN)/python benchmarks/encode.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/train_regression.py
	$(BIN)/python benchmarks/train_contrastive.py
	$(BIN)/python benchmarks/train_micse.py
	$(BIN)/python benchmarks/train_jtcse.py
	$(BIN)/python benchmarks/score_conditional.py
	$(BIN)/python benchmarks/engines.py
	$(BIN)/python benchmarks/engine_profile.py
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/bulk.py
	$(BIN)/python benchmarks/serve.py
	$(BIN)/python benchmarks/serve_profile.py
	$(BIN)/python benchmarks/serve_soak.py
	$(BIN)/python benchmarks/serve_chaos.py
	$(BIN)/python benchmarks/serve_sizing.py
	$(BIN)/python benchmarks/simulate_shards.py --update-docs

clean:
	rm -rf .venv

.venv/bin/python:
	@echo "tertium: creating .venv"
	$(PYTHON) -m venv .venv

.venv/core.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "tertium: installing (about a minute the first time)"
	$(INSTALL) --editable .
	$(COMPILE)
	@touch $@

.venv/dev.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "tertium: installing with test tools (about two minutes the first time)"
	$(INSTALL) --editable '.[dev]'
	$(COMPILE)
	@touch $@ .venv/core.done
