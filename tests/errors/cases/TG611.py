import os
import tempfile
from unittest import mock

from tracegrad.config import load_options
from tracegrad.driver.cache import open_cache
from tracegrad.driver.toolchain import find_toolchain


def run():
    with tempfile.TemporaryDirectory() as directory:
        settings = {"TRACEGRAD_CC": "no-such-compiler", "TRACEGRAD_CACHE_DIR": directory}
        with mock.patch.dict(os.environ, settings):
            options = load_options()
            find_toolchain(options, open_cache(options))
