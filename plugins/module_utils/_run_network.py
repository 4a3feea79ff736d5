# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The network's part of a rebuilt ``docker run`` (private to the collection; pure).

https://docs.docker.com/engine/network/ and NetworkSettings of https://docs.docker.com/reference/api/engine/.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from ansible_collections.gpufleet.baseline.plugins.module_utils._run_options import Options


def network_options(
    inspect: Mapping[str, Any], base: Mapping[str, Any], info: Mapping[str, Any], options: Options
) -> None:
    """Network mode, addresses, aliases, host name and ports; ``base`` is the image's own configuration."""
    host = inspect.get("HostConfig") or {}
    config = inspect.get("Config") or {}
    mode = host.get("NetworkMode") or "default"
    short_id = str(inspect.get("Id", ""))[:12]
    if mode not in ("default", "bridge"):
        options.add("network", mode)
    networks = (inspect.get("NetworkSettings") or {}).get("Networks") or {}
    if mode in networks:
        _endpoint(networks[mode], short_id, options)
    for name in sorted(networks):
        if name != mode and not (mode == "default" and name == "bridge"):
            options.notes.append(
                "then: docker network connect %s %s" % (name, str(inspect.get("Name", "")).lstrip("/"))
            )
    _host_name(str(config.get("Hostname") or ""), mode, short_id, info, options)
    if mode != "host" and not mode.startswith("container:"):
        _ports(host, config, base, options)


def _endpoint(endpoint: Mapping[str, Any], short_id: str, options: Options) -> None:
    wanted = endpoint.get("IPAMConfig") or {}
    if wanted.get("IPv4Address"):
        options.add("ip", wanted["IPv4Address"])
    if wanted.get("IPv6Address"):
        options.add("ip6", wanted["IPv6Address"])
    for address in wanted.get("LinkLocalIPs") or []:
        options.add("link-local-ip", address)
    for alias in endpoint.get("Aliases") or []:
        # The Engine adds the container's own short id by itself.
        if alias != short_id:
            options.add("network-alias", alias)


def _host_name(name: str, mode: str, short_id: str, info: Mapping[str, Any], options: Options) -> None:
    if not name or name == short_id or mode.startswith("container:"):
        return
    if mode == "host" and name == info.get("Name", name):
        return  # with the host's network, the name is the host's own by default
    options.add("hostname", name)


def _ports(
    host: Mapping[str, Any], config: Mapping[str, Any], base: Mapping[str, Any], options: Options
) -> None:
    bindings: Dict[str, List[Mapping[str, str]]] = host.get("PortBindings") or {}
    for port in sorted(bindings):
        for binding in bindings[port] or [{}]:
            options.add("publish", _published(port, binding.get("HostIp", ""), binding.get("HostPort", "")))
    exposed = set(config.get("ExposedPorts") or {}) - set(bindings) - set(base.get("ExposedPorts") or {})
    for port in sorted(exposed):
        options.add("expose", port)


def _published(port: str, address: str, host_port: str) -> str:
    if address:
        literal = "[%s]" % address if ":" in address else address
        return "%s:%s:%s" % (literal, host_port, port)
    return "%s:%s" % (host_port, port) if host_port else port
