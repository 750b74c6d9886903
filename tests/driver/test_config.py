"""Options from environment variables."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tracegrad.config import Options, configure_logging, load_options
from tracegrad.errors import ArgumentError


def test_defaults() -> None:
    assert load_options({}) == Options() == load_options({"TRACEGRAD_BACKEND": " ", "TRACEGRAD_CACHE_SIZE": ""})
    assert load_options({}).backend == "numpy"


def test_every_variable(tmp_path: Path) -> None:
    options = load_options(
        {
            "TRACEGRAD_CACHE_DIR": str(tmp_path),
            "TRACEGRAD_BACKEND": "C",
            "TRACEGRAD_NUM_THREADS": "3",
            "TRACEGRAD_CC": "gcc -m64",
            "TRACEGRAD_LOG": "DEBUG",
            "TRACEGRAD_CACHE_SIZE": "2000000",
        }
    )
    assert options == Options("c", 3, "gcc -m64", tmp_path, 2_000_000, "debug")
    assert load_options({"TRACEGRAD_CACHE_DIR": "~/x"}).cache_dir == Path.home() / "x"


@pytest.mark.parametrize(
    ("name", "value"),
    [("BACKEND", "fortran"), ("NUM_THREADS", "0"), ("NUM_THREADS", "two"), ("NUM_THREADS", "²"), ("LOG", "loud")]
    + [("CACHE_SIZE", "-1"), ("CACHE_SIZE", "10"), ("CACHE_SIZE", "1e9")],
)
def test_bad_values_are_named(name: str, value: str) -> None:
    with pytest.raises(ArgumentError, match=rf"TRACEGRAD_{name}") as raised:
        load_options({f"TRACEGRAD_{name}": value})
    assert f"{name}={value}" in raised.value.found and "unset" in raised.value.help


def test_logging_is_set_up_once() -> None:
    logger = logging.getLogger("tracegrad")
    before = list(logger.handlers), logger.level
    try:
        configure_logging(Options())
        assert (list(logger.handlers), logger.level) == before
        for _ in range(2):
            configure_logging(Options(log_level="debug"))
        assert logger.level == logging.DEBUG and len(logger.handlers) == 1
    finally:
        logger.handlers, logger.level = before
