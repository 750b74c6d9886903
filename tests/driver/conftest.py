"""A compile cache and options of its own for each test of the driver."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tracegrad.config import Options, load_options
from tracegrad.driver import launch, launch_ctypes
from tracegrad.driver.cache import Cache, open_cache
from tracegrad.driver.launch import ExecutableSpec, build_executable
from tracegrad.driver.load_c import compile_c


@pytest.fixture
def options() -> Options:
    return load_options()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """An empty cache, in a directory with a space in its name."""
    return Cache(tmp_path / "a cache", 1 << 30)


@pytest.fixture(params=["c", "ctypes"])
def build(request: pytest.FixtureRequest, options: Options, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Build an Executable from C text (or a Python target) with each of the two launchers."""
    shared = open_cache(options)
    if request.param == "ctypes":
        monkeypatch.setitem(launch._launchers, options.compiler, launch_ctypes)
    else:
        assert launch.load_launcher(shared, options) is not launch_ctypes, "launcher.c must compile where tests run"

    def build(spec: ExecutableSpec, text: str = "", name: str = "", target: Any = None) -> Any:
        library = compile_c(text, name, cache=shared, options=options) if text else None
        return build_executable(spec, library, target, cache=shared, options=options)

    return build
