# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as people install it: built, installed with no server, its documentation read."""

from __future__ import annotations

import json
import shutil
import sys
import tarfile

import yaml
from _step import CACHE, ROOT, Step, environment

FOLDER = CACHE / "artifact"
DOCUMENTED = ("callback", "filter", "lookup", "module")
# What a checkout has and an installed collection does not need.
LEFT_OUT = ("tests", "molecule", "Makefile", "inventories/lab")


def main() -> None:
    """Build, install, and ask ansible-doc and ansible-playbook about what was installed."""
    step = Step("artifact")
    shutil.rmtree(FOLDER, ignore_errors=True)
    galaxy = yaml.safe_load((ROOT / "galaxy.yml").read_text())
    archive = FOLDER / f"gpufleet-baseline-{galaxy['version']}.tar.gz"
    # The folder of the virtual environment that holds the link to the checkout is not asked.
    env = environment(ANSIBLE_COLLECTIONS_PATH=str(FOLDER), ANSIBLE_COLLECTIONS_SCAN_SYS_PATH="false")
    step.run("build", ["ansible-galaxy", "collection", "build", "--output-path", str(FOLDER)], env=env)
    if not archive.exists():
        step.end()
    check_members(step, archive)
    install = ["ansible-galaxy", "collection", "install", str(archive), "-p", str(FOLDER), "--offline"]
    step.run("install", install, env=env)
    for kind in DOCUMENTED:
        names = plugin_names(kind)
        if names:
            text = step.run(
                f"ansible-doc of {len(names)} {kind}s", ["ansible-doc", "-t", kind, "-j", *names], env=env
            )
            expect(step, f"all {kind}s are documented", set(names), documented(text))
    roles = {
        f"gpufleet.baseline.{path.parent.parent.name}"
        for path in ROOT.glob("roles/*/meta/argument_specs.yml")
    }
    if roles:
        text = step.run(
            "ansible-doc of the roles", ["ansible-doc", "-t", "role", "-j", *sorted(roles)], env=env
        )
        expect(step, "all roles are documented", roles, documented(text))
    for playbook in sorted(ROOT.glob("playbooks/*.yml")):
        name = f"gpufleet.baseline.{playbook.stem}"
        step.run(
            f"syntax of {name}", ["ansible-playbook", "--syntax-check", "-i", "localhost,", name], env=env
        )
    step.end()


def check_members(step: Step, archive: object) -> None:
    """Nothing that only a checkout needs, and nothing hidden, is packed."""
    with tarfile.open(archive) as opened:
        members = opened.getnames()
    stray = [name for name in members if name.startswith((".", *LEFT_OUT)) or "__pycache__" in name]
    step.count(
        f"{len(members)} members, none that does not belong", passed=not stray, output="\n".join(stray)
    )


def plugin_names(kind: str) -> list[str]:
    """The full names of our plugins of one kind, from the files of the checkout."""
    folder = ROOT / "plugins" / ("modules" if kind == "module" else kind)
    files = sorted([*folder.glob("[!_]*.py"), *folder.glob("[!_]*.yml")])
    return sorted({f"gpufleet.baseline.{path.stem}" for path in files})


def documented(text: str) -> set[str]:
    """The names in ansible-doc's JSON, which may stand below warnings."""
    try:
        return set(json.loads(text[text.index("{") :]))
    except ValueError:
        return set()


def expect(step: Step, title: str, wanted: set[str], found: set[str]) -> None:
    """Count one comparison of names."""
    missing = sorted(wanted - found)
    step.count(title, passed=not missing, output=f"expected {missing}, found only {sorted(found)}")


if __name__ == "__main__":
    sys.exit(main())
