"""Compilers that fail, for the cases of driver errors: each is a shell script in a new directory."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

import tracegrad as tg


def f(x):
    return np.sum(x * x)


def call_with_compiler(script: str) -> None:
    """Compile and call a function of its own with the given shell script as C compiler and an empty cache."""
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory:
        command = Path(directory) / "cc"
        command.write_text(f"#!/bin/sh\n{script}\n")
        command.chmod(0o755)
        settings = {"TRACEGRAD_CC": str(command), "TRACEGRAD_CACHE_DIR": directory}
        with mock.patch.dict(os.environ, settings):
            tg.function(f, backend="c")(np.ones(3))
