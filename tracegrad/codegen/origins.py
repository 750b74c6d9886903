"""Which names say that a variable is a value of the first half again, or the cotangent of one.

Reads a function in IR, and keeps the names that a writer gives. Previous: folding.py; next: variables.py.

A value of the second half has the name of the value of the first half that it is again, and no other's. A cotangent has
the name of the primal value that it belongs to.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from tracegrad.ir.core import Function, Value, walk

_COTANGENT = re.compile("^(?:t_)?ct_")


class Origins:
    """The names that primal values have, by the numbers of these values (Value.origin)."""

    def __init__(self) -> None:
        #: number -> the name of the variable, and what it is called without a number
        self.names: dict[int, tuple[str, str]] = {}
        #: name -> the numbers of the values of the first half, and of both
        self.early: dict[str, set[int]] = {}
        self.all: dict[str, set[int]] = {}
        self.bases: dict[str, set[str]] = {}

    def add(self, name: str, base: str, numbers: Collection[int], is_late: bool) -> None:
        for number in numbers:
            self.names.setdefault(number, (name, base))
        self.all.setdefault(name, set()).update(numbers)
        self.bases.setdefault(base, set()).add(name)
        if not is_late:
            self.early.setdefault(name, set()).update(numbers)

    def name_of(self, numbers: Iterable[int], base: str) -> str:
        """Return the name that a value with one of these numbers has; of a cotangent, with what stands before it.

        Args:
            base: what it would be called otherwise; of several names, the one made of this is taken.
        """
        prefix = match[0] if (match := _COTANGENT.match(base)) else ""
        found = [self.names[n] for n in numbers if n in self.names]
        named = [name for name, own in found if own == base.removeprefix(prefix)] or [name for name, _ in found]
        return f"{prefix}{named[0]}" if named else base

    def is_of_another(self, name: str, numbers: Iterable[int], is_primal: bool) -> bool:
        """Return whether a name, or what a cotangent of this name belongs to, is another value's.

        Primal values of the second half may follow one another under a name.
        """
        found = (self.early if is_primal else self.all).get(_COTANGENT.sub("", name))
        return found is not None and len(found) > 0 and found.isdisjoint(numbers)

    def is_alone(self, name: str) -> bool:
        """Return whether what the cotangent of this name belongs to is the only variable that is called so."""
        return len(self.bases.get(_COTANGENT.sub("", name), ())) <= 1


def is_cotangent(name: str) -> bool:
    """Return whether a name is that of a cotangent."""
    return _COTANGENT.match(name) is not None


def find_late(function: Function) -> set[Value]:
    """Return the values of the second half, which begins with the first cotangent."""
    found: set[Value] = set()
    is_late = False
    for operation in walk(function.body):
        is_late |= operation.span is not None and operation.span.reverse and operation.op != "stack"
        if is_late:
            found.update(operation.results)
            found.update(p for block in operation.blocks for p in block.params)
    return found
