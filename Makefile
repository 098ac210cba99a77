# Every target does its own set-up. Nothing outside the checkout is changed but what apt installs.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp-$(shell cat requirements.lock pyproject.toml | sha256sum | cut -c1-16)

# A test that hangs ends the run with its traceback. Not in pyproject.toml: a watchdog an item is what
# `pytest checks` on a fleet would pay for as well.
HANGING := -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

.PHONY: help demo test lint types imports golden docs bench lock clean engine up preview drift down

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(STAMP): requirements.lock pyproject.toml
	@tools/setup.sh $(VENV)
	@rm -f $(VENV)/.stamp-* && touch $@

demo: $(STAMP) ## size, render, raise a simulated rack, run the preflight, write the report
	@$(PY) -m tools.demo

test: $(STAMP) ## linters, types, import contracts, then all tests
	@$(MAKE) --no-print-directory lint types imports
	$(PY) -m pytest -n auto --maxprocesses 4 --dist loadfile $(HANGING)

lint: $(STAMP) ## ruff: format and rules
	$(VENV)/bin/ruff format --check -q .
	$(VENV)/bin/ruff check -q .

types: $(STAMP) ## mypy, strict
	$(VENV)/bin/mypy

imports: $(STAMP) ## the boundaries between the parts
	$(VENV)/bin/lint-imports

golden: $(STAMP) ## regenerate example plans and every golden file; review the diff
	@for w in inventory/*/workload.yaml; do $(PY) -m rackwright size $$w -o $${w%workload.yaml}plan.yaml >/dev/null; done
	RACKWRIGHT_GOLDEN=write $(PY) -m pytest -q -m "not rack and not engine" || true
	RACKWRIGHT_GOLDEN=write $(PY) -m pytest -q tests/test_docs.py || true
	@git --no-pager diff --stat

engine: $(STAMP) ## Pulumi, its Kubernetes provider and a control plane: found, downloaded or built
	@$(PY) -m tools.engine build $(ARGS)

ENV ?= lab

up: $(STAMP) ## pulumi up of an environment: make up ENV=lab
	@$(PY) -m tools.engine.stack up $(ENV) $(ARGS)

preview: $(STAMP) ## what make up would change; ARGS=--expect-no-changes in CI
	@$(PY) -m tools.engine.stack preview $(ENV) $(ARGS)

drift: $(STAMP) ## what differs between the cluster and the last make up
	@$(PY) -m tools.engine.stack drift $(ENV) $(ARGS)

down: $(STAMP) ## pulumi destroy; protected objects stay and are named
	@$(PY) -m tools.engine.stack down $(ENV) $(ARGS)

docs: $(STAMP) ## regenerate the pages that the program prints
	$(PY) -m rackwright schema --write docs/schemas
	$(PY) -m rackwright checklist --markdown > docs/checks.md
	$(PY) -m rackwright tiers --markdown > docs/tiers.md

bench: $(STAMP) ## benchmarks, side by side; medians of 3
	$(PY) -m benchmarks.preflight
	$(PY) -m benchmarks.stacks
	$(PY) -m benchmarks.sizing

lock: ## resolve the dependencies again into requirements.lock
	@tools/lock.sh

clean: ## remove what the targets made in the checkout
	rm -rf $(VENV) build results preflight-results .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
