# Copyright (c) 2026, the gpufleet.baseline authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a Bolt database from its bytes (private to the collection; pure).

containerd keeps in one which snapshot lies in which directory, and no read-only question to the Docker
Engine tells it. Format: https://github.com/etcd-io/bbolt, db.go, internal/common/page.go and bucket.go, in
the byte order of the machine, which is little-endian on both that GPU hosts have. The owner may write while
we read: it never overwrites a page of the last transaction, and a checksum says which of two heads is whole.
"""

from __future__ import annotations

import struct
from typing import Iterator, List, Optional, Tuple

_PAGE = struct.Struct("<QHHI")  # id, flags, count, overflow
_META = struct.Struct(
    "<IIIIQQQQQQ"
)  # magic, version, page size, flags, root, sequence, freelist, pages, txid, sum
_LEAF = struct.Struct("<IIII")  # flags, position, key size, value size
_BRANCH = struct.Struct("<IIQ")  # position, key size, page
_BUCKET = struct.Struct("<QQ")  # root page, sequence
_MAGIC, _VERSION = 0xED0CDAED, 2
_IS_BRANCH, _IS_LEAF, _IS_BUCKET = 1, 2, 1


class BoltError(Exception):
    """The bytes are no whole Bolt database."""


class Bucket:
    """A bucket: keys with values, some of which are buckets themselves."""

    def __init__(self, content: bytes, page_size: int, root: int, inline: bytes = b"") -> None:
        self._content = content
        self._page_size = page_size
        self._root = root
        self._inline = inline

    def items(self) -> Iterator[Tuple[bytes, bytes, bool]]:
        """(key, value, whether it is a bucket), in the order of keys."""
        # Every page belongs to one place of the tree, so more visits than pages are a circle.
        left = [len(self._content) // self._page_size + 1]
        yield from self._walk(self._inline if not self._root else self._page(self._root), left)

    def get(self, key: bytes) -> Optional[bytes]:
        """A plain value."""
        return next((value for name, value, bucket in self.items() if name == key and not bucket), None)

    def bucket(self, key: bytes) -> Optional[Bucket]:
        """A bucket in this one."""
        for name, value, is_bucket in self.items():
            if name == key and is_bucket:
                return self.opened(value)
        return None

    def opened(self, value: bytes) -> Bucket:
        """The bucket that a value of this one stands for; a small one lies in the value itself."""
        root, _sequence = _unpack(_BUCKET, value, 0)
        return Bucket(self._content, self._page_size, root, value[_BUCKET.size :])

    def _page(self, number: int) -> bytes:
        start = number * self._page_size
        _identifier, _flags, _count, overflow = _unpack(_PAGE, self._content, start)
        return self._content[start : start + (overflow + 1) * self._page_size]

    def _walk(self, page: bytes, left: List[int]) -> Iterator[Tuple[bytes, bytes, bool]]:
        left[0] -= 1
        if left[0] < 0:
            raise BoltError("pages go round in a circle")
        _identifier, flags, count, _overflow = _unpack(_PAGE, page, 0)
        for index in range(count):
            if flags & _IS_LEAF:
                start = _PAGE.size + index * _LEAF.size
                kind, position, key_size, value_size = _unpack(_LEAF, page, start)
                key_end = start + position + key_size
                if key_end + value_size > len(page):
                    raise BoltError("an element ends behind its page")
                value = page[key_end : key_end + value_size]
                yield page[start + position : key_end], value, bool(kind & _IS_BUCKET)
            elif flags & _IS_BRANCH:
                child = _unpack(_BRANCH, page, _PAGE.size + index * _BRANCH.size)[2]
                yield from self._walk(self._page(child), left)
            else:
                raise BoltError("a page is neither branch nor leaf")


def open_bolt(content: bytes) -> Bucket:
    """The root bucket as of the last transaction."""
    heads = []
    for start in _head_places(content):
        fields = _unpack(_META, content, start + _PAGE.size)
        body = content[start + _PAGE.size : start + _PAGE.size + _META.size - 8]
        if fields[0] == _MAGIC and fields[1] == _VERSION and fields[9] == _fnv64a(body):
            heads.append((fields[8], fields[2], fields[4]))
    if not heads:
        raise BoltError("neither head is whole")
    _transaction, page_size, root = max(heads)
    return Bucket(content, page_size, root)


def _head_places(content: bytes) -> Iterator[int]:
    """Both heads: the second lies one page behind the first, whose size field may be the broken one."""
    yield 0
    for page_size in (4096, 16384, 65536):
        if len(content) >= page_size * 2:
            yield page_size


def _fnv64a(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def _unpack(layout: struct.Struct, data: bytes, start: int) -> Tuple[int, ...]:
    if start + layout.size > len(data):
        raise BoltError("ends in the middle")
    return layout.unpack_from(data, start)
