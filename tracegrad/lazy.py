"""Names of a package that are imported when they are first used, so that what a process does not need costs no time."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from tracegrad.collector import without_collector

_import_module = without_collector(importlib.import_module)


def lazy_names(
    package: str,
    names: Mapping[str, str],
    variables: dict[str, Any],
    missing: str = "",
    advice: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[str], Any]:
    """Return a module `__getattr__` (PEP 562).

    Args:
        package: the package's name.
        names: public name -> module of the package that defines it, or "module:name" where the names differ; "" for the
            submodule of that name.
        variables: `globals()` of the package; a name is kept there once it is imported.
        missing: what to say of a name that is like none of these.
        advice: what to do instead, for names that are known to be missing.
    """

    def load(name: str) -> Any:
        if name not in names:
            text = f"module {package!r} has no attribute {name!r}"
            is_imported = "__path__" in variables and find_spec(f"{package}.{name}") is not None  # as a module, next
            if not name.startswith("_") and not is_imported:
                known = {*names, *(n for n in variables if not n.startswith("_"))}
                near = advice.get(name) or importlib.import_module("tracegrad.suggestion").suggest(name, known)
                text += f": {near or missing}" if near or missing else ""
            raise AttributeError(text)
        module, _, attribute = names[name].partition(":")
        loaded = _import_module(f"{package}.{module or name}")
        variables[name] = getattr(loaded, attribute or name) if module else loaded
        return variables[name]

    return load
