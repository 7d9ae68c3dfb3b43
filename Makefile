# The front door. `make run` and `make test` do all the set-up they need; `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules --no-print-directory

UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
# uv has a small environment of its own, so that a sync of the real one never removes it.
UV := $(VENV)/.bootstrap/bin/uv
SYNCED := $(VENV)/.synced
PYTEST := $(BIN)/pytest
# Most tests wait for servers and timers: more of them than cores at a time, each file in one process.
WORKERS ?= 3
SIDE_BY_SIDE := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder
# Further words for pytest: make test-fast ARGS="-k writer -x"
ARGS ?=

export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Bytecode is kept: without it every start of a process compiles its modules anew, for seconds.
unexport PYTHONHOME PYTHONPATH PYTHONDONTWRITEBYTECODE

PYTHON_HINT := Python 3.11, 3.12 or 3.13 is needed: install it with `apt-get install python3 python3-venv` (Debian, Ubuntu) or `brew install python@3.11` (macOS), or name one with `make PYTHON=/path/to/python3 ...`.
VENV_HINT := This Python cannot make virtual environments: install that part with `apt-get install python3-venv`.
JAVA_HINT := Java 17 or newer is needed: install it with `apt-get install openjdk-17-jre-headless` (Debian, Ubuntu) or `brew install openjdk@17` (macOS), or set JAVA_HOME.

.PHONY: help
help: ## List every target.
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: jars ## Set up, then see a shop's stream become a table, until Ctrl-C; RUN_FOR=90 ends by itself; DATA, PORT, ADMIN_PORT.
	@exec $(BIN)/lakestream demo $(if $(DATA),--data '$(DATA)') $(if $(PORT),--port '$(PORT)') \
		$(if $(ADMIN_PORT),--admin-port '$(ADMIN_PORT)') $(if $(RUN_FOR),--for '$(RUN_FOR)') \
		--again 'make run$(if $(DATA), DATA=$(DATA))'

.PHONY: test
test: jars lint types arch conf-check ## Set up, then check and test everything but the long tests (CI runs this).
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not slow" $(ARGS)

.PHONY: test-fast
test-fast: setup ## The tests that need no Java and no server; at most two minutes.
	@$(PYTEST) -m "not slow and not long and not spark and not s3 and not postgres" tests/unit tests/contract tests/simulation $(ARGS)

.PHONY: test-all
test-all: jars lint types arch conf-check ## Everything, the long tests too, with many more random examples.
	@$(PYTEST) $(SIDE_BY_SIDE) -m "not slow" --hypothesis-profile=thorough --timeout=3600 $(ARGS)
	@$(PYTEST) -m slow --hypothesis-profile=thorough --timeout=3600 $(ARGS)

.PHONY: lint
lint: setup ## Check style and formatting.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

.PHONY: format
format: setup ## Format the code and mend what can be mended by machine.
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

.PHONY: types
types: setup ## Check types, strictly.
	@$(BIN)/mypy

.PHONY: arch
arch: setup ## Check that every package imports only what the map allows.
	@$(BIN)/lint-imports --no-logo

.PHONY: bench
bench: jars ## Run the benchmarks and write their report; BENCH=append runs that one, or those whose name contains it.
	@$(BIN)/python -m tests.benchmarks.report $(BENCH) $(ARGS)

.PHONY: conf
conf: setup ## Write conf/lakestream.toml anew from the settings tree.
	@mkdir -p conf && $(BIN)/lakestream config docs > conf/lakestream.toml

.PHONY: conf-check
conf-check: setup ## Fail when conf/lakestream.toml is stale.
	@$(BIN)/lakestream config docs | diff -u conf/lakestream.toml - \
		|| { echo 'conf/lakestream.toml is stale: run `make conf`.' >&2; exit 1; }

.PHONY: lock
lock: $(UV) ## Resolve requirements.lock anew; UPGRADE=1 takes the newest versions.
	@$(UV) pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		$(if $(UPGRADE),--upgrade) --no-emit-index-url --custom-compile-command "make lock" --quiet \
		--output-file requirements.lock

.PHONY: setup
setup: $(SYNCED) ## Make .venv with everything that is locked, and the project itself.

.PHONY: jars
jars: check-java setup ## Fetch the Spark jars once into the user's cache.
	@$(BIN)/python -m lakestream_spark.spark.jars

.PHONY: check-java
check-java: ## Fail when Java 17 is missing.
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1 || true); \
	[ "$${version:-0}" -ge 17 ] || { echo '$(JAVA_HINT)' >&2; exit 1; }

.PHONY: clean
clean: ## Remove .venv, caches and build products; never data, never the user's cache.
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find lakestream_spark pipelines tests -type d -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

$(UV):
	@python=""; \
	for candidate in $(PYTHON) python3 python3.11 python3.12 python3.13; do \
		if "$$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; \
		then python="$$candidate"; break; fi; \
	done; \
	[ -n "$$python" ] || { echo '$(PYTHON_HINT)' >&2; exit 1; }; \
	[ -x $(BIN)/python ] || "$$python" -m venv --without-pip $(VENV) || { echo '$(VENV_HINT)' >&2; exit 1; }; \
	"$$python" -m venv $(VENV)/.bootstrap > /dev/null || { rm -rf $(VENV)/.bootstrap; echo '$(VENV_HINT)' >&2; exit 1; }; \
	echo 'Fetching uv $(UV_VERSION) ...' >&2; \
	$(VENV)/.bootstrap/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(SYNCED): requirements.lock pyproject.toml $(UV)
	@echo 'Installing what requirements.lock names ...' >&2
	@$(UV) pip sync --quiet --require-hashes requirements.lock
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
