import os
import tempfile
from unittest import mock

from tracegrad.cli import why


def run():
    with tempfile.TemporaryDirectory(prefix="tracegrad-case-") as directory:
        with mock.patch.dict(os.environ, TRACEGRAD_CACHE_DIR=directory):
            why.callback("loss_grad")
