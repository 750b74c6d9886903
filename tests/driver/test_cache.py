"""The compile cache: hits and misses, damage, rights, room, races."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracegrad.driver import cache as cache_module
from tracegrad.driver.cache import Cache, CacheWarning, Entry
from tracegrad.driver.explain import why
from tracegrad.driver.key import Key, build_key, normalize_ir

KEY = build_key("loss", "func @loss", {"flags": "-O3"})


def fill(directory: Path) -> None:
    (directory / "source.c").write_text("int loss;")
    (directory / "module.so").write_bytes(bytes(range(256)))


def store(cache: Cache, key: Key = KEY) -> Entry:
    return cache.store(key, fill, {"paths": ["x"]})


@pytest.fixture(autouse=True)
def forget_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Each test sees its first warning, and the fall-back directory is its own."""
    monkeypatch.setattr(cache_module, "_warned", set())
    monkeypatch.setattr(cache_module, "_private", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield


# ---- keys -----------------------------------------------------------------------------------------------------------


def test_the_digest_depends_on_text_and_every_part() -> None:
    same = build_key("other name", "func @loss", {"flags": "-O3"})
    assert same.digest == KEY.digest
    others = [
        build_key("loss", "func @loss2", {"flags": "-O3"}),
        build_key("loss", "func @loss", {"flags": "-O2"}),
        build_key("loss", "func @loss", {}),
        build_key("loss", "func @loss", {"flags": "-O3", "cpu": ""}),
        build_key("loss", "func @los", {"flags": "s-O3"}),
    ]
    assert len({k.digest for k in [KEY, *others]}) == 6


def test_normalized_ir_has_no_positions_but_all_else() -> None:
    text = 'func @f() {\n  %z: f64[] = exp %x  // /a b/model.py:12:9\n\n  check %c {message="see http://x.org"}\n}\n'
    assert normalize_ir(text) == 'func @f() {\n  %z: f64[] = exp %x\n  check %c {message="see http://x.org"}\n}'
    assert normalize_ir('check %c {message="a // b.py:1:2"}') == 'check %c {message="a // b.py:1:2"}'


# ---- hits and misses ------------------------------------------------------------------------------------------------


def test_an_entry_is_found_again(cache: Cache) -> None:
    assert cache.lookup(KEY) is None
    made = store(cache)
    found = Cache(cache.wanted.parent, 1 << 30).lookup(KEY)
    assert found is not None and found.path == made.path and found.metadata == {"paths": ["x"]} and found.name == "loss"
    assert found.file("source.c").read_text() == "int loss;"
    assert found.file("input.txt").read_text() == "func @loss"
    assert [e.digest for e in cache.entries()] == [KEY.digest]
    assert cache.lookup(build_key("loss", "func @loss2", {})) is None
    assert sorted(p.name for p in cache.directory.iterdir()) == [KEY.digest], "no temporary files stay"


def test_the_directory_is_private(cache: Cache) -> None:
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    assert store(cache).path.stat().st_mode & 0o777 == 0o700


def test_the_loser_of_a_race_takes_the_winners_entry(cache: Cache) -> None:
    def fill_late(directory: Path) -> None:
        store(cache)  # the other process
        (directory / "source.c").write_text("int late;")

    entry = cache.store(KEY, fill_late, {})
    assert entry.file("source.c").read_text() == "int loss;"
    assert [p.name for p in cache.directory.iterdir()] == [KEY.digest]


def test_a_failed_compilation_leaves_nothing(cache: Cache) -> None:
    def fail(directory: Path) -> None:
        (directory / "source.c").write_text("x")
        raise RuntimeError("compiler")

    with pytest.raises(RuntimeError, match="compiler"):
        cache.store(KEY, fail, {})
    assert list(cache.directory.iterdir()) == []


# ---- damage ---------------------------------------------------------------------------------------------------------

FILES = ["source.c", "module.so", "input.txt", "manifest.json", "checksum"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "truncated", "altered", "empty", "longer"])
def test_a_damaged_entry_is_put_aside_with_one_warning(cache: Cache, name: str, damage: str) -> None:
    path = store(cache).file(name)
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(
            {"truncated": data[:-1], "empty": b"", "longer": data + b"x", "altered": bytes([data[0] ^ 1]) + data[1:]}[
                damage
            ]
        )
    assert [f.problem != "" for f in cache.verify()] == [True]
    with pytest.warns(CacheWarning, match="damaged") as warned:
        assert cache.lookup(KEY) is None
    assert len(warned) == 1
    assert cache.lookup(KEY) is None, "without a second warning"
    store(cache)
    assert cache.lookup(KEY) is not None
    assert [f.problem for f in cache.verify()] == [""]
    assert len([p for p in cache.directory.iterdir() if p.name.startswith("bad-")]) == 1


def test_an_entry_under_a_wrong_name_is_damaged(cache: Cache) -> None:
    entry = store(cache)
    other = build_key("loss", "another", {})
    entry.path.rename(entry.path.with_name(other.digest))
    with pytest.warns(CacheWarning, match="another entry"):
        assert cache.lookup(other) is None


def test_a_file_in_place_of_an_entry_is_put_aside(cache: Cache) -> None:
    (cache.directory / KEY.digest).write_text("not a directory")
    with pytest.warns(CacheWarning, match="damaged"):
        assert cache.lookup(KEY) is None
    store(cache)
    assert cache.lookup(KEY) is not None


# ---- rights and room ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_directory_that_others_may_write_is_not_used(cache: Cache, mode: int) -> None:
    store(cache)
    cache.directory.chmod(mode)
    again = Cache(cache.wanted.parent, 1 << 30)
    with pytest.warns(CacheWarning, match="other users may write it") as warned:
        assert again.lookup(KEY) is None
    assert len(warned) == 1
    assert store(again).path.parent != cache.directory
    assert again.lookup(KEY) is not None


def test_a_directory_that_others_may_only_read_is_made_private(cache: Cache) -> None:
    store(cache)
    cache.directory.chmod(0o755)
    assert Cache(cache.wanted.parent, 1 << 30).lookup(KEY) is not None
    assert cache.directory.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_may_replace_is_not_used(cache: Cache) -> None:
    store(cache)
    cache.directory.parent.chmod(0o777)
    with pytest.warns(CacheWarning, match="other users may replace it"):
        assert Cache(cache.wanted.parent, 1 << 30).lookup(KEY) is None
    cache.directory.parent.chmod(0o1777)
    assert Cache(cache.wanted.parent, 1 << 30).lookup(KEY) is not None


def test_a_directory_of_another_user_is_not_used(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    store(cache)
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert Cache(cache.wanted.parent, 1 << 30).lookup(KEY) is None


def test_a_place_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache", 1 << 30)
    with pytest.warns(CacheWarning, match="cannot be used") as warned:
        store(cache)
        assert cache.lookup(KEY) is not None
        store(cache, build_key("other", "text", {}))
    assert len(warned) == 1


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_without_room_or_rights_new_entries_go_to_a_private_directory(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    old = build_key("old", "old", {})
    store(cache, old)
    make = Path.mkdir
    wanted = cache.directory

    def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        if path.parent == wanted:
            raise OSError(code, os.strerror(code))
        make(path, mode, parents, exist_ok)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    with pytest.warns(CacheWarning, match="cannot be used") as warned:
        entry = store(cache)
    assert len(warned) == 1 and entry.path.parent != wanted
    assert entry.path.parent.stat().st_mode & 0o777 == 0o700
    assert cache.lookup(KEY) is not None and cache.lookup(old) is not None, "what was there is still read"
    store(cache, build_key("new", "new", {}))


def test_a_disk_that_fills_while_compiling(cache: Cache) -> None:
    places = []

    def fill_disk(directory: Path) -> None:
        places.append(directory.parent)
        if len(places) == 1:
            (directory / "source.c").write_text("half")
            raise OSError(errno.ENOSPC, "No space left on device")
        fill(directory)

    with pytest.warns(CacheWarning, match="No space left"):
        entry = cache.store(KEY, fill_disk, {})
    assert places[0] == cache.wanted and places[1] == entry.path.parent != places[0]
    assert list(cache.wanted.iterdir()) == []


# ---- size -----------------------------------------------------------------------------------------------------------


def test_entries_used_least_recently_are_evicted(cache: Cache) -> None:
    keys = [build_key("loss", f"text {i}", {}) for i in range(6)]
    size = sum(p.stat().st_size for p in store(cache, keys[0]).path.iterdir())
    cache.size_bytes = int(3.5 * size)
    for age, key in enumerate(keys[1:4]):
        store(cache, key)
        os.utime(cache.directory / key.digest, (0, 1000 + age))
    os.utime(cache.directory / keys[0].digest, (0, 999))
    assert cache.lookup(keys[0]) is not None, "which makes it the one used last"
    store(cache, keys[4])
    assert cache.lookup(keys[0]) is not None and cache.lookup(keys[4]) is not None
    assert cache.lookup(keys[1]) is None
    assert sum(sum(f.stat().st_size for f in p.iterdir()) for p in cache.directory.iterdir()) <= 4.5 * size


def test_the_sizes_of_all_entries_are_looked_at_seldom(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    evict = cache._evict
    monkeypatch.setattr(cache, "_evict", lambda keep: (looks.append(keep), evict(keep)))
    keys = [build_key("loss", f"text {i}", {}) for i in range(300)]
    size = sum(p.stat().st_size for p in store(cache, keys[0]).path.iterdir())
    cache.size_bytes = 64 * 10 * size  # a look after every ten entries or so
    for key in keys:
        store(cache, key)
    assert 15 <= len(looks) <= 60
    cache.size_bytes //= 10
    for number in range(20):
        store(cache, build_key("loss", f"other {number}", {}))
        assert len(cache.entries()) <= 64


def test_leftovers_of_dead_processes_are_removed(cache: Cache) -> None:
    cache.size_bytes = 10_000
    for name, age in (("tmp-1-old", 7200.0), ("tmp-2-new", 0.0)):
        (cache.directory / name).mkdir()
        os.utime(cache.directory / name, (0, time.time() - age))
    store(cache)
    assert {p.name for p in cache.directory.iterdir()} == {KEY.digest, "tmp-2-new"}


def test_clear_removes_everything(cache: Cache) -> None:
    store(cache)
    store(cache, build_key("other", "text", {}))
    cache.write_file("toolchain.json", b"{}")
    assert cache.clear() == 2
    assert list(cache.directory.iterdir()) == []
    assert cache.entries() == []


def test_clear_says_what_cannot_be_removed(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = store(cache)
    store(cache, build_key("other", "text", {}))

    def rename(path: Path, target: Path) -> Path:
        if path == entry.path:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return path.replace(target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(PermissionError) as raised:
        cache.clear()
    assert raised.value.filename == str(entry.path)
    assert [left.digest for left in cache.entries()] == [KEY.digest]


def test_a_directory_deleted_meanwhile_is_made_again(cache: Cache) -> None:
    store(cache)
    shutil.rmtree(cache.directory.parent)
    assert cache.lookup(KEY) is None
    assert store(cache).path.parent == cache.directory
    shutil.rmtree(cache.directory.parent)
    cache.write_file("toolchain.json", b"{}")
    assert (cache.directory / "toolchain.json").exists()


def test_warnings_name_the_users_line(cache: Cache) -> None:
    (store(cache).path / "source.c").write_text("int loss")
    with pytest.warns(CacheWarning) as warned:
        cache.lookup(KEY)
    assert [w.filename for w in warned] == [__file__]


# ---- why ------------------------------------------------------------------------------------------------------------


def test_why_says_what_differs_from_the_nearest_entry(cache: Cache) -> None:
    store(cache, build_key("loss", "func @loss\n  a\n  b", {"flags": "-O3", "cpu": "x"}))
    far = build_key("loss", "func @loss\n  z", {"flags": "-O1", "cpu": "y"})
    store(cache, far)
    near = build_key("loss", "func @loss\n  a\n  c", {"flags": "-O3", "cpu": "x"})
    store(cache, near)
    text = why(cache, near.digest[:12])
    assert "flags: -O3" in text and "tracegrad: " in text
    assert "    -  b\n    +  c" in text and "-O1" not in text
    assert "flags: -O1  (there: -O3)" in why(cache, far.digest)
    assert why(cache, "loss").count("differs from") == 3
    assert why(cache, "nothing").startswith("no entry for nothing")


# ---- many processes -------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from tests.driver.kernels import TWICE
from tests.driver.test_launch import twice_spec
from tracegrad.config import load_options
from tracegrad.driver.cache import open_cache
from tracegrad.driver.launch import build_executable
from tracegrad.driver.load_c import compile_c

options = load_options()
cache = open_cache(options)
library = compile_c(TWICE + sys.argv[1], "twice", cache=cache, options=options)
twice = build_executable(twice_spec(), library, cache=cache, options=options)
assert list(twice(np.arange(3.0))) == [0, 2, 4]
print(library.entry.path.name)
"""


def run_processes(directory: Path, count: int, **environment: str) -> list[str]:
    """Run PROGRAM in several processes at once; return what each prints."""
    root = Path(__file__).parents[2]
    variables = {**os.environ, "TRACEGRAD_CACHE_DIR": str(directory), "PYTHONPATH": str(root), **environment}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", textwrap.dedent(PROGRAM), f"/* {i % 2} */"],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(count)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), outputs
    return [out for out, _ in outputs]


def test_many_processes_compile_the_same_at_once(tmp_path: Path) -> None:
    first = run_processes(tmp_path / "shared", 8)
    assert len(set(first)) == 2
    cache = Cache(tmp_path / "shared", 1 << 30)
    assert [f.problem for f in cache.verify()] == [""] * 3, "two kernels and the launcher"
    assert [p.name for p in cache.directory.iterdir() if p.name.startswith("tmp-")] == []


def test_entries_stay_valid_json_for_other_tools(cache: Cache) -> None:
    manifest = json.loads(store(cache).file("manifest.json").read_text())
    assert manifest["parts"]["flags"] == "-O3" and set(manifest["files"]) == {"source.c", "module.so", "input.txt"}
