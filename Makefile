# Each target sets up what it needs. A fresh Debian or Ubuntu with Python 3.11+, git and make is enough.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3.14 python3,$(shell command -v $(name))))
BIN := .venv/bin
# If root runs this, the PostgreSQL servers of the tests run as another user, who must be able to read .venv.
INSTALL := umask 022 && $(BIN)/pip install --quiet

# Tests start hundreds of processes. Without cached bytecode, each would compile all of Ousel again.
export PYTHONDONTWRITEBYTECODE :=

# More than the cores of a small machine: quick tests wait for locks, and slow tests wait longer, for
# servers, browsers and elections. Each worker costs seconds of CPU, because it collects all tests.
QUICK_WORKERS := 3
WORKERS := 4

.PHONY: help demo test check format types whole quick every client-matrix clients cluster citus faults fuzz mutants audit bench growth \
	screenshots docs lock fresh-machine container clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/demo ## Set up and run a sandbox with a demo shop
	$(BIN)/ousel demo

test: .venv/bench .venv/cluster ## Set up and run all tests and checks
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory --jobs=3 every whole types

check: .venv/bench ## Check format, lint, types and layers, and run the quick tests
	@$(MAKE) --no-print-directory format
	@$(MAKE) --no-print-directory --jobs=3 --output-sync quick whole types

format: .venv/bench
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: .venv/bench
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Measuring coverage slows tests, those with many examples most. So only the tests of these modules measure it, with few
# examples. None of them may be slow. `make test` also runs them with all examples.
whole: .venv/bench
	OUSEL_TESTS=check $(BIN)/pytest -m "not slow" $(PURE) $(addprefix --cov=ousel.,$(WHOLE)) --cov-report=term-missing --cov-fail-under=100
PURE := tests/kernel $(addprefix tests/ledger/test_,rules.py charge_rules.py)
WHOLE := kernel.money kernel.ids kernel.account_numbers ledger.rules

# This leaves tests on PostgreSQL to `make test`: see tests/support/engines.py.
quick: .venv/bench
	OUSEL_TESTS=check $(BIN)/pytest -n $(QUICK_WORKERS) --dist worksteal -m "not slow" $(addprefix --ignore=,$(PURE))

# The slow tests start first, and the quick ones keep the cores busy to the end.
every: .venv/bench .venv/cluster
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=5

client-matrix: ## Test the client on every installed Python
	@scripts/client-matrix

clients: .venv/test ## Generate clients in four languages from the OpenAPI document, and run a partner's journey with each
	$(BIN)/pytest --timeout=1800 --durations=8 clients/generated/tests

cluster: .venv/cluster ## Kill and switch over the leaders of a PostgreSQL cluster, ten times each
	OUSEL_CLUSTER=full $(BIN)/pytest tests/cluster

citus: .venv/bench ## Run the tests of the ledger, the API and the portal on Citus, then cause many faults there; needs Citus
	OUSEL_ENGINE=citus $(BIN)/pytest -n 2 --dist worksteal $(CITUS_TESTS)
	OUSEL_FAULTS=full $(BIN)/pytest --timeout=3600 tests/citus
CITUS_TESTS := $(addprefix tests/,accounts api charges lab ledger mail oauth partners people portal sandbox sealed_log transfers)

faults: .venv/bench .venv/cluster ## Cause many faults (kills, stops, lost answers), also in a cluster; test a restore and run a long load
	OUSEL_FAULTS=full OUSEL_CLUSTER=full $(BIN)/pytest --timeout=3600 $(FAULT_TESTS)
FAULT_TESTS := tests/spec tests/simulation tests/faults tests/cluster tests/cli/test_backup.py tests/cli/test_restore.py \
	tests/api/test_conformance.py tests/charges/test_race.py tests/charges/test_waiting_processes.py \
	tests/charges/test_lifecycle_model.py tests/ledger/test_long_ledger.py tests/ledger/test_model.py \
	clients/python/tests/test_faults.py clients/typescript/tests/test_journey.py tests/sealed_log/test_receipts.py \
	tests/people/test_email_confirmation.py::test_two_who_confirm_one_email_at_once_do_not_both_have_it

fuzz: .venv/test ## Try millions of inputs on the parsers, and random bytes as requests
	OUSEL_FUZZ=full $(BIN)/pytest -n 2 --dist load tests/security/test_fuzz_parsers.py tests/security/test_fuzz_requests.py

# Run nothing beside it. mutmut sends a signal to each process that it has started, also long after its end, when another
# program may have its id.
mutants: .venv/mutants ## Change the rules of money and the ledger in small ways; a test must fail for each change
	rm -rf mutants
	$(BIN)/mutmut run
	$(BIN)/python -m tests.mutation

audit: ## Look for known vulnerabilities in the pinned dependencies
	@$(PYTHON) scripts/audit

bench: .venv/bench ## Measure speed, and print a table of ratios
	$(BIN)/python -W "ignore:XDG_RUNTIME_DIR" -m bench

growth: .venv/bench ## Measure speed while the ledger grows to ten million entries (option: ENTRIES=100000000)
	$(BIN)/python -W "ignore:XDG_RUNTIME_DIR" -m bench --growth $(ENTRIES)
ENTRIES := 10000000

screenshots: .venv/test ## Take a picture of every page
	$(BIN)/python -m tests.journeys.screenshots

docs: .venv/test ## Build the documentation as a static site
	$(INSTALL) --require-hashes -r requirements/docs.txt
	$(BIN)/zensical build --strict

lock: .venv/test ## Pin the dependencies again, with hashes
	$(INSTALL) uv
	$(BIN)/uv pip compile $(LOCK) -o requirements/build.txt requirements/build.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/runtime.txt pyproject.toml
	$(BIN)/uv pip compile $(LOCK) -o requirements/test.txt requirements/test.in pyproject.toml
	$(BIN)/uv pip compile $(LOCK) -o requirements/cluster.txt requirements/cluster.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/docs.txt requirements/docs.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/demo.txt requirements/demo.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/otel.txt requirements/otel.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/bench.txt requirements/bench.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/audit.txt requirements/audit.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/pipx.txt requirements/pipx.in
	$(BIN)/uv pip compile $(LOCK) -o requirements/mutants.txt requirements/mutants.in
	$(BIN)/npm --prefix requirements/node update --package-lock-only
	$(BIN)/npm --prefix clients/typescript update --package-lock-only
LOCK := --quiet --upgrade --generate-hashes --no-strip-extras --no-header --no-annotate --python-version 3.11

fresh-machine: ## Run 'make demo' and 'make test' on a new Debian; needs root (options: SUITE=trixie AS=root)
	scripts/fresh-machine $(SUITE) $(AS)
SUITE := bookworm
AS := user

container: ## Build the container image and send a transfer to it; needs root
	scripts/container-check

clean: ## Remove what was set up
	rm -rf .venv .build mutants

.venv/bin/pip:
	@scripts/make-venv "$(PYTHON)"

.venv/runtime: .venv/bin/pip requirements/runtime.txt pyproject.toml
	$(INSTALL) --require-hashes -r requirements/runtime.txt
	$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/demo: .venv/runtime requirements/demo.txt clients/python/pyproject.toml
	$(INSTALL) --require-hashes -r requirements/demo.txt
	$(INSTALL) --no-deps --no-build-isolation --editable clients/python
	@touch $@

.venv/test: .venv/demo requirements/test.txt clients/python/pyproject.toml
	$(INSTALL) --require-hashes -r requirements/test.txt
	$(INSTALL) --no-deps --no-build-isolation --editable clients/python
	@touch $@

.venv/bench: .venv/test requirements/bench.txt
	$(INSTALL) --require-hashes -r requirements/bench.txt
	@touch $@

.venv/cluster: .venv/test requirements/cluster.txt
	$(INSTALL) --require-hashes -r requirements/cluster.txt
	@touch $@

.venv/mutants: .venv/test requirements/mutants.txt
	$(INSTALL) --require-hashes -r requirements/mutants.txt
	@touch $@
