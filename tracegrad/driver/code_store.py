"""Converted Python code kept between processes: conversion is most of what a warm start would take.

Reads and writes files of the compile cache for capture/convert.py, which works without.
Previous: explain.py; next: toolchain.py.

A file is named by a digest of the original code object (with its positions and file name), of tracegrad's own files
and of the version of Python, and holds a sha256 and the converted code object, marshalled.
"""

from __future__ import annotations

import hashlib
import logging
import marshal
import os
import sys
from types import CodeType

from tracegrad.driver.cache import Cache
from tracegrad.driver.key import build_key, package_fingerprint

logger = logging.getLogger("tracegrad.cache")

SUFFIX = ".code"
_CHECKSUM_LENGTH = 32
_WITHOUT_REFERENCES = 2  # version of marshal in which equal code gives equal bytes


class CodeStore:
    """Maps code objects to converted code objects, on disk."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache

    def load(self, code: CodeType) -> CodeType | None:
        """Return what was saved for this code object, by any process, or None."""
        path = self.cache.directory / self._name(code)
        try:
            data = path.read_bytes()
            os.utime(path)  # time of last use, for eviction
        except OSError:
            return None
        checksum, body = data[:_CHECKSUM_LENGTH], data[_CHECKSUM_LENGTH:]
        if hashlib.sha256(body).digest() != checksum:
            logger.info("%s is damaged and is written again", path)
            return None
        found = marshal.loads(body)
        return found if isinstance(found, CodeType) else None

    def save(self, code: CodeType, converted: CodeType) -> None:
        """Keep the converted form of a code object."""
        body = marshal.dumps(converted)
        self.cache.write_file(self._name(code), hashlib.sha256(body).digest() + body)

    def _name(self, code: CodeType) -> str:
        digest = hashlib.sha256(marshal.dumps(code, _WITHOUT_REFERENCES)).hexdigest()
        parts = {
            "kind": "converted",
            "generator": package_fingerprint(),
            "python": f"{sys.version} {sys.flags.optimize}",
        }
        return build_key(code.co_qualname, digest, parts).digest + SUFFIX
