"""Converted code objects on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

from tracegrad.driver.cache import Cache
from tracegrad.driver.code_store import CodeStore


def original(text: str = "def f(x):\n    return x in {'a', 'b'}\n", name: str = "model.py") -> CodeType:
    code = compile(text, name, "exec").co_consts[0]
    assert isinstance(code, CodeType)
    return code


CONVERTED = original("def f(x):\n    return x\n")


def test_a_code_object_is_found_again(cache: Cache) -> None:
    store = CodeStore(cache)
    assert store.load(original()) is None
    store.save(original(), CONVERTED)
    again = CodeStore(Cache(cache.wanted.parent, 1 << 30)).load(original())
    assert again == CONVERTED and again is not None and list(again.co_positions()) == list(CONVERTED.co_positions())
    assert cache.entries() == [] and cache.verify() == []
    assert cache.clear() == 0 and store.load(original()) is None


@pytest.mark.parametrize(
    "changed",
    [
        original("def f(x):\n    return x in {'a', 'c'}\n"),
        original("\ndef f(x):\n    return x in {'a', 'b'}\n"),
        original("def f(x):\n    return  x in {'a', 'b'}\n"),
        original("def g(x):\n    return x in {'a', 'b'}\n"),
        original(name="other.py"),
    ],
    ids=["constant", "line", "column", "name", "file"],
)
def test_other_code_is_another(cache: Cache, changed: CodeType) -> None:
    store = CodeStore(cache)
    store.save(original(), CONVERTED)
    assert store.load(changed) is None


@pytest.mark.parametrize("damage", [b"", b"x" * 100])
def test_damage_is_a_miss(cache: Cache, damage: bytes) -> None:
    store = CodeStore(cache)
    store.save(original(), CONVERTED)
    (path,) = cache.directory.glob("*.code")
    path.write_bytes(path.read_bytes()[:-1] + b"?" if not damage else damage)
    assert store.load(original()) is None
    store.save(original(), CONVERTED)
    assert store.load(original()) == CONVERTED


def test_old_files_are_evicted(cache: Cache) -> None:
    store = CodeStore(cache)
    store.save(original(), CONVERTED)
    (path,) = cache.directory.glob("*.code")
    cache.size_bytes = 0
    cache._evict(keep="")
    assert not path.exists()


def test_a_place_that_cannot_be_written_is_no_error(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    CodeStore(cache).save(original(), CONVERTED)
    assert CodeStore(cache).load(original()) is None


def test_names_are_the_same_in_every_process(cache: Cache) -> None:
    program = (
        "from tests.driver.test_code_store import original; from tracegrad.driver.code_store import CodeStore; "
        "print(CodeStore._name(None, original('def f(x):\\n    return x + 1.5, \"text\", (1, 2)\\n')))"
    )
    root = str(Path(__file__).parents[2])
    names = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": root, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1
