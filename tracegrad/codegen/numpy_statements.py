"""Statements of NumPy source: assignments, writes in place, branches and loops, each under the user's line.

Reads blocks, their BufferPlan and Folding. Previous: numpy_expressions.py; next: numpy_source.py.
"""

from __future__ import annotations

import ast
import contextlib
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from tracegrad.codegen.folding import LONGEST_TEST, is_statement, placeholder
from tracegrad.codegen.numpy_expressions import Expression, ExpressionWriter
from tracegrad.codegen.numpy_module import Module
from tracegrad.codegen.text import BlankLine, Comment, print_source, with_comment
from tracegrad.codegen.trees import (
    add_to,
    assign_to,
    both,
    call,
    expression_statement,
    is_bool,
    is_empty,
    method_call,
    negated,
    parse_expression,
    stored,
    substitute,
    transposed,
)
from tracegrad.errors import Span
from tracegrad.ir.bounds import static_value
from tracegrad.ir.buffers import READ_ONLY, carries, carry_params
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.nouns import DROPPED
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.types import BOOL, F64, ArrayType
from tracegrad.ir.writes import is_filled_with
from tracegrad.ops.shape import slices_text
from tracegrad.ops.text import numpy_text, slice_text, subscript_text

#: longest row that is taken apart in one statement
_LONGEST_ROW = 6


#: what guards are for, by their kind
_GUARDS = {
    "keep_zero": "zero stays zero, even times infinity",
    DROPPED: "factors that are infinite or NaN count as zero where they meet zeros only",
}


class StatementWriter(ExpressionWriter):
    """Builds the statements of one function."""

    def __init__(self, module: Module, function: Function) -> None:
        super().__init__(module, function)
        self.body: list[ast.stmt] = []
        self.last_line: tuple[str, int] | None = None
        self.in_sweep = False
        self.in_nested = 0
        #: kinds of guards of which a comment says what they are for
        self.explained: set[str] = set()

    def block(self, block: Block) -> None:
        waiting = [o for o in block.operations if is_statement(o) or o.result not in self.folding.inline]
        while waiting:
            operation = waiting[0]
            count = 1
            if is_statement(operation):
                self.statement(operation)
            else:
                self.comment(operation.span, operation.results)
                count = self.unpack(waiting)
                if not count:
                    count = 1
                    self.body.append(self.assignment(operation))
            del waiting[:count]
            self.explain_guard()

    def unpack(self, waiting: Sequence[Operation]) -> int:
        """Write the next statements as one, `x, y, z = state`, where they read all elements of a row one by one.

        Returns:
            How many they are.
        """
        first = _element_of(waiting[0])
        if first is None:
            return 0
        source = first[0]
        count = source.shape[0]
        assert isinstance(count, int), "rows that are taken apart have a known length"
        found = [None if is_statement(o) else _element_of(o) for o in waiting[:count]]
        places = {pair[1]: o for pair, o in zip(found, waiting, strict=False) if pair is not None and pair[0] is source}
        if len(places) != count or not 2 <= count <= _LONGEST_ROW:
            return 0
        last = self.body[-1] if self.body else None
        if isinstance(last, Comment):
            last = self.body[-2] if len(self.body) > 1 else None
        node = self.whole(source)
        is_own = isinstance(last, ast.Assign) and source not in self.folding.inline and not source.name
        if is_own and self.use_count(source) == self.row_reads(source) == count:
            match last:
                case ast.Assign([ast.Name(name)], value) if name == self.names[source]:
                    self.body.remove(last)
                    node = value
        names: list[ast.expr] = [ast.Name(self.names[places[k].result], ast.Store()) for k in range(count)]
        self.body.append(ast.Assign([ast.Tuple(names, ast.Store())], node))
        return count

    def row_reads(self, source: Value) -> int:
        """Return how many operations read single elements of a row."""
        if not hasattr(self, "reads_of_rows"):
            pairs = [_element_of(o) for o in walk(self.function.body) if not is_statement(o)]
            self.reads_of_rows = Counter(pair[0] for pair in pairs if pair is not None)
        return self.reads_of_rows[source]

    def explain_guard(self) -> None:
        """Say before the first statement with a guard of a kind what it is for."""
        for kind in sorted(self.guards - self.explained) if self.module.comments else ():
            self.body.insert(-1, Comment(_GUARDS[kind]))
            self.explained.add(kind)

    def assignment(self, operation: Operation) -> ast.stmt:
        """Return the statement that computes an operation with a variable, in place where nothing else sees it."""
        target, node = ast.Name(self.names[operation.result], ast.Load()), self.computed(operation)
        in_place = operation in self.buffers.updates and operation not in self.folding.renewed
        if in_place and self.names.get(operation.operands[0]) == target.id:
            return assign_to(target, node)
        return ast.Assign([stored(target)], node)

    def computed(self, operation: Operation) -> ast.expr:
        """Return the expression of an operation that has a variable."""
        return self.owned(self.build(operation), operation.result)

    def owned(self, expression: Expression, value: Value, *, copied: bool = False) -> ast.expr:
        """Return an expression for a value that is kept, and perhaps written to; on demand a copy."""
        # a broadcast that was left to NumPy but not done by it makes a view that cannot be written to
        is_broadcast = expression.shape != value.shape and READ_ONLY not in self.buffers.roots[value]
        return self.full(expression, value, fresh=copied or is_broadcast)

    @contextlib.contextmanager
    def nested(self) -> Iterator[list[ast.stmt]]:
        """Collect the statements of a nested block in a list of their own."""
        outer, self.body = self.body, []
        self.in_nested += 1
        try:
            yield self.body
        finally:
            self.body = outer
            self.in_nested -= 1

    def assign(self, name: str, node: ast.expr) -> None:
        self.body.append(ast.Assign([ast.Name(name, ast.Store())], node))

    def comment(self, span: Span | None, results: Sequence[Value]) -> None:
        """Write the user's line, once, before the statements that come from it; head the sweep of cotangents."""
        if not self.module.comments:
            return
        if not self.in_sweep and not self.in_nested and self.is_of_sweep(span, results):
            self.in_sweep = True
            self.body += [BlankLine(), Comment("cotangents, from the result back to the arguments")]
            self.last_line = None
        if span is None or (span.file, span.line) == self.last_line:
            return
        self.last_line = (span.file, span.line)
        self.body.append(Comment(f"{os.path.basename(span.file)}:{span.line}  {span.text().strip()}".rstrip()))

    def is_of_sweep(self, span: Span | None, results: Sequence[Value]) -> bool:
        """Return whether a statement is one of the sweep of cotangents."""
        named = any(self.names.get(r, r.name).startswith("ct_") for r in results)
        return named or (span is not None and span.reverse)

    def statement(self, operation: Operation) -> None:
        if operation.op != "stack":
            self.comment(None if operation.op == "undefined" else operation.span, operation.results)
        match operation.op:
            case "if":
                self.branch(operation)
            case "for":
                self.for_loop(operation)
            case "while":
                self.while_loop(operation)
            case "stack":
                self.assign(self.names[operation.result], ast.List([], ast.Load()))
            case "push":
                stack, value = operation.operands
                self.body.append(
                    expression_statement(f"{self.names[stack]}.append(x)", x=self.owned(self.expression(value), value))
                )
            case "pop":
                self.assign(
                    self.names[operation.result], parse_expression(f"{self.names[operation.operands[0]]}.pop()")
                )
            case "check":
                self.check(operation)
            case "call":
                arguments = [self.whole(v) for v in operation.operands]
                callee = self.module.function_names[operation.attrs["function"]]
                self.assign_results(operation, call(callee, *arguments))
            case _ if TABLE[operation.op].inplace is not None:
                self.write(operation)
            case _:
                template = self.rename_sizes(parse_expression(numpy_text(operation, _placeholders(operation))))
                node = self.fill(template, operation)
                if operation.results:
                    self.assign_results(operation, node)
                else:
                    self.body.append(ast.Expr(node))

    def assign_results(self, operation: Operation, node: ast.expr) -> None:
        targets: list[ast.expr] = [ast.Name(self.names[r], ast.Store()) for r in operation.results]
        if not targets:
            self.body.append(ast.Expr(node))
        else:
            target = targets[0] if len(targets) == 1 else ast.Tuple(targets, ast.Store())
            self.body.append(ast.Assign([target], node))

    def assign_together(self, targets: Sequence[Value], sources: Sequence[Value], copied: Sequence[bool]) -> None:
        """Assign all sources to all targets as if at once."""
        waiting: list[tuple[str, ast.expr, bool]] = []
        for target, source, is_copied in zip(targets, sources, copied, strict=True):
            name = self.names[target]
            node = self.owned(self.expression(source), source, copied=is_copied)
            if isinstance(node, ast.Name) and node.id == name:
                continue
            last = self.body[-1] if self.body else None
            is_variable = source not in self.folding.inline
            if is_variable and isinstance(last, ast.Assign) and self.is_only_for(last, source, target):
                self.body.pop()
                node = method_call(last.value, "copy") if is_copied and self.lies_elsewhere(last.value) else last.value
            waiting.append((name, node, True))
        while waiting:
            for item in waiting:
                others = {
                    n.id
                    for other in waiting
                    if other is not item
                    for n in ast.walk(other[1])
                    if isinstance(n, ast.Name)
                }
                if item[0] not in others:
                    self.assign(item[0], item[1])
                    waiting.remove(item)
                    break
            else:
                names: list[ast.expr] = [ast.Name(name, ast.Store()) for name, _, _ in waiting]
                self.body.append(
                    ast.Assign([ast.Tuple(names, ast.Store())], ast.Tuple([node for _, node, _ in waiting], ast.Load()))
                )
                waiting = []

    def is_only_for(self, last: ast.Assign, source: Value, target: Value) -> bool:
        """Return whether a statement computes a value that nothing but the assignment to a target needs."""
        match last.targets:
            case [ast.Name(name)]:
                own = name == self.names.get(source) and source.name in ("", target.name)
                return own and self.use_count(source) == 1 and len(print_source(last)) <= 60
        return False

    def branch(self, operation: Operation) -> None:
        bodies = []
        for nested in operation.blocks:
            with self.nested() as body:
                self.block(nested)
                self.assign_together(operation.results, nested.yields, [False] * len(nested.yields))
            bodies.append(body)
        then, otherwise = bodies
        if self.join(operation, then, otherwise):
            return
        test = self.test(operation.operands[0])
        if is_empty(then) and is_empty(otherwise):
            return
        if is_empty(then):
            test = negated(test, exact=self.compares_integers(operation.operands[0]))
            then, otherwise = otherwise, []
        match otherwise:
            case [Comment() as comment, ast.If() as inner] if _is_of_branch(comment):
                otherwise = [with_comment(inner, comment.text)]
        self.body.append(ast.If(test, then, [] if is_empty(otherwise) else otherwise))

    def join(self, operation: Operation, then: list[ast.stmt], otherwise: list[ast.stmt]) -> bool:
        """Write a branch that only makes a bool as one expression, `a and b` or `a or b`, where that fits a line.

        Returns:
            Whether it was written.
        """
        if len(operation.results) != 1 or operation.result.dtype != BOOL or operation.result.shape:
            return False
        test, name = self.expression(operation.operands[0]).node, self.names[operation.result]
        values = [_only_assigned(body, name) for body in (then, otherwise)]
        before = _only_assigned(self.body[-1:], name)
        is_tested = before is not None and isinstance(test, ast.Name) and test.id == name
        match values:
            case [ast.expr() as second, None] if is_tested and before is not None and not otherwise:
                joined = both("logical_and", before, second)
            case [None, ast.expr() as second] if is_tested and before is not None and not then:
                joined = both("logical_or", before, second)
            case [ast.expr() as second, ast.expr() as first] if is_bool(first, test, False):
                is_tested, joined = False, both("logical_and", test, second)
            case [ast.expr() as first, ast.expr() as second] if is_bool(first, test, True):
                is_tested, joined = False, both("logical_or", test, second)
            case _:
                return False
        if name in {n.id for n in ast.walk(joined) if isinstance(n, ast.Name)}:
            return False
        if len(print_source(ast.Expr(joined))) > LONGEST_TEST:
            return False
        if is_tested:
            self.body.pop()
        self.assign(name, joined)
        return True

    def test(self, value: Value) -> ast.expr:
        """Return the expression of a test; the one that was assigned just before, when the test is all it is for."""
        node = self.expression(value).node
        match self.body[-1:], node:
            case [ast.Assign([ast.Name(before)], ast.BoolOp() as made)], ast.Name(name) if before == name:
                if self.use_count(value) == 1 and not value.name:
                    self.body.pop()
                    return made
        return node

    def start_carries(self, loop: Operation) -> None:
        copied = [(loop, position) in self.buffers.copied_inits for position in range(len(loop.results))]
        self.assign_together(carry_params(loop)[0], carries(loop), copied)

    def for_loop(self, loop: Operation) -> None:
        self.start_carries(loop)
        start, stop, step = *(self.expression(v).node for v in loop.operands[:2]), loop.attrs["step"]
        bounds = [stop] if step == 1 and isinstance(start, ast.Constant) and start.value == 0 else [start, stop]
        iterator = call("range", *bounds, *([] if step == 1 else [parse_expression(str(step))]))
        if loop.attrs["reverse"]:
            iterator = call("reversed", iterator)
        block = loop.blocks[0]
        with self.nested() as body:
            self.block(block)
            self.assign_together(block.params[1:], block.yields, [False] * len(block.yields))
        if not is_empty(body):
            index = ast.Name(self.names[block.params[0]], ast.Store())
            self.body.append(ast.For(index, iterator, body, []))

    def while_loop(self, loop: Operation) -> None:
        self.start_carries(loop)
        condition, block = loop.blocks
        with self.nested() as head:
            self.block(condition)
            test = self.test(condition.yields[0])
        with self.nested() as body:
            self.block(block)
            self.assign_together(block.params, block.yields, [False] * len(block.yields))
        if head:
            test = negated(test, exact=self.compares_integers(condition.yields[0]))
            leave = ast.If(test, [ast.Break()], [])
            self.body.append(ast.While(ast.Constant(True), [*head, leave, *body], []))
        else:
            self.body.append(ast.While(test, [ast.Pass()] if is_empty(body) else body, []))

    def check(self, operation: Operation) -> None:
        condition = operation.operands[0]
        if is_filled_with(condition, True):
            return
        test = negated(self.expression(condition).node, exact=self.compares_integers(condition))
        name = operation.attrs["error"]
        kind = f"np.linalg.{name}" if name == "LinAlgError" else name
        error = ast.Raise(call(kind, ast.Constant(operation.attrs["message"])), None)
        self.body.append(ast.If(test, [error], []))

    def compares_integers(self, condition: Value) -> bool:
        producer = condition.producer
        operand = producer.operands[0] if producer is not None and producer.operands else None
        return operand is not None and isinstance(operand.type, ArrayType) and operand.dtype.kind in "iub"

    # Writes into arrays

    def write(self, operation: Operation) -> None:
        x, *indices, values = operation.operands
        name = self.names[operation.result]
        if not x.shape:
            node = self.whole(values)
            if operation.op in ("add_slice", "scatter_add"):
                node = ast.BinOp(self.whole(x), ast.Add(), node)
            self.assign(name, node)
            return
        in_place = operation in self.buffers.in_place
        base = self.owned(self.expression(x), x, copied=not in_place)
        if not (isinstance(base, ast.Name) and base.id == name):
            self.assign(name, base)
        written = self.expression(values)
        value = written.node
        if operation in self.buffers.overlapping and operation.op in ("set_slice", "scatter_set"):
            # NumPy copies overlapping memory in order, which is right between equal strides only
            value = value if _is_parallel(operation) else self.unshared(values, x, value)
        if operation.op in ("set_slice", "add_slice"):
            if values in self.folding.inline and (item := self.only_item(values)) is not None:
                written = Expression(item, ())
                value = item
            place = self.place_text(operation, written) or ("[...]" if operation.op == "set_slice" else "")
            pattern = self.rename_sizes(parse_expression(f"{placeholder(0)}{place}"))
            target = substitute(pattern, {placeholder(0): ast.Name(name, ast.Load())})
            if operation.op == "add_slice":
                self.body.append(add_to(target, value))
            else:
                self.body.append(assign_to(target, value))
            return
        axes = operation.attrs["axes"]
        if indices[0].shape:
            value = written.node if values.dtype == F64 else self.typed(written, values.dtype)
            if operation in self.buffers.overlapping:
                value = self.unshared(values, x, value)
            is_window = operation in self.folding.windows
            chosen: list[ast.expr]
            chosen = [self.window(operation)] if is_window else [self.unshared(i, x, self.whole(i)) for i in indices]
            place_node = chosen[0] if len(chosen) == 1 else ast.Tuple(chosen, ast.Load())
            leading = axes == tuple(range(len(axes)))
            view = name if leading else f"np.moveaxis({name}, {axes}, {tuple(range(len(axes)))})"
            view = f"{name}.T" if axes == (1,) and len(x.shape) == 2 else view
            if operation.op == "scatter_add" and not (is_window or _is_distinct(operation)):
                function = "add_rows" if _adds_rows(operation) else "np.add.at"
                self.body.append(ast.Expr(call(function, parse_expression(view), place_node, value)))
                return
            if view == f"{name}.T" and len(written.shape) in (0, 2):
                view, place_node = name, ast.Tuple([ast.Slice(), place_node], ast.Load())
                value = transposed(value) if written.shape else value
            target = ast.Subscript(parse_expression(view), place_node, ast.Store())
        else:
            by_axis = {axis: self.expression(index).node for axis, index in zip(axes, indices, strict=True)}
            parts = [by_axis.get(k, ast.Slice()) for k in range(max(axes) + 1)]
            target = ast.Subscript(
                ast.Name(name, ast.Load()), parts[0] if len(parts) == 1 else ast.Tuple(parts, ast.Load()), ast.Store()
            )
        if operation.op == "scatter_add":
            self.body.append(add_to(target, value))
        else:
            self.body.append(assign_to(target, value))

    def place_text(self, write: Operation, written: Expression) -> str:
        """Return the subscript of a slice that is written to; a scalar is written to `[0]` rather than `[:1]`."""
        shape = write.operands[0].shape
        if written.shape:
            return slices_text(write, shape)
        places = zip(*(write.attrs[k] for k in ("start", "stop", "step")), shape, strict=True)
        return subscript_text([str(a) if b - a == 1 and d != 1 else slice_text(a, b, s, d) for a, b, s, d in places])

    def unshared(self, value: Value, written: Value, node: ast.expr) -> ast.expr:
        """Return the expression of a value, copied when it may lie in the array that is being written."""
        shares = self.buffers.may_share(value, written) and self.lies_elsewhere(node)
        return method_call(node, "copy") if shares else node


def _element_of(operation: Operation) -> tuple[Value, int] | None:
    """Return the row of known length and the place that an operation reads one element of."""
    source, place = operation.operands[0] if operation.operands else None, None
    if operation.op == "gather" and operation.attrs["axes"] == (0,) and not operation.result.shape:
        place = static_value(operation.operands[1])
    elif operation.op == "reshape" and not operation.result.shape and source is not None:
        part = source.producer
        if part is not None and part.op == "slice":
            source, place = part.operands[0], part.attrs["start"][0] if len(part.attrs["start"]) == 1 else None
    if source is None or not isinstance(place, int) or len(source.shape) != 1 or not isinstance(source.shape[0], int):
        return None
    return source, place % source.shape[0]


def _only_assigned(body: Sequence[ast.stmt], name: str) -> ast.expr | None:
    """Return what the only statement of a body assigns to a variable, if that is all there is."""
    match body:
        case [ast.Assign([ast.Name(target)], value)] if target == name:
            return value
    return None


def _placeholders(operation: Operation) -> list[str]:
    return [placeholder(i) for i in range(len(operation.operands))]


def _is_of_branch(comment: Comment) -> bool:
    """Return whether the line that a comment shows is that of a branch."""
    return comment.text.partition("  ")[2].startswith(("if ", "elif "))


def _is_distinct(write: Operation) -> bool:
    """Return whether a write by index arrays touches no element twice."""
    for index in write.operands[1:-1]:
        made = index.producer
        if made is not None and len(index.shape) == 1 and made.op in ("iota", "constant"):
            numbers = made.attrs.get("value")
            if numbers is None or (np.all(numbers >= 0) and np.unique(numbers).size == numbers.size):
                return True
    return False


def _adds_rows(write: Operation) -> bool:
    """Return whether so much is added to whole rows of a new array that adding element by element is faster."""
    x, values = write.operands[0], write.operands[-1]
    sizes = (*values.shape, *x.shape)
    return (
        write.attrs["axes"] == (0,)
        and len(x.shape) > 1
        and all(isinstance(n, int) for n in sizes)
        and math.prod(values.shape) >= 4096
        and x.producer is not None
        and x.producer.op == "full"
    )


def _is_parallel(write: Operation) -> bool:
    """Return whether the values of a write are read from the array written to, at another place of the same form."""
    x, values = write.operands[0], write.operands[-1]
    source = values.producer
    if source is None or source.op not in ("slice", "gather") or source.operands[0] is not x:
        return False
    if write.op == "set_slice":
        return source.op == "slice" and source.attrs["step"] == write.attrs["step"]
    return source.op == "gather" and source.attrs["axes"] == write.attrs["axes"]
