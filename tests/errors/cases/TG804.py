import contextlib
import tempfile
from pathlib import Path

from tracegrad.target import load_function


def run():
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory, contextlib.chdir(directory):
        Path("case_model.py").write_text("def loss(x):\n    return x * x\n")
        load_function("case_model.py:los")
