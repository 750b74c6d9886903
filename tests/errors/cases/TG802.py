import contextlib
import tempfile

from tracegrad.target import load_function


def run():
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory, contextlib.chdir(directory):
        load_function("no_such_module:loss")
