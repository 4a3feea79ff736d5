#!/usr/bin/python3 -IS
# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a GPU host, answered from the state: systemctl, journalctl -k, dmesg, modinfo.

One file under the four names. Lab hosts run no systemd, and their kernel is the machine's.
"""

from __future__ import annotations

import json
import os
import sys
import time

FOLDER = "/run/simulated-gpu"
QUESTIONS = {
    "is-active": ("ActiveState", "active"),
    "is-enabled": ("UnitFileState", "enabled"),
    "is-failed": ("ActiveState", "failed"),
}
DAEMONS = {"docker": "dockerd", "ssh": "sshd", "nvidia-fabricmanager": "nv-fabricmanager"}
ALWAYS = {"ssh": "active", "docker": "active", "containerd": "active"}


def read(name: str) -> str:
    try:
        with open(f"{FOLDER}/{name}", encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


# --- systemctl -------------------------------------------------------------------------------------------


def services() -> dict[str, str]:
    """Unit names without suffix, with their state."""
    states = dict(ALWAYS, **json.loads(read("services.json") or "{}"))
    if not os.path.exists("/run/docker.pid"):
        states["docker"] = states["containerd"] = "inactive"
    return states


def properties(unit: str) -> dict[str, str]:
    """What systemd knows of a unit, under its own names."""
    name = unit.removesuffix(".service")
    full = name if "." in name else f"{name}.service"
    state = services().get(name)
    since = time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(boot_time() + 20))
    return {
        "Id": full,
        "Names": full,
        "Description": f"{name} service" if state else full,
        "LoadState": "loaded" if state else "not-found",
        "ActiveState": state or "inactive",
        "SubState": {"active": "running", "failed": "failed"}.get(state or "", "dead"),
        "UnitFileState": "" if not state else "disabled" if state == "inactive" else "enabled",
        "FragmentPath": f"/usr/lib/systemd/system/{full}" if state else "",
        "Result": "exit-code" if state == "failed" else "success",
        "ExecMainStatus": "1" if state == "failed" else "0",
        "MainPID": main_pid(name) if state == "active" else "0",
        "NRestarts": "0",
        "ActiveEnterTimestamp": since if state == "active" else "",
        "InactiveEnterTimestamp": since if state == "failed" else "",
        "NeedDaemonReload": "no",
    }


def main_pid(service: str) -> str:
    """The oldest process that the kernel calls by the daemon's name."""
    wanted = DAEMONS.get(service, service)[:15]
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                if file.read().rstrip("\n") == wanted:
                    return str(pid)
        except FileNotFoundError:
            continue
    return "0"


def show(units: list[str], options: list[str]) -> int:
    wanted = [
        name
        for option in options
        if option.startswith(("-p=", "--property="))
        for name in option.split("=")[1].split(",")
    ]
    blocks = []
    for unit in units:
        facts = properties(unit)
        chosen = wanted or list(facts)
        blocks.append(
            "\n".join(
                facts.get(k, "") if "--value" in options else f"{k}={facts[k]}" for k in chosen if k in facts
            )
        )
    print("\n\n".join(blocks))
    return 0


def list_units(options: list[str]) -> int:
    shown = [
        f
        for f in map(properties, sorted(services()))
        if "--all" in options or "-a" in options or f["ActiveState"] != "inactive"
    ]
    if "--no-legend" not in options:
        print("  UNIT LOAD ACTIVE SUB DESCRIPTION")
    for f in shown:
        print(f"  {f['Id']} {f['LoadState']} {f['ActiveState']} {f['SubState']} {f['Description']}")
    return 0


def systemctl(options: list[str], words: list[str]) -> int:
    verb, units = (words[0], words[1:]) if words else ("list-units", [])
    if "--version" in options:
        print("systemd 252 (252.39-1~deb12u1)")
        return 0
    if verb in QUESTIONS:
        key, good = QUESTIONS[verb]
        found = [properties(unit)[key] or "not-found" for unit in units]
        if "--quiet" not in options and "-q" not in options:
            print("\n".join(found))
        return 0 if good in found else 1 if verb != "is-active" else 3
    if verb == "show":
        return show(units, options)
    if verb == "status":
        for f in map(properties, units):
            print(f"{f['Id']} - {f['Description']}\n     Loaded: {f['LoadState']}")
            print(f"     Active: {f['ActiveState']} ({f['SubState']})")
        return 0 if all(properties(unit)["ActiveState"] == "active" for unit in units) else 3
    if verb == "list-units":
        return list_units(options)
    if verb == "is-system-running":
        failed = "failed" in services().values()
        print("degraded" if failed else "running")
        return 1 if failed else 0
    print(f"Unknown command verb '{verb}', or one that the lab does not answer.", file=sys.stderr)
    return 1


# --- the kernel log --------------------------------------------------------------------------------------


def kernel_messages() -> list[tuple[float, str]]:
    """(time, text) of each message: the state says how many seconds ago, at most since the boot."""
    begin = boot_time() + 1
    base = os.stat(f"{FOLDER}/kernel.log").st_mtime if os.path.exists(f"{FOLDER}/kernel.log") else 0
    split = [line.split(" ", 1) for line in read("kernel.log").splitlines()]
    return [(max(base - float(ago), begin), text) for ago, text in split]


def boot_time() -> float:
    with open("/proc/uptime", encoding="ascii") as file:
        return time.time() - float(file.read().split()[0])


def dmesg(options: list[str], _words: list[str]) -> int:
    if os.geteuid():
        print("dmesg: read kernel buffer failed: Operation not permitted", file=sys.stderr)
        return 1
    boot = boot_time()
    for when, text in kernel_messages():
        if "-T" in options or "--ctime" in options:
            stamp = time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(when))
            print(f"[{stamp}] {text}")
        elif "--time-format=iso" in options:
            print(f"{iso(when, ',')} {text}")
        else:
            print(f"[{when - boot:12.6f}] {text}")
    return 0


def iso(when: float, point: str = ".") -> str:
    local = time.localtime(when)
    zone = time.strftime("%z", local)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', local)}{point}{int(when % 1 * 1e6):06d}{zone[:3]}:{zone[3:]}"


def journalctl(options: list[str], words: list[str]) -> int:
    if os.geteuid():
        print("No journal files were opened due to insufficient permissions.", file=sys.stderr)
        return 1
    host = os.uname().nodename
    form = value_of(options, "-o", "--output") or "short"
    if "--list-boots" in options:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip().replace("-", "")
        begin, end = (
            time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(when))
            for when in (boot_time(), time.time())
        )
        print(f" 0 {boot} {begin}—{end}")
        return 0
    asked = {"-k", "--dmesg"} & set(options) or "_TRANSPORT=kernel" in words
    messages = kernel_messages() if asked else []
    if not messages and "-q" not in options and "--quiet" not in options:
        print("-- No entries --")
    for when, text in messages:
        if form == "json":
            entry = {
                "__REALTIME_TIMESTAMP": str(int(when * 1e6)),
                "_TRANSPORT": "kernel",
                "PRIORITY": "4",
                "_HOSTNAME": host,
            }
            print(json.dumps(dict(entry, SYSLOG_IDENTIFIER="kernel", MESSAGE=text)))
        elif form == "cat":
            print(text)
        else:
            short = time.strftime("%b %d %H:%M:%S", time.localtime(when))
            stamps = {
                "short-iso": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when)),
                "short-iso-precise": iso(when),
                "short-unix": f"{when:.6f}",
                "short-monotonic": f"[{when - boot_time():12.6f}]",
            }
            print(f"{stamps.get(form, short)} {host} kernel: {text}")
    return 0


# --- modinfo ---------------------------------------------------------------------------------------------


def modinfo(options: list[str], words: list[str]) -> int:
    state = dict(line.split(" = ", 1) for line in read("state").splitlines())
    version = state.get("module_version")
    if not words or not words[-1].startswith("nvidia") or not version:
        print(f"modinfo: ERROR: Module {words[-1] if words else ''} not found.", file=sys.stderr)
        return 1
    release = os.uname().release
    facts = {
        "filename": f"/lib/modules/{release}/updates/dkms/{words[-1]}.ko",
        "version": version,
        "firmware": f"nvidia/{version}/gsp_ga10x.bin",
        "supported": "external",
        "license": "Dual MIT/GPL",
        "vermagic": f"{release} SMP preempt mod_unload",
    }
    field = value_of(options, "-F", "--field")
    for key, value in facts.items():
        if not field:
            print(f"{key + ':':<16}{value}")
        elif field == key:
            print(value)
    return 0


def value_of(options: list[str], *names: str) -> str:
    """The value of an option under any of its names, or nothing."""
    return next(
        (value for name, _sign, value in (o.partition("=") for o in options) if name in names and value), ""
    )


def split(argv: list[str], with_value: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """Options (those with a separate value as -x=value) and words."""
    options: list[str] = []
    words: list[str] = []
    rest = iter(argv)
    for word in rest:
        if word in with_value:
            options.append(f"{word}={next(rest, '')}")
        elif word.startswith("-"):
            options.append(word)
        else:
            words.append(word)
    return options, words


TOOLS = {
    "systemctl": (systemctl, ("-p", "--property", "-t", "--type", "-n")),
    "journalctl": (journalctl, tuple("-o --output -n --lines -u --unit --since --until -g --grep".split())),
    "dmesg": (dmesg, ("--time-format", "-l", "--level", "-f", "-s")),
    "modinfo": (modinfo, ("-F", "--field", "-k", "-b")),
}

if __name__ == "__main__":
    answer, with_value = TOOLS[os.path.basename(sys.argv[0])]
    sys.exit(answer(*split(sys.argv[1:], with_value)))
