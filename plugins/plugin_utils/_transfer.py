# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring a sealed record back to the controller (private to the collection, controller only).

The connection's own fetch_file streams the file; neither slurp nor fetch with become is used, which hold it in memory.
The file arrives as ``.part`` and takes its name only after size and sha256 were found right.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError
from ansible_collections.gpufleet.baseline.plugins.plugin_utils._run import (
    sha256_of,
    sync_directory,
    write_bytes,
)

# The ssh connection's piped method reads the whole file into memory.
PIPED_LIMIT_BYTES = 64 * 1024 * 1024
ATTEMPTS = 2
# A host that says nothing for a minute is gone; without this a pulled cable is never noticed (ssh_config(5)).
# The first value that ssh is given counts, so that the user's own stands.
_ALIVE = "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"
# What ssh says on every connection to a host that is not in known_hosts, before anything of interest.
_CHATTER = "Warning: Permanently added"
# What Ansible says before ssh's own words, which are the reason.
_BEFORE_THE_REASON = "Failed to connect to the host via ssh: "


def notice_a_cut_connection(connection: Any) -> None:
    """Let an ssh connection end when the host is silent for a minute."""
    if connection.transport != "ssh":
        return
    for option in ("ssh_extra_args", "sftp_extra_args", "scp_extra_args"):
        configured = str(connection.get_option(option) or "")
        if _ALIVE not in configured:
            connection.set_option(option, f"{configured} {_ALIVE}".strip())


def one_line(text: str) -> str:
    """What a command or a connection said, in one line, without ssh's chatter."""
    lines = (line for line in text.splitlines() if _CHATTER not in line)
    return " ".join(" ".join(lines).split()).removeprefix(_BEFORE_THE_REASON)


def transfer_methods(connection_type: str, configured: str, size: int) -> list[str]:
    """Methods of the ssh connection to try in turn; an empty name leaves the connection as it is configured."""
    if connection_type != "ssh" or size <= PIPED_LIMIT_BYTES:
        return [""]
    if configured == "piped":
        raise BaselineError(
            f"expected a transfer method that streams for a record of {size >> 20} MiB, found "
            "ansible_ssh_transfer_method=piped, which holds it in memory; use sftp or scp"
        )
    return [configured] if configured in ("sftp", "scp") else ["sftp", "scp"]


def fetch_record(connection: Any, remote: str, local: Path, size: int, sha256: str) -> None:
    """Fetch ``remote`` to ``local`` and write its checksum beside it; raises BaselineError and leaves no part of it."""
    part = local.with_name(local.name + ".part")
    last = ""
    for _attempt in range(ATTEMPTS):
        for method in transfer_methods(connection.transport, _configured(connection), size):
            last = _fetch_once(connection, remote, part, method) or _difference(part, size, sha256)
            if not last:
                _keep(part, local, sha256)
                return
    part.unlink(missing_ok=True)
    raise BaselineError(f"expected the record of {size} bytes from {remote}, found: {last}")


def _configured(connection: Any) -> str:
    return (
        str(connection.get_option("ssh_transfer_method") or "smart") if connection.transport == "ssh" else ""
    )


def _fetch_once(connection: Any, remote: str, part: Path, method: str) -> str:
    part.unlink(missing_ok=True)
    configured = _configured(connection)
    if method:
        connection.set_option("ssh_transfer_method", method)
    try:
        connection.fetch_file(remote, str(part))
    except (AnsibleConnectionFailure, AnsibleError, OSError) as error:
        return one_line(str(error))[:300]
    finally:
        if method:
            connection.set_option("ssh_transfer_method", configured)
    return ""


def _difference(part: Path, size: int, sha256: str) -> str:
    try:
        found = part.stat().st_size
        if found != size:
            return f"{found} bytes arrived"
        digest = sha256_of(part)
    except OSError as error:
        return str(error)
    return "" if digest == sha256 else f"sha256 {digest} instead of {sha256}"


def _keep(part: Path, local: Path, sha256: str) -> None:
    with open(part, "rb+") as stream:
        os.fchmod(stream.fileno(), 0o600)
        os.fsync(stream.fileno())
    part.replace(local)
    sync_directory(local.parent)
    write_bytes(local.with_name(local.name + ".sha256"), f"{sha256}  {local.name}\n".encode())
