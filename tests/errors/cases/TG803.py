import contextlib
import tempfile
from pathlib import Path

from tracegrad.target import load_function


def run():
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory, contextlib.chdir(directory):
        Path("broken.py").write_text("import no_such_package\n")
        load_function("broken.py:loss")
