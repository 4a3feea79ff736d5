#!/bin/sh
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# venv.sh PYTHON FOLDER: make the virtual environment and link this checkout into it as the collection gpufleet.baseline, so that
# ansible, pytest, mypy and ansible-lint find it there with no configuration.
set -eu
python=$1
venv=$2

if [ -z "$python" ]; then
    echo "setup: no Python 3.11 or newer found on PATH; install python3 or run: make PYTHON=/path/to/python3 setup" >&2
    exit 1
fi
checkout=$(pwd -P)
linked=$(readlink "$venv"/lib/python3*/site-packages/ansible_collections/gpufleet/baseline || true)
if [ "$linked" != "$checkout" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "setup: $python cannot make a virtual environment; on Debian or Ubuntu: apt-get install python3-venv" >&2
        exit 1
    fi
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$site/ansible_collections/gpufleet"
ln -sfn "$checkout" "$site/ansible_collections/gpufleet/baseline"
# The same link where tools that are given a path, and mypy, look for it.
mkdir -p .cache/tree/ansible_collections/gpufleet
ln -sfn "$checkout" .cache/tree/ansible_collections/gpufleet/baseline
