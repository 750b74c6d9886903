"""The module that NumPy source is: its names, constants, imports and helper functions.

Collects what the functions in it ask for. Previous: variables.py; next: numpy_expressions.py.
"""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Mapping, Sequence

from tracegrad.codegen.trees import strip_annotations
from tracegrad.codegen.variables import Names, identifier
from tracegrad.ir.core import Function, Value, walk
from tracegrad.ops import helpers

#: names that the generated text uses itself
_RESERVED = frozenset(
    """np math ml_dtypes tracegrad range reversed print complex bool int float ZeroDivisionError ValueError IndexError
    OverflowError TypeError ArithmeticError RuntimeError AssertionError""".split()
)


class Module:
    """Collects the functions and constants of one module."""

    def __init__(self, function: Function, comments: bool, warnings: bool = True) -> None:
        self.function, self.comments, self.warnings = function, comments, warnings
        self.helpers = {name: item for name, item in vars(helpers).items() if inspect.isfunction(item)}
        self.names = Names(_RESERVED | set(self.helpers))
        self.local_names = set(function.interface.arguments) if function.interface is not None else set()
        self.local_names |= {v.name for v in all_values(function) if v.name in self.helpers}
        self.constants: list[ast.stmt] = []
        self.function_names: dict[Function, str] = {}
        #: names of the signature that mean something else in the text, and what stands for them until it is complete
        self.stand_ins: dict[str, str] = {}
        self.choose_stand_ins(identifier(function.name, "function"))

    def choose_stand_ins(self, name: str) -> None:
        """Choose the names that the definition has while it is built; at the end each changes places with the user's.

        So a variable `gamma` keeps its name, and the helper of that name gets another one.
        """
        names = Names({*self.names.taken, *self.local_names, *vars(builtins), name})
        for own in (name, *sorted(self.local_names)):
            if own in self.names.taken or own in vars(builtins):
                self.stand_ins.setdefault(own, names.fresh(own))
        self.names.taken.update(self.stand_ins.values())
        self.function_names[self.function] = self.stand_ins.get(name, name)
        self.names.taken.add(self.function_names[self.function])

    def imports(self, used: set[str], exchanged: Mapping[str, str]) -> str:
        """Return the import statements: of modules, and of built-in names that the signature hides."""
        lines = []
        for module in ("ml_dtypes", "math"):
            if module in used:
                lines.append(f"import {module}" + (f" as {exchanged[module]}" if module in exchanged else ""))
        lines.append(f"import numpy as {exchanged.get('np', 'np')}")
        if "tracegrad" in used:
            lines.append("import tracegrad.ops.callbacks")
            lines += [f"import tracegrad as {exchanged['tracegrad']}"] if "tracegrad" in exchanged else []
        hidden = [name for name in self.stand_ins if name in used and name in vars(builtins)]
        lines += [f"from builtins import {name} as {self.stand_ins[name]}" for name in sorted(hidden)]
        return "\n".join(lines) + "\n"

    def helper_definitions(self, used: set[str]) -> list[ast.stmt]:
        """Return the definitions of the helper functions used, in the order of their file."""
        waiting = [name for name in used if name in self.helpers]
        found: dict[str, ast.stmt] = {}
        while waiting:
            name = waiting.pop()
            if name not in found:
                [found[name]] = strip_annotations(ast.parse(inspect.getsource(self.helpers[name]))).body
                waiting += [n for n in outer_names(found[name]) if n in self.helpers]
        return [found[name] for name in self.helpers if name in found]

    def constant(self, hint: str, node: ast.expr) -> ast.expr:
        """Define a constant of the module, or find it; return its name."""
        for made in self.constants:
            if isinstance(made, ast.Assign) and ast.dump(made.value) == ast.dump(node):
                target = made.targets[0]
                assert isinstance(target, ast.Name), "constants are names"
                return ast.Name(target.id, ast.Load())
        name = Names(self.names.taken | self.local_names).fresh(identifier(hint.upper() or "CONSTANT"))
        self.names.taken.add(name)
        self.constants.append(ast.Assign([ast.Name(name, ast.Store())], node))
        return ast.Name(name, ast.Load())


def outer_names(tree: ast.AST) -> set[str]:
    """Return the names that a definition uses and does not define itself."""
    names, own = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
            if isinstance(node.ctx, ast.Store):
                own.add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
    return names - own


def all_values(function: Function) -> Sequence[Value]:
    values = list(function.params)
    for operation in walk(function.body):
        values += operation.results
        for block in operation.blocks:
            values += block.params
    return values
