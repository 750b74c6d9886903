"""Small pieces of Python syntax trees that the NumPy generator puts together.

Reads text and trees, writes trees. Previous: text.py; next: windows.py.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracegrad.codegen.text import BlankLine, Comment
from tracegrad.ir.types import BOOL
from tracegrad.ops.text import dtype_text, number_text

#: operators of the comparisons when their operands are exchanged
MIRRORED: dict[str, type[ast.cmpop]] = {
    "equal": ast.Eq,
    "not_equal": ast.NotEq,
    "less": ast.Gt,
    "less_equal": ast.GtE,
    "greater": ast.Lt,
    "greater_equal": ast.LtE,
}
_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}


@functools.lru_cache(maxsize=4096)
def parse_expression(text: str) -> ast.expr:
    """Return the tree of an expression; it is shared, so it must not be changed."""
    return ast.parse(text, mode="eval").body


def call(function: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(parse_expression(function), list(arguments), [])


def method_call(node: ast.expr, name: str) -> ast.expr:
    return ast.Call(ast.Attribute(node, name, ast.Load()), [], [])


def expression_statement(text: str, **nodes: ast.expr) -> ast.stmt:
    return ast.Expr(substitute(parse_expression(text), nodes))


def assign_to(target: ast.expr, value: ast.expr) -> ast.stmt:
    """Return `target = value`, or `target += y` where the value is `target + y`; so too for - * and /."""
    match value:
        case ast.BinOp(left, (ast.Add() | ast.Sub() | ast.Mult() | ast.Div()) as operator, right):
            if ast.unparse(left) == ast.unparse(target):
                return ast.AugAssign(stored(target), operator, right)  # type: ignore[arg-type]
    return ast.Assign([stored(target)], value)


def add_to(target: ast.expr, value: ast.expr) -> ast.stmt:
    """Return the statement `target += value`, or `target -= x` for a value -x."""
    place = stored(target)
    assert isinstance(place, ast.Name | ast.Subscript)
    opposite = without_sign(value)
    if opposite is not None:
        return ast.AugAssign(place, ast.Sub(), opposite)
    return ast.AugAssign(place, ast.Add(), value)


def without_sign(node: ast.expr) -> ast.expr | None:
    """Return x * y / z for -x * y / z, of which a sum can take the sign; None for an expression without sign."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return operand
        case ast.BinOp(left, (ast.Mult() | ast.Div()) as operator, ast.UnaryOp(ast.USub(), ast.Constant() as number)):
            return ast.BinOp(left, operator, number)
        case ast.BinOp(left, (ast.Mult() | ast.Div() | ast.MatMult()) as operator, right):
            first = without_sign(left)
            return None if first is None else ast.BinOp(first, operator, right)
    return None


def with_sign(node: ast.expr) -> ast.expr:
    """Return the negative of an expression: of a product or quotient a number or else the first factor has the sign."""
    match node:
        case ast.BinOp(left, (ast.Mult() | ast.Div()) as operator, ast.Constant(float()) as right):
            if without_sign(left) is None and not _has_number(left):
                return ast.BinOp(left, operator, with_sign(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return operand
        case ast.Constant(float(number)):
            return ast.UnaryOp(ast.USub(), ast.Constant(number))
        case ast.BinOp(left, (ast.Mult() | ast.Div()) as operator, right):
            return ast.BinOp(with_sign(left), operator, right)
    return ast.UnaryOp(ast.USub(), node)


def _has_number(node: ast.expr) -> bool:
    """Return whether the first factor of a product or quotient is a number."""
    while isinstance(node, ast.BinOp):
        node = node.left
    return isinstance(node, ast.Constant)


def stored(node: ast.expr) -> ast.expr:
    """Return a name or subscript as what is assigned to."""
    if isinstance(node, ast.Subscript):
        return ast.Subscript(node.value, node.slice, ast.Store())
    assert isinstance(node, ast.Name)
    return ast.Name(node.id, ast.Store())


def substitute(template: ast.expr, mapping: dict[str, ast.expr]) -> ast.expr:
    """Return a tree with names replaced by trees; what has no such names is shared."""
    result = _replaced(template, mapping)
    assert isinstance(result, ast.expr)
    return result


def _replaced(node: Any, mapping: dict[str, ast.expr]) -> Any:
    if isinstance(node, ast.Name):
        return mapping.get(node.id, node)
    if isinstance(node, list):
        return [_replaced(item, mapping) for item in node]
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return transposed(_replaced(node.value, mapping))
    if not isinstance(node, ast.AST) or not node._fields:
        return node
    return type(node)(*[_replaced(getattr(node, name), mapping) for name in node._fields])


def with_names(trees: Sequence[ast.stmt], names: Mapping[str, str]) -> Sequence[ast.stmt]:
    """Return statements in which what they define and read has other names."""
    if not names:
        return trees
    copies = copy.deepcopy(trees)  # in which, too, a part may stand in several places
    for node in {id(node): node for tree in copies for node in ast.walk(tree)}.values():
        match node:
            case ast.Name():
                node.id = names.get(node.id, node.id)
            case ast.arg():
                node.arg = names.get(node.arg, node.arg)
            case ast.FunctionDef():
                node.name = names.get(node.name, node.name)
    return copies


class _AnnotationStripper(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node


def strip_annotations(tree: ast.Module) -> ast.Module:
    result = _AnnotationStripper().visit(tree)
    assert isinstance(result, ast.Module)
    return result


def negated(test: ast.expr, *, exact: bool) -> ast.expr:
    """Return the negation of a test; `exact` says that comparisons may be turned around, since there is no NaN."""
    match test:
        case ast.UnaryOp(ast.Not(), inner):
            return inner
        case ast.Compare(left, [operator], [right]) if exact or isinstance(operator, (ast.Eq, ast.NotEq)):
            return ast.Compare(left, [_OPPOSITES[type(operator)]()], [right])
    return ast.UnaryOp(ast.Not(), test)


def is_empty(body: Sequence[ast.stmt]) -> bool:
    return all(isinstance(s, (Comment, BlankLine)) for s in body)


def literal(value: Any, dtype: np.dtype[Any]) -> ast.expr:
    """Return a Python number; it rounds to exactly the value in the dtype."""
    if dtype == BOOL:
        return ast.Constant(bool(value))
    if dtype.kind in "iu":
        return parse_expression(str(int(value)))
    number = np.asarray(value).astype(dtype)
    if dtype.kind == "c":
        exact = complex(number)
        return parse_expression(number_text(exact.real if exact.imag == 0 and not np.signbit(exact.imag) else exact))
    exact_float = float(number)
    return parse_expression(number_text(float(str(number)) if np.isfinite(exact_float) else exact_float))


def transposed(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.Attribute) and node.attr == "T":
        return node.value
    return ast.Attribute(node, "T", ast.Load())


def logic(op: str, nodes: Sequence[ast.expr], *, is_scalar: bool) -> ast.expr:
    """Return a logical expression: with and, or and not for scalars, where ~True would be -2."""
    if op == "logical_not":
        return negated(nodes[0], exact=False) if is_scalar else ast.UnaryOp(ast.Invert(), nodes[0])
    if is_scalar:
        return both(op, *nodes)
    return ast.BinOp(nodes[0], ast.BitAnd() if op == "logical_and" else ast.BitOr(), nodes[1])


def both(op: str, first: ast.expr, second: ast.expr) -> ast.expr:
    """Return `first and second`, or with `or`, as one operation also where a part of it is one of that kind."""
    kind = type(ast.And() if op == "logical_and" else ast.Or())
    parts = [n.values if isinstance(n, ast.BoolOp) and isinstance(n.op, kind) else [n] for n in (first, second)]
    return ast.BoolOp(kind(), [*parts[0], *parts[1]])


def is_bool(node: ast.expr, test: ast.expr, value: bool) -> bool:
    """Return whether an expression is `value` where a test is: the literal, or the test itself."""
    return ast.dump(node) in (ast.dump(ast.Constant(value)), ast.dump(test))


def scalar_type(dtype: np.dtype[Any]) -> str:
    return "np.bool_" if dtype == BOOL else dtype_text(dtype)


def may_raise(node: ast.BinOp) -> bool:
    """Return whether arithmetic raises an error on Python floats for some operands."""
    if isinstance(node.op, ast.Pow):
        return True
    return isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod) and not isinstance(node.right, ast.Constant)


def parse_statement(header: str, body: list[ast.stmt]) -> ast.stmt:
    """Return a compound statement with a header given as text."""
    statement = ast.parse(f"{header} pass").body[0]
    statement.body = body  # type: ignore[attr-defined]
    return statement


class MethodCalls(ast.NodeTransformer):
    """Writes reductions of a variable as its methods, `x.sum(axis=0)`: NumPy's functions take a microsecond more."""

    _NAMES = frozenset({"sum", "prod", "max", "min", "any", "all"})

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        function = node.func
        if (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "np"
            and function.attr in self._NAMES
            and node.args
            and isinstance(node.args[0], ast.Name)
        ):
            node.func, node.args = ast.Attribute(node.args[0], function.attr, ast.Load()), node.args[1:]
        return node
