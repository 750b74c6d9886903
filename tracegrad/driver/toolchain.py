"""The C compiler: which one, what it is able to do, and running it.

Reads Options and the machine; what was found about a compiler is remembered in the cache directory, so that a new
process asks no compiler for its version. Previous: code_store.py; next: load_c.py.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tracegrad.codegen.c_library import FLAGS
from tracegrad.config import Options
from tracegrad.driver.cache import Cache
from tracegrad.driver.key import cpu_features
from tracegrad.errors import CompileError

logger = logging.getLogger("tracegrad.toolchain")

CANDIDATES = ("cc", "gcc", "clang")

REQUIRED_FLAGS = ("-O3", "-fPIC", "-shared")
OPTIONAL_FLAGS = (
    *(flag for flag in FLAGS if flag not in REQUIRED_FLAGS),
    # gcc turns sin(x) and cos(x) into one complex exponential, which has no vector form; the loop would stay scalar
    "-fno-builtin-sin",
    "-fno-builtin-cos",
    "-fno-builtin-sinf",
    "-fno-builtin-cosf",
    "-fno-semantic-interposition",
    "-Wl,-Bsymbolic",  # a user's function called `exp` must not be taken for the C library's, nor the other way round
    "-pipe",
)
LIBRARY_FLAGS = ("-lmvec", "-lm")
THREAD_FLAG = "-pthread"

_PROBE = """
#include <math.h>
#include <stdint.h>
int64_t tracegrad_probe(const double *x, double *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = exp(x[i]);
    return n;
}
"""
_LAUNCHER_PROBE = """
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>
int tracegrad_probe(PyObject *x) { return PyArray_CheckExact(x); }
"""


class NoCompilerError(CompileError):
    """There is no C compiler that works."""


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A C compiler that works.

    Attributes:
        command: the compiler and leading arguments from TRACEGRAD_CC.
        version: first line of its `--version`.
        flags: flags that it takes, for code with vector loops.
        libraries: flags that come after the source.
        threads: it takes `-pthread`.
        includes: directories of Python.h and NumPy's headers; empty when an extension module cannot be compiled.
    """

    command: tuple[str, ...]
    version: str
    flags: tuple[str, ...]
    libraries: tuple[str, ...]
    threads: bool
    includes: tuple[str, ...]

    def parts(self, flags: Sequence[str]) -> dict[str, str]:
        """Return the parts of a cache key that stand for this compiler and `flags`."""
        return {
            "compiler": shlex.join(self.command),
            "compiler version": self.version,
            "flags": shlex.join([*flags, *self.libraries]),
            "cpu": cpu_features(),
        }

    def kernel_flags(self, options: Options) -> tuple[str, ...]:
        """Return the flags for generated code."""
        return (*self.flags, THREAD_FLAG) if options.num_threads > 1 and self.threads else self.flags

    def compile(self, source: Path, output: Path, flags: Sequence[str]) -> None:
        """Compile a file to a shared object.

        Raises:
            CompileError: with the compiler's message.
            OSError: the compiler could not be started, or there was no space for its output.
        """
        command = [*self.command, *flags, str(source), "-o", str(output), *self.libraries]
        logger.debug("run %s", shlex.join(command))
        done = _run(command)
        if done.returncode == 0 and output.exists():
            return
        message = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        if "No space left on device" in message or "Disk quota exceeded" in message:
            raise OSError(28, f"the C compiler had no space: {message}")
        kept = _keep(source)
        shown = [*self.command, *flags, str(kept), "-o", os.devnull, *self.libraries]
        raise CompileError(
            "the C compiler refused generated code",
            code="TG612",
            span=None,
            found=f"{self.version}\n{message}",
            help=f"this is a fault of tracegrad or of the compiler; the source is {kept}\n"
            f"reproduce with: {shlex.join(shown)}",
        )


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}  # messages that can be searched for
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", env=environment, check=False, close_fds=False
    )


def _keep(source: Path) -> Path:
    """Copy a source that failed to where it stays after its entry is dropped."""
    directory = Path(tempfile.mkdtemp(prefix="tracegrad-failed-"))
    return Path(shutil.copy(source, directory / source.name))


def find_toolchain(options: Options, cache: Cache) -> Toolchain:
    """Find a C compiler: TRACEGRAD_CC, else cc, gcc or clang on the PATH.

    Raises:
        NoCompilerError: there is none that works.
    """
    place = (options.compiler, os.environ.get("PATH", ""), cache.directory)
    if place not in _found:
        _found[place] = _find_toolchain(options, cache)
    return _found[place]


_found: dict[tuple[str, str, Path], Toolchain] = {}


def _reason(error: Exception) -> str:
    return f"{error.title} ({error.found})" if isinstance(error, CompileError) else str(error)


def _find_toolchain(options: Options, cache: Cache) -> Toolchain:
    commands = _commands(options.compiler)
    remembered = _load_memory(cache)
    failures, broken = [], False
    for command in commands:
        program = shutil.which(command[0])
        if program is None:
            failures.append(f"{command[0]}: not found")
            continue
        identity = _identify(program, command)
        known = remembered.get(identity)
        if known is not None:
            return _from_json(known)
        try:
            toolchain = _probe((program, *command[1:]))
        except (OSError, CompileError) as error:
            failures.append(f"{shlex.join(command)}: {_reason(error)}")
            broken = True
            continue
        _save_memory(cache, {**remembered, identity: asdict(toolchain)})
        return toolchain
    raise NoCompilerError(
        "no C compiler works" if broken else "there is no C compiler",
        code="TG611",
        span=None,
        found="; ".join(failures),
        help="run it by hand, or set TRACEGRAD_CC to another command"
        if broken
        else "install gcc or clang (Debian: apt install gcc; conda: conda install gcc_linux-64), or set TRACEGRAD_CC "
        'to its command, or use backend="numpy"',
    )


def _commands(compiler: str) -> list[tuple[str, ...]]:
    if not compiler:
        return [(name,) for name in CANDIDATES]
    if shutil.which(compiler) is not None:
        return [(compiler,)]  # one path, which may have spaces
    try:
        return [tuple(shlex.split(compiler)) or (compiler,)]
    except ValueError:
        return [(compiler,)]


def _identify(program: str, command: Sequence[str]) -> str:
    """Return a text that changes when the compiler, the CPU, the headers or the flags to try do; runs nothing."""
    real = os.path.realpath(program)
    status = os.stat(real)
    return "|".join(
        [
            program,
            real,
            *command[1:],
            str(status.st_size),
            str(status.st_mtime_ns),
            cpu_features(),
            np.__version__,
            sysconfig.get_path("include"),
            " ".join((*REQUIRED_FLAGS, *OPTIONAL_FLAGS, *LIBRARY_FLAGS)),
        ]
    )


def _memory_path(cache: Cache) -> Path:
    return cache.directory / "toolchain.json"


def _load_memory(cache: Cache) -> dict[str, Any]:
    try:
        memory = json.loads(_memory_path(cache).read_bytes())
    except (OSError, ValueError):
        return {}
    return memory if isinstance(memory, dict) else {}


def _save_memory(cache: Cache, memory: dict[str, Any]) -> None:
    cache.write_file(_memory_path(cache).name, json.dumps(memory, indent=1).encode())


def _from_json(known: dict[str, Any]) -> Toolchain:
    return Toolchain(
        command=tuple(known["command"]),
        version=known["version"],
        flags=tuple(known["flags"]),
        libraries=tuple(known["libraries"]),
        threads=known["threads"],
        includes=tuple(known["includes"]),
    )


def _probe(command: tuple[str, ...]) -> Toolchain:
    """Ask a compiler for its version and try which flags it takes."""
    done = _run([*command, "--version"])
    version = (done.stdout.strip() or done.stderr.strip() or "unknown version").splitlines()[0]
    with tempfile.TemporaryDirectory(prefix="tracegrad-probe-") as directory:
        source, output = Path(directory, "probe.c"), Path(directory, "probe.so")

        def accepts(text: str, flags: Sequence[str], libraries: Sequence[str]) -> str:
            """Return "" when the text compiles, else the compiler's message."""
            source.write_text(text)
            output.unlink(missing_ok=True)
            done = _run([*command, "-Werror", *flags, str(source), "-o", str(output), *libraries])
            ok = done.returncode == 0 and output.exists()
            return "" if ok else (done.stderr.strip() or f"exit status {done.returncode}")

        flags: tuple[str, ...] = (*REQUIRED_FLAGS, *OPTIONAL_FLAGS)
        libraries: tuple[str, ...] = LIBRARY_FLAGS
        if accepts(_PROBE, flags, libraries):
            message = accepts(_PROBE, REQUIRED_FLAGS, ("-lm",))
            if message:
                raise CompileError(
                    "the C compiler does not work", code="TG613", span=None, found=message, help="try it by hand"
                )
            libraries = tuple(f for f in LIBRARY_FLAGS if not accepts(_PROBE, REQUIRED_FLAGS, (f, "-lm")))
            flags = REQUIRED_FLAGS
            for flag in OPTIONAL_FLAGS:
                if not accepts(_PROBE, (*flags, flag), libraries):
                    flags = (*flags, flag)
        threads = not accepts(_PROBE, (*flags, THREAD_FLAG), libraries)
        includes: tuple[str, ...] = (sysconfig.get_path("include"), np.get_include())
        include_flags = [f"-I{i}" for i in includes]
        if accepts(_LAUNCHER_PROBE, ("-O1", "-fPIC", "-shared", *include_flags), ("-lm",)):
            includes = ()
    return Toolchain(command, version, flags, libraries, threads, includes)
