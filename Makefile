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
PIP := $(VENV)/bin/python -m pip install -qq --disable-pip-version-check

.PHONY: help
help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r n t; do printf '  %-10s %s\n' "$$n" "$$t"; done

.PHONY: setup
setup: $(VENV)/.controller  ## prepare .venv: ansible-core and the libraries of the controller, pinned

.PHONY: setup-tests
setup-tests: $(VENV)/.tests  ## setup, and what the tests need

$(VENV)/.controller: $(CONTROLLER)
	@tests/tools/venv.sh "$(PYTHON)" $(VENV)
	@$(PIP) -r $(CONTROLLER)
	@touch $@

$(VENV)/.tests: $(VENV)/.controller $(TESTING)
	@$(PIP) -r $(CONTROLLER) -r $(TESTING)
	@touch $@
