#!/bin/sh
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# system.sh PYTHON: see that the programs the tests run are here. As root on Debian or Ubuntu the missing ones are installed from the
# distribution, and named before; otherwise one line says for each what goes without it.
set -eu
python=${1:-python3}
list=$(dirname "$0")/system-packages.txt

is_here() {
    case $1 in
        ensurepip) "$python" -c 'import ensurepip, venv' 2>/dev/null ;;
        dockerd) command -v dockerd >/dev/null || docker info >/dev/null 2>&1 ;;
        /*) [ -e "$1" ] ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

each_missing() {
    grep -v '^#' "$list" | while read -r wanted package purpose; do
        is_here "$wanted" || "$1" "$wanted" "$package" "$purpose"
    done
}

package_name() { echo "$2"; }
tell_skipped() { echo "test: $1 is missing and only root can install it (package $2): $3"; }
tell_missing() { echo "test: $1 is still missing after installing $2: $3"; }

missing=$(each_missing package_name | sort -u | tr '\n' ' ')
[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    each_missing tell_skipped
    exit 0
fi
echo "test: installing from the distribution: $missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
for package in $missing; do
    # Not every release has each of them: Debian 13 splits docker-cli off, before it the client is part of docker.io.
    if apt-cache show "$package" >/dev/null 2>&1; then
        apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    fi
done
each_missing tell_missing
