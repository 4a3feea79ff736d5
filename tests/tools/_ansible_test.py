# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-test with no server but the Python package index.

ansible-test wants a real path that ends in ansible_collections/gpufleet/baseline, and a git repository of its
own there: in a git-ignored folder of another one it sees no files, skips every test and still exits with 0.
So the working tree, uncommitted files included, is copied to .cache and made a repository there.

Its virtual environments get pip from a script on a project's web server, unless that script lies in its cache
already (ansible_test/_util/target/setup/requirements.py). A few lines that run pip's own wheel do the same.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from _step import BIN, CACHE, ROOT, environment
from ansible_test._internal.python_requirements import get_venv_packages

HOME = CACHE / "ansible-test" / "home"
TREE = CACHE / "ansible-test" / "ansible_collections" / "gpufleet" / "baseline"
PYTHON = "{}.{}".format(*sys.version_info)

BOOTSTRAP = HOME / ".ansible" / "test" / "cache"
BOOTSTRAP_SCRIPT = """\
import runpy, sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).with_name({wheel!r})))
sys.argv[1:] = ["install"] + [a for a in sys.argv[1:] if a not in ("--no-setuptools", "--no-wheel")]
runpy.run_module("pip", run_name="__main__")
"""


def prepare(left_out: tuple[str, ...] = ()) -> None:
    """Copy the working tree, but for what lies below some folders, and provide pip."""
    _wait_for_others()
    _copy_tree(left_out)
    _provide_pip()


def command(*arguments: str) -> list[str]:
    """The command line of ansible-test in our own environment."""
    return [str(BIN / "ansible-test"), *arguments, "--color", "no"]


def home_environment(path_first: Path | None = None) -> dict[str, str]:
    """A HOME inside the checkout, so that nothing is kept elsewhere; pip keeps the user's configuration."""
    changes = {"HOME": str(HOME)}
    pip_configuration = Path.home() / ".config" / "pip" / "pip.conf"
    if pip_configuration.exists():
        changes["PIP_CONFIG_FILE"] = str(pip_configuration)
    found = environment(**changes)
    if path_first:
        found["PATH"] = f"{path_first}{os.pathsep}{found['PATH']}"
    return found


def _wait_for_others() -> None:
    """One step at a time uses the copy: it is ours until this program ends."""
    HOME.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(HOME.parent / "lock", os.O_WRONLY | os.O_CREAT, 0o600)  # closed when we end
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print("  waiting: another run uses the copy of the tree in .cache/ansible-test", flush=True)
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _copy_tree(left_out: tuple[str, ...]) -> None:
    shutil.rmtree(TREE, ignore_errors=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, TREE / name
        present = source.is_symlink() or source.exists()  # a file may be deleted and not yet staged
        if present and not name.startswith(left_out):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    for git in (["git", "init", "-q", "."], ["git", "add", "-A"]):
        subprocess.run(git, cwd=TREE, check=True)
    # Tests find the material beside the checkout from the copy too.
    beside = TREE.parent / "shared"
    beside.unlink(missing_ok=True)
    if (ROOT.parent / "shared").is_dir():
        beside.symlink_to(ROOT.parent / "shared")


def _provide_pip() -> None:
    version = get_venv_packages(SimpleNamespace(version=PYTHON))["pip"]
    wheel = f"pip-{version}-py3-none-any.whl"
    BOOTSTRAP.mkdir(parents=True, exist_ok=True)
    if not (BOOTSTRAP / wheel).exists():
        download = [sys.executable, "-m", "pip", "download", "-qq", f"pip=={version}", "--no-deps"]
        subprocess.run([*download, "-d", str(BOOTSTRAP)], check=True, stdin=subprocess.DEVNULL)
    (BOOTSTRAP / f"get_pip_{version.replace('.', '_')}.py").write_text(BOOTSTRAP_SCRIPT.format(wheel=wheel))
