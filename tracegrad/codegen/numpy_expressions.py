"""Expressions of NumPy source: the syntax tree of each operation, with the broadcasts left to NumPy.

Reads operations and their Folding. Previous: numpy_module.py; next: numpy_statements.py.

An expression may have a smaller shape than its value as long as the elementwise operation around it broadcasts it, and
it gets its full shape where it leaves such operations. Numbers are written as Python literals, which never widen a
dtype in NumPy 2, as long as another operand has the dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.codegen.folding import (
    LOGIC,
    Folding,
    dropped_axes,
    inserted_axes,
    is_identity_matrix,
    is_row_of_scalars,
    is_size,
    is_stack,
    placeholder,
    plan_folding,
)
from tracegrad.codegen.numpy_module import Module
from tracegrad.codegen.trees import (
    MIRRORED,
    call,
    literal,
    logic,
    method_call,
    parse_expression,
    scalar_type,
    substitute,
    transposed,
    with_sign,
    without_sign,
)
from tracegrad.ir.buffers import plan_buffers
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.nouns import DROPPED
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.products import as_power
from tracegrad.ir.triangles import triangle_of
from tracegrad.ir.types import BOOL, DTYPES, F32, F64, I64, Dim, Shape, is_float
from tracegrad.ops.text import dtype_text, number_text, shape_text, slice_text, subscript_text

#: largest constant array that is written inside an expression, in elements
_SMALL_CONSTANT = 4


@dataclass(frozen=True, slots=True)
class Expression:
    """A syntax tree, the shape it evaluates to, and whether it is a number that takes its dtype from around it."""

    node: ast.expr
    shape: Shape
    is_literal: bool = False


class ExpressionWriter:
    """Builds the expressions of one function.

    Attributes:
        names: the variable of each value that has one.
        sizes: the variable of each size symbol.
    """

    names: dict[Value, str]
    sizes: dict[str, str]

    def __init__(self, module: Module, function: Function) -> None:
        self.module, self.function = module, function
        self.buffers = plan_buffers(function, for_numpy=True)
        self.folding: Folding = plan_folding(function, self.buffers)
        self.in_loop: set[Operation] = {o for loop in _loops(function.body) for b in loop.blocks for o in walk(b)}
        self.read_in_loops = {v for o in self.in_loop for v in o.operands}
        self.templates: dict[Operation, ast.expr] = {}
        self.constants: dict[Operation, ast.expr] = {}
        #: kinds of guards that the text has so far
        self.guards: set[str] = set()

    def use_count(self, value: Value) -> int:
        if not hasattr(self, "counts"):
            self.counts: dict[Value, int] = {}
            blocks = [self.function.body, *(b for o in walk(self.function.body) for b in o.blocks)]
            for block in blocks:
                for operation in block.operations:
                    for operand in operation.operands:
                        self.counts[operand] = self.counts.get(operand, 0) + 1
                for result in block.yields:
                    self.counts[result] = self.counts.get(result, 0) + 1
        return self.counts.get(value, 0)

    def only_item(self, value: Value) -> ast.expr | None:
        """Return x[1] for a slice x[1:2] of one element."""
        part = value.producer
        if part is None or part.op != "slice" or value.shape != (1,) or part in self.buffers.copied_views:
            return None
        return ast.Subscript(
            self.whole(part.operands[0]), self.rename_sizes(parse_expression(str(part.attrs["start"][0]))), ast.Load()
        )

    def expression(self, value: Value) -> Expression:
        """Return the expression for a use of a value; it may have a smaller shape that broadcasts to the value's."""
        if value not in self.folding.inline:
            return Expression(ast.Name(self.names[value], ast.Load()), value.shape)
        assert value.producer is not None
        return self.build(value.producer)

    def whole(self, value: Value) -> ast.expr:
        """Return the expression for a use of a value that needs its exact shape and dtype."""
        return self.full(self.expression(value), value)

    def full(self, expression: Expression, value: Value, *, fresh: bool = False) -> ast.expr:
        """Return an expression of the exact shape and dtype of a value.

        Args:
            fresh: the array must be new, since it is written to or returned.
        """
        node = self.typed(expression, value.dtype)
        if expression.shape == value.shape:
            return method_call(node, "copy") if fresh and self.lies_elsewhere(node) else node
        new = len(value.shape) - len(expression.shape)
        if expression.shape and value.shape == (*(1,) * new, *expression.shape):
            parts: list[ast.expr] = [*[ast.Constant(None)] * new, *[ast.Slice()] * len(expression.shape)]
            with_axes = ast.Subscript(node, ast.Tuple(parts, ast.Load()), ast.Load())
            return method_call(with_axes, "copy") if fresh and self.lies_elsewhere(node) else with_axes
        shape = self.shape_node(value.shape)
        if not expression.shape:
            return self.filled(expression, value, shape)
        view = call("np.broadcast_to", node, shape)
        return method_call(view, "copy") if fresh else view

    def lies_elsewhere(self, node: ast.expr) -> bool:
        """Return whether an expression may evaluate to memory that is also known under another name."""
        if isinstance(node, ast.Call):
            match node.func:
                case ast.Attribute(
                    attr="reshape" | "broadcast_to" | "transpose" | "moveaxis" | "real" | "imag" | "conj"
                ):
                    return True
            return False
        return isinstance(node, (ast.Name, ast.Subscript, ast.Attribute))

    def filled(self, expression: Expression, value: Value, shape: ast.expr) -> ast.expr:
        """Return an array of one number."""
        dtype, node = value.dtype, expression.node
        keyword = [] if dtype == F64 else [ast.keyword("dtype", parse_expression(dtype_text(dtype)))]
        if expression.is_literal and isinstance(node, ast.Constant) and dtype != BOOL and node.value in (0, 1):
            return ast.Call(parse_expression("np.ones" if node.value else "np.zeros"), [shape], keyword)
        return call("np.full", shape, node if dtype == F64 else self.typed(expression, dtype))

    def typed(self, expression: Expression, dtype: Any) -> ast.expr:
        """Return an expression that has its dtype by itself, not from what surrounds it."""
        if expression.is_literal and dtype not in (I64, BOOL):
            return call(dtype_text(dtype), expression.node)
        return expression.node

    def build(self, operation: Operation) -> Expression:
        """Return the expression of an operation."""
        value = operation.result
        match operation.op:
            case "constant":
                return self.constant(operation)
            case "full":
                return Expression(literal(operation.attrs["value"], value.dtype), (), is_literal=True)
            case "dim":
                return Expression(self.dim_node(operation.attrs["dim"]), ())
            case "cast" if is_identity_matrix(operation):
                size = value.shape[0]
                keyword = "" if value.dtype == F64 else f", dtype={dtype_text(value.dtype)}"
                return Expression(self.rename_sizes(parse_expression(f"np.eye({size}{keyword})")), value.shape)
            case "cast" if is_size(operation):
                return Expression(self.expression(operation.operands[0]).node, (), is_literal=True)
            case "select" if triangle_of(operation) is not None:
                return Expression(self.fill(self.template(operation), operation), value.shape)
            case "broadcast_to":
                inner = self.expression(operation.operands[0])
                if value in self.folding.inline:
                    return inner
                view = call("np.broadcast_to", self.typed(inner, value.dtype), self.shape_node(value.shape))
                return Expression(view, value.shape)
            case "iota" if len(value.shape) > 1:
                return self.iota(operation)
            case "reshape" if 0 in inserted_axes(operation) and value in self.folding.inline:
                return self.without_leading_axes(operation)
            case "reshape" if value in self.folding.inline and self.folding.texts[operation] == placeholder(0):
                return self.expression(operation.operands[0])
            case "concatenate" if is_row_of_scalars(operation):
                mapping = {placeholder(i): self.scalar(v) for i, v in enumerate(operation.operands)}
                return Expression(substitute(self.template(operation), mapping), value.shape)
            case "concatenate" if is_stack(operation):
                rows = [v.producer.operands[0] for v in operation.operands if v.producer is not None]
                mapping = {placeholder(i): self.whole(row) for i, row in enumerate(rows)}
                return Expression(substitute(self.template(operation), mapping), value.shape)
            case "reshape" if (item := self.item_of_slice(operation)) is not None:
                return Expression(item, value.shape)
            case "transpose" if (swapped := self.swapped_product(operation)) is not None:
                return Expression(swapped, value.shape)
        if TABLE[operation.op].elementwise:
            return self.elementwise(operation)
        if operation.op == "gather" and value.shape and operation.operands[1].shape:
            return Expression(self.gather(operation), value.shape)
        node = self.fill(self.template(operation), operation)
        if operation.op == "reduce_sum" and (opposite := without_sign(self.whole(operation.operands[0]))) is not None:
            mapping = {placeholder(0): opposite}
            node = ast.UnaryOp(ast.USub(), substitute(self.template(operation), mapping))
        return Expression(method_call(node, "copy") if operation in self.buffers.copied_views else node, value.shape)

    def scalar(self, value: Value) -> ast.expr:
        """Return the element of an array of one element: the scalar it is made of, or what it is cut out of."""
        made = value.producer
        if made is not None and value in self.folding.inline:
            if made.op == "full":
                return self.expression(value).node
            if made.op == "reshape" and not made.operands[0].shape:
                return self.whole(made.operands[0])
            if (item := self.only_item(value)) is not None:
                return item
        return ast.Subscript(self.whole(value), ast.Constant(0), ast.Load())

    def iota(self, operation: Operation) -> Expression:
        """Return positions along one axis, as a shape that broadcasts to all axes."""
        shape, dtype, axis = (operation.attrs[k] for k in ("shape", "dtype", "axis"))
        keyword = "" if dtype == I64 else f", dtype={dtype_text(dtype)}"
        columns = "".join(", None" for _ in shape[axis + 1 :])
        node = self.rename_sizes(
            parse_expression(f"np.arange({shape[axis]}{keyword}){f'[:{columns}]' if columns else ''}")
        )
        return Expression(node, (shape[axis], *(1 for _ in shape[axis + 1 :])))

    def without_leading_axes(self, reshape: Operation) -> Expression:
        """Return the operand of a reshape that inserts axes, without the leading ones, which NumPy inserts itself."""
        axes, count = inserted_axes(reshape), 0
        while count in axes:
            count += 1
        shape = reshape.result.shape[count:]
        node = self.whole(reshape.operands[0])
        if len(axes) > count:
            parts: list[ast.expr] = [
                ast.Constant(None) if k in axes else ast.Slice() for k in range(count, len(reshape.result.shape))
            ]
            node = ast.Subscript(node, ast.Tuple(parts, ast.Load()), ast.Load())
        return Expression(node, shape)

    def item_of_slice(self, reshape: Operation) -> ast.expr | None:
        """Return x[1] for x[1:2] without its axis of size 1; None for other reshapes."""
        source, dropped = reshape.operands[0], dropped_axes(reshape)
        part = source.producer
        if not dropped or part is None or part.op != "slice" or source not in self.folding.inline:
            return None
        if part in self.buffers.copied_views:
            return None
        start, stop, step = (part.attrs[k] for k in ("start", "stop", "step"))
        shape = part.operands[0].shape
        parts = [
            str(start[k]) if k in dropped else slice_text(start[k], stop[k], step[k], dim)
            for k, dim in enumerate(shape)
        ]
        pattern = self.rename_sizes(parse_expression(f"{placeholder(0)}{subscript_text(parts)}"))
        return substitute(pattern, {placeholder(0): self.whole(part.operands[0])})

    def swapped_product(self, transpose: Operation) -> ast.expr | None:
        """Return b.T @ a for the transpose of a.T @ b, and of outer products the swapped one; None for others."""
        product = transpose.operands[0]
        if product not in self.folding.inline or len(product.shape) != 2:
            return None
        match self.expression(product).node:
            case ast.Call(ast.Attribute(ast.Name("np"), "outer") as outer, [left, right], []):
                return ast.Call(outer, [right, left], [])
            case ast.BinOp(left, ast.MatMult(), right):
                a, b = transposed(left), transposed(right)
                if isinstance(left, ast.Attribute) and left.attr == "T":
                    return ast.BinOp(b, ast.MatMult(), a)
                if isinstance(right, ast.Attribute) and right.attr == "T":
                    return ast.BinOp(b, ast.MatMult(), a)
        return None

    def elementwise(self, operation: Operation) -> Expression:
        power = as_power(operation, self.folding.inline.__contains__)
        if power is not None and power[1] > 2 and not operation.result.shape and operation.result.dtype in (F64, F32):
            base = self.expression(power[0])
            if not base.is_literal:
                return Expression(ast.BinOp(base.node, ast.Pow(), ast.Constant(power[1])), base.shape)
        operands = [self.expression(v) for v in operation.operands]
        if operation.op == "keep_zero" or operation.result.noun == DROPPED:
            self.guards.add(operation.op if operation.op == "keep_zero" else DROPPED)
        shape = _broadcast([e.shape for e in operands])
        template = self.template(operation)
        dtype = operation.result.dtype
        nodes = [e.node for e in operands]
        # Python numbers take the dtype of the operand beside them; when there is none, the first one has to have it
        first = 1 if operation.op == "select" else 0
        deciding = [
            i for i in range(first, len(operands)) if operation.operands[i].dtype == operation.operands[first].dtype
        ]
        if all(operands[i].is_literal for i in deciding):
            kind = operation.operands[first].dtype
            if not (isinstance(template, ast.Call) and kind in (F64, DTYPES["c128"])):
                nodes[first] = self.typed(operands[first], kind)
        for i, (expression, value) in enumerate(zip(operands, operation.operands, strict=True)):
            # bfloat16 comes from ml_dtypes, which knows no weak Python numbers
            if expression.is_literal and value.dtype == DTYPES["bf16"]:
                nodes[i] = self.typed(expression, value.dtype)
        if operation.op in LOGIC:
            return Expression(logic(operation.op, nodes, is_scalar=not shape), shape)
        if operation.op == "select" and not shape:
            condition, yes, no = nodes
            return Expression(ast.IfExp(condition, yes, no), shape, operands[1].is_literal or operands[2].is_literal)
        if operation.op == "cast" and not shape:
            return Expression(call(scalar_type(dtype), nodes[0]), shape)
        if operation.op == "power" and operands[1].is_literal:
            return Expression(ast.BinOp(nodes[0], ast.Pow(), nodes[1]), shape)
        if operation.op == "power" and not operands[1].shape and operation.result.shape:
            # the text converts an exponent of another dtype as the array that is not written here
            exponent = call(dtype_text(dtype), nodes[1]) if operation.operands[1].dtype != dtype else nodes[1]
            return Expression(ast.BinOp(nodes[0], ast.Pow(), exponent), shape)
        if operation.op in MIRRORED and operands[0].is_literal and not operands[1].is_literal:
            return Expression(ast.Compare(nodes[1], [MIRRORED[operation.op]()], [nodes[0]]), shape)
        if operation.op == "negative" and is_float(dtype):
            return Expression(with_sign(nodes[0]), shape)
        if operation.op in ("add", "subtract") and (opposite := without_sign(nodes[1])) is not None:
            operator = ast.Sub() if operation.op == "add" else ast.Add()
            return Expression(ast.BinOp(nodes[0], operator, opposite), shape)
        mapping = {placeholder(i): node for i, node in enumerate(nodes)}
        return Expression(substitute(template, mapping), shape)

    def gather(self, operation: Operation) -> ast.expr:
        """Return an indexing expression; index arrays broadcast against each other.

        Those without elements stay arrays: NumPy checks a number in their place.
        """
        x, *indices = operation.operands
        if operation in self.folding.windows:
            place: list[ast.expr] = [*[ast.Slice()] * operation.attrs["axes"][0], self.window(operation)]
            node: ast.expr = ast.Subscript(
                self.whole(x), place[0] if len(place) == 1 else ast.Tuple(place, ast.Load()), ast.Load()
            )
            node = node if len(place) == 1 else transposed(node)
            return node if self.is_read_at_once(operation.result) else method_call(node, "copy")
        expressions = [self.expression(i) for i in indices]
        shape = indices[0].shape
        if 0 in shape or _broadcast([e.shape for e in expressions]) != shape:
            return self.fill(self.template(operation), operation)
        mapping = {placeholder(i + 1): e.node for i, e in enumerate(expressions)}
        return substitute(self.template(operation), {placeholder(0): self.whole(x), **mapping})

    def window(self, operation: Operation) -> ast.Slice:
        """Return the slice `i:i + 5` for the index array of an operation."""
        window = self.folding.windows[operation]
        start = self.expression(window.start).node
        stop: ast.expr
        match start:
            case ast.BinOp(base, ast.Add(), ast.Constant(int(number))):
                stop = ast.BinOp(base, ast.Add(), ast.Constant(number + window.length))
            case ast.BinOp(base, ast.Sub(), ast.Constant(int(number))) if number == window.length:
                stop = base
            case ast.BinOp(base, ast.Sub(), ast.Constant(int(number))) if number < window.length:
                stop = ast.BinOp(base, ast.Add(), ast.Constant(window.length - number))
            case _:
                stop = ast.BinOp(start, ast.Add(), ast.Constant(window.length))
        return ast.Slice(start, stop)

    def is_read_at_once(self, value: Value) -> bool:
        """Return whether an expression is part of one that makes a new array of it."""
        if value not in self.folding.inline:
            return False
        users = [o for o in walk(self.function.body) if value in o.operands]
        return all(TABLE[o.op].elementwise or o.op in ("reduce_sum", "dot_general") for o in users)

    def fill(self, template: ast.expr, operation: Operation) -> ast.expr:
        """Put the operands, of exact shape and dtype, into the text of an operation."""
        mapping = {placeholder(i): self.whole(v) for i, v in enumerate(operation.operands)}
        return substitute(template, mapping)

    def template(self, operation: Operation) -> ast.expr:
        found = self.templates.get(operation)
        if found is None:
            found = self.rename_sizes(parse_expression(self.folding.texts[operation]))
            self.templates[operation] = found
        return found

    def constant(self, operation: Operation) -> Expression:
        value, array = operation.result, operation.attrs["value"]
        if not value.shape:
            return Expression(literal(array.item() if array.dtype.kind in "iub" else array, value.dtype), (), True)
        node = self.constants.get(operation)
        if node is None:
            pattern = _pattern_text(array)
            node = parse_expression(pattern or self.folding.texts[operation])
            is_short = bool(pattern) or (array.size <= _SMALL_CONSTANT and self.use_count(value) == 1)
            if not is_short or operation in self.in_loop or value in self.read_in_loops:
                node = self.module.constant(value.name or ("IDENTITY" if pattern.startswith("np.eye") else ""), node)
            self.constants[operation] = node
        return Expression(node, value.shape)

    def shape_node(self, shape: Shape) -> ast.expr:
        return self.rename_sizes(parse_expression(shape_text(shape)))

    def dim_node(self, dim: Dim) -> ast.expr:
        return self.rename_sizes(parse_expression(str(dim)))

    def rename_sizes(self, node: ast.expr) -> ast.expr:
        """Replace size symbols by their variables, in a tree without other variables."""
        if all(symbol == variable for symbol, variable in self.sizes.items()):
            return node
        return substitute(node, {s: ast.Name(v, ast.Load()) for s, v in self.sizes.items()})


def _pattern_text(array: Any) -> str:
    """Return a short expression for an identity matrix, a range or an array of one number, perhaps after a few others;
    '' for other arrays."""
    if array.size <= _SMALL_CONSTANT and array.shape != (2, 2):
        return ""
    if array.ndim == 1 and array.dtype == F64:
        last = array[-1].item()
        count = next((k for k, x in enumerate(array[::-1].tolist()) if repr(x) != repr(last)), array.size)
        first = array[: array.size - count]
        if 0 < first.size <= 4 < count:
            rest = f"np.zeros({count})" if repr(last) == "0.0" else f"np.full({count}, {number_text(last)})"
            return f"np.concatenate([[{', '.join(map(number_text, first.tolist()))}], {rest}])"
    keyword = "" if array.dtype == F64 else f", dtype={dtype_text(array.dtype)}"
    patterns = {}
    if array.ndim == 2 and array.shape[0] == array.shape[1]:
        patterns[f"np.eye({array.shape[0]}{keyword})"] = np.eye(array.shape[0], dtype=array.dtype)
    if array.ndim == 1 and array.dtype == I64:
        patterns[f"np.arange({array.size})"] = np.arange(array.size)
    if array.dtype in (F64, I64):
        number = array.flat[0].item()
        patterns[f"np.full({shape_text(array.shape)}, {number_text(number)})"] = np.full(array.shape, number)
    return next((text for text, same in patterns.items() if same.tobytes() == array.tobytes()), "")


def _broadcast(shapes: Sequence[Shape]) -> Shape:
    """Return the shape that NumPy broadcasts shapes to."""
    ndim = max((len(s) for s in shapes), default=0)
    result: list[Dim] = [1] * ndim
    for shape in shapes:
        for k, dim in enumerate(shape, ndim - len(shape)):
            if dim != 1:
                result[k] = dim
    return tuple(result)


def _loops(block: Block) -> Sequence[Operation]:
    return [o for o in walk(block) if o.op in ("for", "while")]
