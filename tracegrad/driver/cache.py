"""The compile cache: entries on disk, named by their content, shared by processes and safe against each other.

Reads a Key; gives an Entry, a directory with the files of one compilation. Previous: key.py; next: toolchain.py.

An entry directory is `<cache>/v1/<digest>` and holds, beside the files of the compilation, `input.txt` (the text of the
key), `manifest.json` (the key's parts, metadata, and size and sha256 of each file) and `checksum` (of the manifest).
Beside the entries stand single files, with checksums inside (toolchain.py, code_store.py).
An entry is written under a temporary name beside its place and renamed; the loser of a race drops its copy. Only
directories that belong to the user, and that nobody else may write, are read, because their files are loaded as code.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import logging
import os
import shutil
import stat
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from tracegrad.config import Options
from tracegrad.driver.key import Key
from tracegrad.frames import user_level

logger = logging.getLogger("tracegrad.cache")

FORMAT = 1
MANIFEST, CHECKSUM, INPUT = "manifest.json", "checksum", "input.txt"
_TEMPORARY, _QUARANTINED = "tmp-", "bad-"
_LEFT_OVER_S = 3600.0  # a temporary directory this old belongs to a process that died
_DIGEST_LENGTH = 64
_EXCESS = 1 / 64  # part by which the bound on the size may be exceeded for a while


class CacheWarning(RuntimeWarning):
    """The compile cache cannot be used as asked; compiled functions still work."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One compilation on disk.

    Attributes:
        path: its directory.
        manifest: what manifest.json says.
    """

    path: Path
    manifest: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def digest(self) -> str:
        return self.path.name

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the maker of the entry wanted to find again."""
        metadata: Mapping[str, Any] = self.manifest["metadata"]
        return metadata

    @property
    def size_bytes(self) -> int:
        return sum(int(f["size"]) for f in self.manifest["files"].values())

    def file(self, name: str) -> Path:
        """Return the path of one of its files."""
        return self.path / name


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of checking one entry; `problem` is "" for a good one."""

    digest: str
    name: str
    problem: str


class BadEntry(Exception):
    """An entry is incomplete or altered."""


class Cache:
    """A compile cache in a directory, or in a private temporary directory where that cannot be used.

    Args:
        directory: where; created with its parents when missing.
        size_bytes: bound on the total size; the entries used least recently go first.
    """

    def __init__(self, directory: Path, size_bytes: int) -> None:
        self.wanted, self.size_bytes = directory / f"v{FORMAT}", size_bytes
        self._directory: Path | None = None
        self._private = False  # new entries go to this process's temporary directory

    @property
    def directory(self) -> Path:
        """The directory that entries are read from, created and checked."""
        if self._directory is None:
            try:
                self._directory = _prepare(self.wanted)
            except OSError as error:
                self._directory = _private_directory()
                self._fall_back(str(error))
        return self._directory

    def lookup(self, key: Key) -> Entry | None:
        """Return the entry of a key, or None. A bad entry is put aside with a warning."""
        entry = self._lookup(self.directory / key.digest)
        if entry is None and self._private:
            entry = self._lookup(_private_directory() / key.digest)
        return entry

    def _lookup(self, path: Path) -> Entry | None:
        try:
            entry = _read_entry(path)
        except FileNotFoundError:
            return None
        except (BadEntry, OSError) as error:
            self.quarantine(path, str(error))
            return None
        try:
            os.utime(path)  # time of last use, for eviction
        except OSError:
            logger.debug("cannot mark the use of %s", path)
        return entry

    def store(self, key: Key, fill: Callable[[Path], None], metadata: Mapping[str, Any]) -> Entry:
        """Make an entry and return it; when another process was faster, return that one's.

        Args:
            fill: writes the files of the compilation into the directory that it is given. Called again with another
                directory when the first has no space or cannot be written.
        """
        try:
            return self._store(key, fill, metadata)
        except OSError as error:
            if self._private:
                raise
            self._fall_back(str(error))
        return self._store(key, fill, metadata)

    def _store(self, key: Key, fill: Callable[[Path], None], metadata: Mapping[str, Any]) -> Entry:
        directory = self._writable()
        final = directory / key.digest
        staging = directory / f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        staging.mkdir(mode=0o700)
        try:
            fill(staging)
            _finish(staging, key, metadata)
            try:
                staging.rename(final)
            except OSError:
                if not final.is_dir():
                    raise
                logger.debug("another process made %s first", key.digest)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        try:
            entry = _read_entry(final)
        except (BadEntry, FileNotFoundError) as error:  # the winner's copy is bad, or was evicted at once
            self.quarantine(final, str(error))
            raise OSError(f"the entry just made cannot be read: {error}") from error
        if self._is_time_to_evict(entry):
            self._evict(keep=key.digest)
        return entry

    def _writable(self) -> Path:
        """Return where new entries go; a directory that was deleted meanwhile is made again."""
        if self._directory is not None and not self._directory.is_dir():
            self._directory = None
        return _private_directory() if self._private else self.directory

    def _is_time_to_evict(self, entry: Entry) -> bool:
        """Return whether an entry is one after which the sizes of all are looked at, which takes long for many.

        The digest decides, so that processes need not know of each other: on average as many bytes pass between two
        looks as the bound may be exceeded by.
        """
        return int(entry.digest[:8], 16) / 2**32 * self.size_bytes * _EXCESS < _directory_size(entry.path)

    def write_file(self, name: str, data: bytes) -> None:
        """Write a small file of the cache's own, atomically; does nothing when that is impossible."""
        temporary = self._writable() / f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        try:
            temporary.write_bytes(data)
            temporary.replace(temporary.with_name(name))
        except OSError as error:
            logger.debug("cannot write %s: %s", name, error)
            temporary.unlink(missing_ok=True)

    def quarantine(self, path: Path, problem: str) -> None:
        """Put a bad entry aside, so that it is built again and can be looked at."""
        aside = path.with_name(f"{_QUARANTINED}{path.name}-{os.urandom(4).hex()}")
        try:
            path.rename(aside)
        except FileNotFoundError:
            return  # another process was faster
        except OSError as error:
            self._fall_back(f"{path.name} is damaged ({problem}) and cannot be put aside: {error}")
            return
        warnings.warn(
            f"a damaged entry of the compile cache was put aside and is built again: {problem} ({aside})",
            CacheWarning,
            stacklevel=user_level(),
        )

    def _fall_back(self, reason: str) -> None:
        self._private = True
        _warn_once(f"the compile cache {self.wanted} cannot be used, so nothing new is kept in it: {reason}")

    # ---- housekeeping and what the command line shows ---------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Return all good entries, last used first."""
        found = []
        for path in self._entry_paths():
            try:
                found.append((path.stat().st_mtime, _read_entry(path, check_files=False)))
            except (BadEntry, OSError):
                continue
        return [entry for _, entry in sorted(found, key=lambda pair: -pair[0])]

    def verify(self) -> list[Finding]:
        """Check every file of every entry; changes nothing."""
        findings = []
        for path in self._entry_paths():
            try:
                entry = _read_entry(path)
            except (BadEntry, OSError) as error:
                findings.append(Finding(path.name, "", str(error)))
            else:
                findings.append(Finding(path.name, entry.name, ""))
        return findings

    def clear(self) -> int:
        """Remove everything; return how many entries there were.

        Raises:
            OSError: something cannot be removed.
        """
        count, refused = len(self._entry_paths()), []
        for path in list(self.directory.iterdir()):
            try:
                _remove(path)
            except OSError as error:
                refused.append(error)
        if refused:
            raise refused[0]
        return count

    def _entry_paths(self) -> list[Path]:
        return sorted(p for p in self.directory.iterdir() if len(p.name) == _DIGEST_LENGTH)

    def _evict(self, keep: str) -> None:
        """Remove what dead processes left, and entries until the size bound is met."""
        kept: list[tuple[float, int, Path]] = []
        now = time.time()
        for path in list(self.directory.iterdir()):
            try:
                used, size = path.stat().st_mtime, _directory_size(path)
            except OSError:
                continue  # gone meanwhile
            if path.name.startswith(_TEMPORARY):
                if now - used > _LEFT_OVER_S:
                    _try_to_remove(path)
            elif path.name.startswith(_QUARANTINED):
                kept.append((0.0, size, path))
            elif len(path.stem) == _DIGEST_LENGTH and path.name != keep:
                kept.append((used, size, path))
        total = sum(size for _, size, _ in kept)
        for _, size, path in sorted(kept):
            if total <= self.size_bytes:
                break
            logger.debug("evict %s", path.name)
            _try_to_remove(path)
            total -= size


_caches: dict[tuple[Path, int], Cache] = {}


def open_cache(options: Options) -> Cache:
    """Return the process's Cache for the options."""
    directory = options.cache_dir
    if directory is None:
        directory = platformdirs.user_cache_path("tracegrad", appauthor=False)
    return _caches.setdefault((directory, options.cache_size_bytes), Cache(directory, options.cache_size_bytes))


# ---- reading and writing an entry -----------------------------------------------------------------------------------


def _finish(staging: Path, key: Key, metadata: Mapping[str, Any]) -> None:
    """Add the text of the key, the manifest and the checksum.

    Nothing waits for the disk: the checksum tells an entry that a power failure has cut off.
    """
    (staging / INPUT).write_text(key.text, encoding="utf-8", newline="")
    files = {}
    for path in sorted(staging.iterdir()):
        data = path.read_bytes()
        files[path.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    manifest = {
        "format": FORMAT,
        "name": key.name,
        "digest": key.digest,
        "parts": dict(key.parts),
        "files": files,
        "metadata": dict(metadata),
        "created": time.time(),
    }
    data = json.dumps(manifest, indent=1).encode()
    (staging / MANIFEST).write_bytes(data)
    (staging / CHECKSUM).write_text(hashlib.sha256(data).hexdigest())


def _read_entry(path: Path, *, check_files: bool = True) -> Entry:
    """Read and check an entry.

    Raises:
        FileNotFoundError: there is no such directory.
        BadEntry: a file is missing or altered.
    """
    directory = str(path)
    try:
        data = _read(f"{directory}/{MANIFEST}")
        checksum = _read(f"{directory}/{CHECKSUM}").decode("ascii", "replace").strip()
    except FileNotFoundError as error:
        if not path.is_dir():
            raise
        raise BadEntry(f"{os.path.basename(str(error.filename))} is missing") from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise BadEntry(f"{MANIFEST} does not match {CHECKSUM}")
    manifest = json.loads(data)
    if manifest["format"] != FORMAT or manifest["digest"] != path.name:
        raise BadEntry(f"{MANIFEST} belongs to another entry")
    for name, expected in manifest["files"].items() if check_files else ():
        try:
            content = _read(f"{directory}/{name}")
        except FileNotFoundError as error:
            raise BadEntry(f"{name} is missing") from error
        if len(content) != expected["size"]:
            raise BadEntry(f"{name} has {len(content)} bytes, not {expected['size']}")
        if hashlib.sha256(content).hexdigest() != expected["sha256"]:
            raise BadEntry(f"{name} does not match its checksum")
    return Entry(path, manifest)


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _directory_size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    with os.scandir(path) as found:
        return sum(item.stat(follow_symlinks=False).st_size for item in found)


def _remove(path: Path) -> None:
    """Remove a directory so that no other process sees half of it."""
    if path.is_dir() and not path.name.startswith(_TEMPORARY):
        path = path.rename(path.with_name(f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"))
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _try_to_remove(path: Path) -> None:
    try:
        _remove(path)
    except OSError as error:
        logger.debug("cannot remove %s: %s", path, error)


# ---- where the cache may be -----------------------------------------------------------------------------------------


def _prepare(directory: Path) -> Path:
    """Create a directory and check that only this user can write it.

    Raises:
        OSError: it cannot be made, written or trusted.
    """
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.stat()
    if hasattr(os, "geteuid"):
        if status.st_uid != os.geteuid():
            raise PermissionError(f"it belongs to another user (uid {status.st_uid}, not {os.geteuid()})")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"other users may write it (mode {stat.S_IMODE(status.st_mode):04o}, not 0700)")
        above = directory.parent.stat()
        if above.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not above.st_mode & stat.S_ISVTX:
            raise PermissionError(f"other users may replace it (mode {stat.S_IMODE(above.st_mode):04o} of its parent)")
        if status.st_mode & 0o077:
            directory.chmod(0o700)
    return directory


_private: dict[int, Path] = {}


def _private_directory() -> Path:
    """Return this process's temporary directory, made at first use and removed at exit."""
    process = os.getpid()  # a forked child must not remove its parent's
    if process not in _private:
        _private[process] = Path(tempfile.mkdtemp(prefix="tracegrad-"))
        atexit.register(_drop_private, process)
    return _private[process]


def _drop_private(process: int) -> None:
    if process == os.getpid() and process in _private:
        shutil.rmtree(_private.pop(process), ignore_errors=True)


_warned: set[str] = set()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, CacheWarning, stacklevel=user_level())
