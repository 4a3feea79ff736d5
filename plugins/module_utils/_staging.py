# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directory on the host in which a record is made (private to the collection).

The controller makes it as the login user, mode 0700. The module, which may be root, reaches it through one
descriptor and follows no link in it. Everything but the finished archive is written to files that
have no name, so that a killed module leaves nothing of them behind.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
from typing import BinaryIO, Optional

from ansible_collections.gpufleet.baseline.plugins.module_utils._errors import BaselineError

ARCHIVE_NAME = "record.tar.gz"
# Members up to this size stay in memory; most of a record's members are far smaller.
SPOOL_BYTES = 256 * 1024
# Less than this and nothing is begun: facts, manifest and archive alone need about half of it.
LEAST_FREE_BYTES = 16 * 1024 * 1024

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Staging:
    """The staging directory, by descriptor; a context manager that closes it."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise BaselineError(
                "expected the staging directory %s to be open to this user, found: %s; "
                "run with become to root, or without become" % (path, error.strerror)
            ) from error
        info = os.fstat(self._descriptor)
        if stat.S_IMODE(info.st_mode) & 0o077:
            os.close(self._descriptor)
            raise BaselineError(
                "expected the staging directory %s with mode 0700, found %04o; remove it and run again"
                % (path, stat.S_IMODE(info.st_mode))
            )
        self._owner = (info.st_uid, info.st_gid)

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_unused: object) -> None:
        os.close(self._descriptor)

    def free_bytes(self) -> int:
        """Bytes that this user may still write here."""
        state = os.fstatvfs(self._descriptor)
        return state.f_bavail * state.f_frsize

    def require_space(self) -> int:
        """The free bytes; an error when they are too few to begin."""
        free = self.free_bytes()
        if free < LEAST_FREE_BYTES:
            raise BaselineError(
                "expected at least %d MiB free in %s, found %d MiB; nothing was written; free some space or choose "
                "another place with freeze_staging_places" % (LEAST_FREE_BYTES >> 20, self.path, free >> 20)
            )
        return free

    def create(self, name: str) -> BinaryIO:
        """A new file with a name, mode 0600; fails when the name is taken."""
        return os.fdopen(os.open(name, _FLAGS, 0o600, dir_fd=self._descriptor), "w+b")

    def create_nameless(self) -> BinaryIO:
        """A new file whose name is already gone again."""
        name = ".part-" + secrets.token_hex(8)
        opened = self.create(name)
        os.unlink(name, dir_fd=self._descriptor)
        return opened

    def spool(self) -> Spool:
        """A place for one member's content."""
        return Spool(self)

    def publish(self, opened: BinaryIO, part: str, name: str) -> str:
        """Give a finished file to the directory's owner under its final name; why that failed, or nothing."""
        opened.flush()
        os.fsync(opened.fileno())
        refusal = ""
        if os.fstat(opened.fileno()).st_uid != self._owner[0]:
            try:
                os.fchown(opened.fileno(), *self._owner)
            except OSError as error:
                refusal = (
                    "expected to give the record to uid %d, the owner of %s, found: %s; run with become to root, "
                    "or without become" % (self._owner[0], self.path, error.strerror)
                )
        os.rename(part, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        return refusal

    def remove(self) -> None:
        """Remove the directory with everything in it; for when the controller is gone and cannot do it."""
        for name in os.listdir(self._descriptor):
            self.discard(name)
        os.rmdir(self.path)

    def discard(self, name: str) -> None:
        """Remove a file of ours if it is there."""
        try:
            os.unlink(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return


class Spool:
    """Bytes of one member: in memory while few, in a nameless file of the staging directory when many."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._memory: Optional[io.BytesIO] = io.BytesIO()
        self._file: Optional[BinaryIO] = None

    def write(self, block: bytes) -> int:
        """Append a block."""
        if self._memory is not None and self._memory.tell() + len(block) <= SPOOL_BYTES:
            return self._memory.write(block)
        return self.file().write(block)

    def file(self) -> BinaryIO:
        """The content as a real file, positioned at its end; from now on nothing of it stays in memory."""
        if self._file is None:
            self._file = self._staging.create_nameless()
            if self._memory is not None:
                self._file.write(self._memory.getvalue())
                self._memory = None
        return self._file

    def open(self) -> BinaryIO:
        """The content from its beginning."""
        opened: BinaryIO = self._memory if self._memory is not None else self.file()
        opened.flush()
        opened.seek(0)
        return opened

    def close(self) -> None:
        """Give the space back."""
        if self._file is not None:
            self._file.close()
        self._memory = None
