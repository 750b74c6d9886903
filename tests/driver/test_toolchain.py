"""Finding and running the C compiler, and loading what it made."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
from dataclasses import replace
from functools import reduce
from pathlib import Path

import pytest

from tests.driver.kernels import TWICE
from tracegrad.config import Options
from tracegrad.driver import launch, load_c, toolchain
from tracegrad.driver.cache import Cache, CacheWarning
from tracegrad.driver.launch import load_launcher
from tracegrad.driver.load_c import compile_c, kernel_key, load_cached
from tracegrad.driver.toolchain import NoCompilerError, find_toolchain
from tracegrad.errors import CompileError


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process remembers is empty at the start of each test."""
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_found", {})
    monkeypatch.setattr(load_c, "_loaded", {})
    monkeypatch.setattr(launch, "_launchers", {})


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_compiles_and_loads(cache: Cache, options: Options) -> None:
    library = compile_c(TWICE, "twice", cache=cache, options=options, metadata={"n": 3})
    assert library.address("twice_entry") and library.address("twice_workspace") == 0
    assert library.source() == TWICE and library.metadata == {"n": 3}
    assert compile_c(TWICE, "twice", cache=cache, options=options) is library


@pytest.mark.parametrize(("lines", "level"), [(0, "-O3"), (1001, "-O2"), (2001, "-O1")])
def test_long_texts_take_a_lower_level(
    cache: Cache, options: Options, monkeypatch: pytest.MonkeyPatch, lines: int, level: str
) -> None:
    find_toolchain(options, cache)
    run, commands = toolchain._run, []

    def record(command: list[str]) -> object:
        commands.append(command)
        return run(command)

    monkeypatch.setattr(toolchain, "_run", record)
    compile_c(TWICE + "\n" * lines, "twice", cache=cache, options=options)
    (command,) = commands
    assert [part for part in command if part.startswith("-O")] == [level]


def test_a_new_process_runs_no_compiler(cache: Cache, options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_c(TWICE, "twice", cache=cache, options=options)
    forget(monkeypatch)

    def fail(command: object) -> None:
        raise AssertionError(f"started {command}")

    monkeypatch.setattr(toolchain, "_run", fail)
    key = kernel_key("twice", TWICE, find_toolchain(options, cache), options)
    found = load_cached(key, cache)
    assert found is not None and found.address("twice_entry")
    assert compile_c(TWICE, "twice", cache=cache, options=options) is found


def test_flags_keep_ieee_results(cache: Cache, options: Options) -> None:
    flags = find_toolchain(options, cache).flags
    assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations", "-ffinite-math-only"} & set(flags)
    text = """
    #include <stdint.h>
    double cancel(double x) { volatile double y = x; return x*y - y*x; }
    double sum(const double *x, int64_t n) { double s = 0; for (int64_t i = 0; i < n; i++) s += x[i]; return s; }
    """
    library = compile_c(text, "cancel", cache=cache, options=options).handle
    library.cancel.restype, library.cancel.argtypes = ctypes.c_double, [ctypes.c_double]
    assert all(library.cancel(v) == 0.0 for v in (0.1, 1 / 3, 1e100)), "a*b - b*a is zero without contraction"
    library.sum.restype = ctypes.c_double
    values = [1e16, 1.0, -1e16, 1.0, 1e16, 1.0, -1e16, 1.0]
    assert library.sum((ctypes.c_double * 8)(*values), ctypes.c_int64(8)) == reduce(float.__add__, values, 0.0)


def test_a_function_named_like_one_of_the_c_library(cache: Cache, options: Options) -> None:
    text = "double exp(double x) { return 7.0; }\ndouble caller(double x) { return exp(x); }"
    library = compile_c(text.replace("exp", "cosh"), "cosh", cache=cache, options=options).handle
    library.caller.restype, library.caller.argtypes = ctypes.c_double, [ctypes.c_double]
    assert library.caller(0.0) == 7.0


def test_errors_of_the_compiler_are_shown(cache: Cache, options: Options) -> None:
    with pytest.raises(CompileError, match=r"TG612") as raised:
        compile_c("int broken( { return missing; }", "broken", cache=cache, options=options)
    message = str(raised.value)
    assert "error:" in message and "reproduce with:" in message
    source = Path(message.split("the source is ")[1].splitlines()[0])
    assert source.read_text() == "int broken( { return missing; }"
    assert str(source) in message.split("reproduce with:")[1]
    shutil.rmtree(source.parent)
    assert [p.name for p in cache.directory.iterdir()] == ["toolchain.json"]


def test_a_damaged_shared_object_is_built_again(
    cache: Cache, options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = compile_c(TWICE, "twice", cache=cache, options=options)
    path = library.entry.file("module.so")
    data = path.read_bytes()
    path.unlink()  # what is loaded stays mapped
    path.write_bytes(data[:100])
    forget(monkeypatch)
    with pytest.warns(CacheWarning, match=r"module\.so has 100 bytes"):
        again = compile_c(TWICE, "twice", cache=cache, options=options)
    assert again.address("twice_entry")


def test_no_compiler(cache: Cache, options: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(NoCompilerError, match="there is no C compiler") as raised:
        compile_c(TWICE, "twice", cache=cache, options=options)
    assert "TRACEGRAD_CC" in raised.value.help and isinstance(raised.value, CompileError)
    assert load_launcher(cache, options).__name__ == "tracegrad.driver.launch_ctypes"


@pytest.mark.parametrize("text", ["exit 1", "echo 'fake 1.0'; exit 0", "kill -9 $$"])
def test_a_compiler_that_does_not_work(cache: Cache, options: Options, tmp_path: Path, text: str) -> None:
    path = script(tmp_path / "my cc", text)
    with pytest.raises(NoCompilerError, match=r"no C compiler works \[TG611\]"):
        find_toolchain(replace(options, compiler=str(path)), cache)


def test_the_first_compiler_that_works_is_taken(
    cache: Cache, options: Options, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin" / "cc", "exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert Path(find_toolchain(options, cache).command[0]).name == "gcc"


def test_a_compiler_with_spaces_and_one_with_arguments(cache: Cache, options: Options, tmp_path: Path) -> None:
    real = shutil.which("gcc") or shutil.which("clang")
    path = script(tmp_path / "my cc", f'exec {real} "$@"')
    library = compile_c(TWICE, "twice", cache=cache, options=replace(options, compiler=str(path)))
    assert library.entry.manifest["parts"]["compiler"] == f"'{path}'"
    found = find_toolchain(replace(options, compiler=f"{real} -DEXTRA=1"), cache)
    assert found.command[1:] == ("-DEXTRA=1",)


def test_flags_that_a_compiler_does_not_know_are_left_out(cache: Cache, options: Options, tmp_path: Path) -> None:
    real = shutil.which("gcc") or shutil.which("clang")
    refuse = 'case "$*" in *-mprefer-vector-width*|*-lmvec*) echo unknown flag >&2; exit 1;; esac'
    path = script(tmp_path / "cc", f'{refuse}\nexec {real} "$@"')
    found = find_toolchain(replace(options, compiler=str(path)), cache)
    assert "-mprefer-vector-width=512" not in found.flags and "-lmvec" not in found.libraries
    assert {"-O3", "-fno-math-errno", "-lm"} <= {*found.flags, *found.libraries}


def test_a_changed_compiler_gives_another_key(
    cache: Cache, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("gcc") or shutil.which("clang")
    digests = set()
    for version in ("1.0", "2.0.0"):
        text = f'if [ "$1" = --version ]; then echo "fake {version}"; exit 0; fi\nexec {real} "$@"'
        chosen = replace(options, compiler=str(script(tmp_path / "cc", text)))
        found = find_toolchain(chosen, cache)
        assert found.version == f"fake {version}"
        digests.add(kernel_key("twice", TWICE, found, chosen).digest)
        forget(monkeypatch)
    assert len(digests) == 2


def test_a_full_disk_of_the_compiler_is_no_fault_of_the_text(
    cache: Cache, options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shutil.which("gcc") or shutil.which("clang")
    full = f'case "$*" in *"{cache.wanted}"*) echo "fatal: No space left on device" >&2; exit 1;; esac'
    path = script(tmp_path / "cc", f'{full}\nexec {real} "$@"')
    monkeypatch.setattr("tracegrad.driver.cache._warned", set())
    with pytest.warns(CacheWarning, match="No space left on device"):
        library = compile_c(TWICE, "twice", cache=cache, options=replace(options, compiler=str(path)))
    assert library.address("twice_entry") and cache.wanted not in library.entry.path.parents


def test_threads_add_a_flag(cache: Cache, options: Options) -> None:
    found = find_toolchain(options, cache)
    assert ("-pthread" in found.kernel_flags(replace(options, num_threads=2))) == found.threads
    assert "-pthread" not in found.kernel_flags(replace(options, num_threads=1))
