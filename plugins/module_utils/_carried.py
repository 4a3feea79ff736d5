# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Import the libraries that travelled with the task (private to the collection).

The controller sends pure-Python libraries as one base64 zip archive (see plugin_utils/_carry.py). They are
imported straight from memory: nothing is written on the host, so nothing can be left there, also when
the task is killed or the disk is full.
"""

from __future__ import annotations

import base64
import binascii
import importlib.abc
import importlib.machinery
import importlib.util
import io
import sys
import zipfile
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import Dict, Iterator, Optional, Sequence

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError


class _MemoryImporter(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads the modules of one archive, by their path in it."""

    def __init__(self, sources: Dict[str, bytes]) -> None:
        self._sources = sources
        self._top_level = {name.partition("/")[0].partition(".py")[0] for name in sources}

    def _locate(self, fullname: str) -> tuple[str, bool]:
        path = fullname.replace(".", "/")
        if path + "/__init__.py" in self._sources:
            return path + "/__init__.py", True
        if path + ".py" in self._sources:
            return path + ".py", False
        raise ImportError("no module named %s among the carried libraries" % fullname, name=fullname)

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        if fullname.partition(".")[0] not in self._top_level:
            return None
        try:
            return importlib.util.spec_from_loader(fullname, self, is_package=self.is_package(fullname))
        except ImportError:
            return None

    def is_package(self, fullname: str) -> bool:
        return self._locate(fullname)[1]

    def get_source(self, fullname: str) -> str:
        return self._sources[self._locate(fullname)[0]].decode("utf-8")

    def get_code(self, fullname: str) -> CodeType:
        name = self._locate(fullname)[0]
        return compile(self._sources[name], "<carried>/" + name, "exec", dont_inherit=True)


def _read_archive(archive: str) -> Dict[str, bytes]:
    try:
        content = base64.b64decode(archive, validate=True)
        with zipfile.ZipFile(io.BytesIO(content)) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    except (binascii.Error, ValueError, zipfile.BadZipFile, KeyError) as error:
        raise BaselineError(
            "expected the carried libraries as a base64 zip archive, found something else (%s); "
            "call the module through its action plugin, which fills this option" % error
        ) from error


@contextmanager
def carried(archive: Optional[str]) -> Iterator[None]:
    """Make the libraries of ``archive`` importable; without one, those installed on the host are used."""
    if not archive:
        yield
        return
    importer = _MemoryImporter(_read_archive(archive))
    sys.meta_path.insert(0, importer)
    try:
        yield
    finally:
        sys.meta_path.remove(importer)
