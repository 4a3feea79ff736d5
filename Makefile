# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Everything a person or CI does from a checkout. `make help` lists the targets.
# Nothing is installed outside .venv and .cache; only `make test` as root may also install
# system packages (tests/tools/system-packages.txt), and says so before it does.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The first Python that is new enough; name another one with `make PYTHON=/path/to/python3 ...`.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; break; }; done)
VENV := .venv
CONTROLLER := meta/controller-requirements.txt
TESTING := tests/requirements.txt
# Where the checkout is linked as the collection: a copy in the user's home must not shadow it.
COLLECTIONS := $(CURDIR)/.cache/tree
RUN := $(VENV)/bin/python tests/tools
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check

.PHONY: help
help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; done

.PHONY: freeze
freeze: setup  ## freeze this machine into a sealed record, and say where it is; ARGS="..." goes to ansible-playbook
	@ANSIBLE_COLLECTIONS_PATH=$(COLLECTIONS) $(VENV)/bin/ansible-playbook playbooks/freeze.yml -i inventories/local $(ARGS)

.PHONY: test
test:  ## everything CI runs; as root it installs and starts Docker Engine where it is missing, saying so first
	@tests/tools/system.sh "$(PYTHON)"
	@$(MAKE) --no-print-directory setup-tests
	@$(RUN)/run_all.py

.PHONY: setup
setup: $(VENV)/.controller  ## prepare .venv: ansible-core and the libraries of the controller, pinned

.PHONY: setup-tests
setup-tests: $(VENV)/.tests  ## setup, and what the tests need

# Made anew when the checkout was moved: its programs begin with the old path.
LINKED := $(realpath $(wildcard $(VENV)/lib/python3*/site-packages/ansible_collections/gpufleet/baseline))
$(VENV)/.controller: $(CONTROLLER) $(if $(filter $(CURDIR),$(LINKED)),,moved)
	@echo "setup: installing $(CONTROLLER) into $(VENV)"
	@tests/tools/venv.sh "$(PYTHON)" $(VENV)
	@$(PIP) -r $(CONTROLLER)
	@touch $@

$(VENV)/.tests: $(VENV)/.controller $(TESTING)
	@echo "setup: installing $(TESTING) into $(VENV)"
	@$(PIP) -r $(CONTROLLER) -r $(TESTING)
	@touch $@

.PHONY: moved
moved:

.PHONY: lint units docker host-python sanity artifact molecule
lint: setup-tests  ## linters, type checks, changelog
	@$(RUN)/lint.py

units: setup-tests  ## unit tests; ARGS="tests/unit/... -k ..." goes to pytest
	@$(RUN)/pytest_step.py units $(or $(ARGS),tests/unit)

docker: setup-tests  ## tests against this machine's Docker Engine
	@$(RUN)/pytest_step.py docker --docker $(or $(ARGS),tests/integration_docker)

host-python: setup-tests  ## unit tests of host code under the oldest Python of a host, when one is found
	@$(RUN)/host_python.py

sanity: setup-tests  ## ansible-test sanity
	@$(RUN)/sanity.py

artifact: setup-tests  ## build the collection, install it with no server, read its documentation
	@$(RUN)/artifact.py

molecule: setup-tests  ## all scenarios; ARGS="freeze-running ..." runs only these
	@$(RUN)/scenarios.py $(ARGS)

.PHONY: lab-up lab-down
lab-up: setup-tests  ## start the simulated fleet; ARGS="--nodes 2 --state NAME"
	@tests/lab/lab up $(ARGS)

lab-down:  ## stop the simulated fleet
	@tests/lab/lab down $(ARGS)

.PHONY: bench
bench: setup-tests  ## measure speed and memory against their budgets
	@for script in tests/bench/[!_]*.py; do $(VENV)/bin/python "$$script" $(ARGS); done

.PHONY: clean
clean:  ## remove everything that these targets made in the checkout
	@rm -rf .venv .cache .ansible .hypothesis .mypy_cache .pytest_cache .ruff_cache changelogs/.plugin-cache.yaml
