"""Options of a process: the only reader of environment variables.

Reads TRACEGRAD_CACHE_DIR, TRACEGRAD_BACKEND, TRACEGRAD_NUM_THREADS, TRACEGRAD_CC, TRACEGRAD_LOG, TRACEGRAD_CACHE_SIZE
and TRACEGRAD_TRACEBACK; gives a frozen Options to api.py and driver/. Previous: errors.py; next: frames.py.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tracegrad.errors import ArgumentError

#: version of the package; part of every cache key
VERSION: Final = "0.1.0"

BACKENDS: Final = ("numpy", "c")
TRACEBACKS: Final = ("user", "full")
LOG_LEVELS: Final = ("debug", "info", "warning", "error", "critical")
DEFAULT_CACHE_SIZE_BYTES: Final = 1 << 30
SMALLEST_CACHE_SIZE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Options:
    """What can be set from outside.

    Attributes:
        backend: "numpy" or "c", used where a call does not say.
        num_threads: threads on which C code runs loops over many independent elements.
        compiler: command of the C compiler, or "" to look for one.
        cache_dir: directory of the compile cache, or None for the user's cache directory.
        cache_size_bytes: bound on the size of the compile cache.
        log_level: name of a logging level, or "" to leave logging alone.
        traceback: "user": tracebacks of errors show the user's frames; "full": those of tracegrad too.
    """

    backend: str = "numpy"
    num_threads: int = 1
    compiler: str = ""
    cache_dir: Path | None = None
    cache_size_bytes: int = DEFAULT_CACHE_SIZE_BYTES
    log_level: str = ""
    traceback: str = "user"


def load_options(environment: Mapping[str, str] | None = None) -> Options:
    """Read the options from environment variables (`os.environ` when none are given). An empty variable is unset.

    Raises:
        ArgumentError: a variable has an unusable value.

    >>> load_options({"TRACEGRAD_NUM_THREADS": "4"}).num_threads
    4
    """
    variables = os.environ if environment is None else environment

    def read(name: str) -> str:
        return variables.get(f"TRACEGRAD_{name}", "").strip()

    cache_dir = read("CACHE_DIR")
    return Options(
        backend=_choice("TRACEGRAD_BACKEND", read("BACKEND"), BACKENDS) or "numpy",
        num_threads=_number("TRACEGRAD_NUM_THREADS", read("NUM_THREADS"), 1, 1),
        compiler=read("CC"),
        cache_dir=Path(os.path.abspath(os.path.expanduser(cache_dir))) if cache_dir else None,
        cache_size_bytes=_number(
            "TRACEGRAD_CACHE_SIZE", read("CACHE_SIZE"), DEFAULT_CACHE_SIZE_BYTES, SMALLEST_CACHE_SIZE_BYTES
        ),
        log_level=_choice("TRACEGRAD_LOG", read("LOG"), LOG_LEVELS),
        traceback=_choice("TRACEGRAD_TRACEBACK", read("TRACEBACK"), TRACEBACKS) or "user",
    )


def configure_logging(options: Options) -> None:
    """Send messages of the logger "tracegrad" to stderr at the level asked for, if one was."""
    if not options.log_level:
        return
    logger = logging.getLogger("tracegrad")
    logger.setLevel(options.log_level.upper())
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tracegrad %(levelname)s: %(message)s"))
        logger.addHandler(handler)


def _choice(name: str, text: str, allowed: tuple[str, ...]) -> str:
    if text and text.lower() not in allowed:
        raise ArgumentError(
            f"the environment variable {name} has an unknown value",
            code="TG601",
            span=None,
            found=f"{name}={text}",
            help=f"set it to one of {', '.join(allowed)}, or unset it",
        )
    return text.lower()


def _number(name: str, text: str, default: int, least: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ArgumentError(
            f"the environment variable {name} is not a whole number of at least {least}",
            code="TG602",
            span=None,
            found=f"{name}={text}",
            help=f"set it to a whole number of at least {least}, or unset it",
        )
    return int(text)
