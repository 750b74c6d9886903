"""Finds the source of a function: its node in gast, every position kept as in the user's file.

Reads a function object and the text of its file (through `linecache`, so cells of IPython and doctests count as files);
gives a `FunctionSource`. First file of the walk; next: nodes.py.

The whole file is parsed, rather than the lines that `inspect.getsource` cuts out: so lines and columns are right
without correction, a lambda is found among its neighbours by column, and the enclosing class is known (its name
mangles names such as `__x`). A recompiled copy of the statement around the function must have the function's
bytecode; else the file has been edited after the import, and its text would be a lie. The comparisons that `dataclass`
makes have no text: it is written again, and must have their bytecode too.
"""

from __future__ import annotations
import __future__

import ast
import dataclasses
import inspect
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import gast

from tracegrad.frames import is_of_dataclass

FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag

Position = tuple[int, int]


class SourceUnavailable(Exception):
    """The function cannot be converted, and is to run as it is. `reason` says why, `remedy` what to do about it."""

    def __init__(self, reason: str, remedy: str = "use np.where, or change that") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


@dataclass(frozen=True)
class FunctionSource:
    """A function's node (gast `FunctionDef` or `Lambda`, a fresh copy), its file, and the class whose name mangles in
    it."""

    node: Any
    class_name: str | None
    file: str


@dataclass
class _Candidate:
    """A function in a file: its node, the innermost class around it, and the statement of the module it stands in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    class_name: str | None
    statement: ast.stmt


@dataclass
class _File:
    text: str
    imports: list[ast.stmt] = field(default_factory=list)
    functions: dict[tuple[int, str], list[_Candidate]] = field(default_factory=dict)
    codes: dict[tuple[int, int, int], list[types.CodeType]] = field(default_factory=dict)


_files: dict[str, _File] = {}


def find_source(function: types.FunctionType) -> FunctionSource:
    """Return the source of `function`.

    Raises: SourceUnavailable, when there is none, when it no longer matches, or for coroutines.
    """
    code = function.__code__
    if reason := coroutine_reason(code):
        raise SourceUnavailable(*reason)
    if is_of_dataclass(code):
        return FunctionSource(gast.ast_to_gast(_comparison(code)), None, dataclasses.__file__)
    try:
        candidate = _find(code, _read_file(code.co_filename, function.__globals__))
    except SourceUnavailable:
        linecache.checkcache(code.co_filename)  # the lines may have been read before the file was last written
        candidate = _find(code, _read_file(code.co_filename, function.__globals__))
    return FunctionSource(gast.ast_to_gast(candidate.node), candidate.class_name, code.co_filename)


#: special methods of dataclasses that compare two objects -> the operators
_COMPARISONS = {"__eq__": "==", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}


def _comparison(code: types.CodeType) -> ast.FunctionDef:
    """Return the node of a comparison that `dataclass` has made of the fields that it reads."""
    operator = _COMPARISONS.get(code.co_name)
    for text in [] if operator is None else _texts_of_comparison(code, operator):
        tree = ast.parse(text)
        made = list(_all_codes(compile(tree, code.co_filename, "exec", dont_inherit=True)))[1]
        if _is_same_code(code, made):
            (node,) = tree.body
            assert isinstance(node, ast.FunctionDef), "the text defines a function"
            return node
    raise SourceUnavailable(f"{code.co_name} has no source text: dataclass has made it")


def _texts_of_comparison(code: types.CodeType, operator: str) -> Iterator[str]:
    """Yield what the versions of Python write."""
    fields = [name for name in code.co_names if name not in ("__class__", "NotImplemented")]
    own, other = (f"({''.join(f'{side}.{name},' for name in fields)})" for side in ("self", "other"))
    head, test = f"def {code.co_name}(self, other):\n", " if other.__class__ is self.__class__:\n"
    yield f"{head}{test}  return {own}{operator}{other}\n return NotImplemented"
    each = " and ".join(f"self.{name}==other.{name}" for name in fields) or "True"
    yield f"{head} if self is other:\n  return True\n{test}  return {each}\n return NotImplemented"


def coroutine_reason(code: types.CodeType) -> tuple[str, str] | None:
    """Return why a coroutine is not converted and what to do about it; None for other code."""
    if not code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    return f"{code.co_name} is a coroutine", "make it an ordinary function, or use np.where"


def _read_file(name: str, module_globals: dict[str, Any]) -> _File:
    """Return the parsed file called `name`, from the cache while its text is the same."""
    text = "".join(linecache.getlines(name, module_globals))
    if not text:
        raise SourceUnavailable(
            f"{name} has no source text (code typed at Python's prompt has none, nor has that made by exec)",
            "put the function into a file or a notebook, or use np.where",
        )
    file = _files.get(name)
    if file is None or file.text != text:
        try:
            tree = ast.parse(text, name)
        except SyntaxError as error:
            raise SourceUnavailable(f"{name} does not parse: {error}") from None
        file = _files[name] = _File(text)
        for statement in tree.body:
            _index(statement, None, True, statement, file)
    return file


def _index(node: ast.AST, class_name: str | None, is_global: bool, statement: ast.stmt, file: _File) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        first_line = decorators[0].lineno if decorators else node.lineno
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        file.functions.setdefault((first_line, name), []).append(_Candidate(node, class_name, statement))
        is_global = False
    elif isinstance(node, ast.ClassDef):
        class_name, is_global = node.name, False
    elif is_global and isinstance(node, ast.Import | ast.ImportFrom):
        if getattr(node, "module", None) != "__future__":
            file.imports.append(node)
    for child in ast.iter_child_nodes(node):
        _index(child, class_name, is_global, statement, file)


def _find(code: types.CodeType, file: _File) -> _Candidate:
    """Return the candidate that `code` was compiled from."""
    where = f"line {code.co_firstlineno} of {code.co_filename}"
    found = file.functions.get((code.co_firstlineno, code.co_name), [])
    if len(found) > 1:
        span = code_span(code)
        if span is None:
            raise SourceUnavailable(f"{where} has several functions, and Python keeps no columns to tell them apart")
        found = [c for c in found if _encloses(c.node, span)]
        found = found[-1:]  # those that remain enclose one another, the outermost first
    if not found:
        raise SourceUnavailable(f"{where} does not define {code.co_name}: the text has changed, or was never a file")
    candidate = found[0]
    if not any(_is_same_code(code, other) for other in _compiled(code, candidate, file)):
        raise SourceUnavailable(f"{where} is not the code that runs: the file has changed since it was imported")
    return candidate


def code_span(code: types.CodeType) -> tuple[Position, Position] | None:
    """Return where the instructions of `code` begin and end in the text; None when columns are not kept."""
    begins: list[Position] = []
    ends: list[Position] = []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            continue
        if (column, end_column) != (0, 0):  # the instructions on entry
            begins.append((line, column))
            ends.append((end_line, end_column))
    return (min(begins), max(ends)) if begins else None


def _encloses(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, span: tuple[Position, Position]) -> bool:
    first, last = (node.body, node.body) if isinstance(node, ast.Lambda) else (node.body[0], node.body[-1])
    assert last.end_lineno is not None and last.end_col_offset is not None, "a parsed node has its end"
    begin, end = (first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset)
    return begin <= span[0] and span[1] <= end


def _compiled(code: types.CodeType, candidate: _Candidate, file: _File) -> Iterator[types.CodeType]:
    """Yield the code objects at the place of `code` when its statement is compiled anew."""
    flags = code.co_flags & FUTURE_FLAGS
    key = (candidate.statement.lineno, candidate.statement.col_offset, flags)
    if key not in file.codes:
        # With the imports, since Python compiles calls of what the module imports in a way of its own.
        module = ast.Module([*file.imports, candidate.statement], [])
        try:
            file.codes[key] = list(_all_codes(compile(module, code.co_filename, "exec", flags, dont_inherit=True)))
        except SyntaxError as error:
            raise SourceUnavailable(f"{code.co_filename} does not compile: {error}") from None
    for other in file.codes[key]:
        if (other.co_firstlineno, other.co_name) == (code.co_firstlineno, code.co_name):
            yield other


def _all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_codes(constant)


def _is_same_code(code: types.CodeType, other: types.CodeType) -> bool:
    count = code.co_argcount + code.co_kwonlyargcount
    if code.co_varnames[:count] != other.co_varnames[:count]:
        return False
    if any(name.startswith("@py") for name in (*code.co_varnames, *code.co_names)):
        return True  # pytest has rewritten the assert statements, and only them
    return (
        code.co_code == other.co_code
        and code.co_names == other.co_names
        and code.co_varnames == other.co_varnames
        and code.co_freevars == other.co_freevars
        and code.co_cellvars == other.co_cellvars
        and len(code.co_consts) == len(other.co_consts)
        and all(map(_is_same_constant, code.co_consts, other.co_consts))
    )


def _is_same_constant(x: object, y: object) -> bool:
    if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
        return _is_same_code(x, y)
    return type(x) is type(y) and (isinstance(x, frozenset) or repr(x) == repr(y))
