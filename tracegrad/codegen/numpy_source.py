"""Writes NumPy source that people read: the user's names and lines, no temporaries that say nothing.

Reads a function in IR, writes the text of a standalone Python module. Previous: variables.py; next: c_expression.py,
the other backend.

What is decided before: which writes happen in place (ir/buffers.py), which operations are part of a larger
expression (folding.py), and the variable of each value (variables.py). Here the statements are built as syntax trees,
which text.py prints.

Broadcasting, which the IR spells out, is left to NumPy: an expression may have a smaller shape than its value as long
as the elementwise operation around it broadcasts it, and it gets its full shape where it leaves such operations.
Numbers are written as Python literals, which never widen a dtype in NumPy 2, as long as another operand has the
dtype.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.codegen.folding import (
    LOGIC,
    LONGEST_TEST,
    Folding,
    dropped_axes,
    inserted_axes,
    is_identity_matrix,
    is_row_of_scalars,
    is_size,
    is_stack,
    is_statement,
    placeholder,
    plan_folding,
)
from tracegrad.codegen.text import BlankLine, Comment, print_source, with_comment
from tracegrad.codegen.trees import (
    MIRRORED,
    MethodCalls,
    add_to,
    assign_to,
    both,
    call,
    expression_statement,
    is_bool,
    is_empty,
    literal,
    logic,
    may_raise,
    method_call,
    negated,
    parse_expression,
    parse_statement,
    scalar_type,
    stored,
    strip_annotations,
    substitute,
    transposed,
    with_names,
    with_sign,
    without_sign,
)
from tracegrad.codegen.variables import Names, assign_variables, identifier
from tracegrad.errors import Span
from tracegrad.ir.bounds import static_value
from tracegrad.ir.buffers import READ_ONLY, carries, carry_params, plan_buffers
from tracegrad.ir.core import Block, Function, Operation, Value, walk
from tracegrad.ir.opdef import TABLE
from tracegrad.ir.triangles import triangle_of
from tracegrad.ir.types import (
    BOOL,
    DTYPES,
    F64,
    I64,
    ArrayType,
    Dim,
    Shape,
    SymbolicDim,
    dim_symbols,
    is_float,
    is_inexact,
)
from tracegrad.ir.writes import filled_number, is_filled_with
from tracegrad.ops import helpers
from tracegrad.ops.shape import slices_text
from tracegrad.ops.text import dtype_text, number_text, numpy_text, shape_text, slice_text, subscript_text

#: names that the generated text uses itself
_RESERVED = frozenset(
    """np math ml_dtypes tracegrad range reversed print complex bool int float ZeroDivisionError ValueError IndexError
    OverflowError TypeError ArithmeticError RuntimeError AssertionError""".split()
)

#: ops that Python evaluates by itself when all operands are Python numbers
_PYTHON_OPERATORS = frozenset(
    """add subtract multiply negative floor_divide remainder square power equal not_equal less less_equal greater
    greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift select stop_gradient""".split()
)
#: longest row that is taken apart in one statement
_LONGEST_ROW = 6
#: largest constant array that is written inside an expression, in elements
_SMALL_CONSTANT = 4


def emit_numpy(function: Function, *, comments: bool = True, warnings: bool = True) -> str:
    """Return the text of a Python module that defines the function; it needs NumPy alone.

    Args:
        function: its interface gives the Python signature; without one it takes its flat parameters.
        comments: whether to write the user's line before the statements that come from it.
        warnings: whether the caller sees NumPy's warnings, so that the text must silence those that mean nothing.
    """
    return _Module(function, comments, warnings).text()


@dataclass(frozen=True, slots=True)
class _Expression:
    """A syntax tree, the shape it evaluates to, and whether it is a number that takes its dtype from around it."""

    node: ast.expr
    shape: Shape
    is_literal: bool = False


class _Module:
    """Collects the functions and constants of one module."""

    def __init__(self, function: Function, comments: bool, warnings: bool = True) -> None:
        self.function, self.comments, self.warnings = function, comments, warnings
        self.helpers = {name: item for name, item in vars(helpers).items() if inspect.isfunction(item)}
        self.names = Names(_RESERVED | set(self.helpers))
        self.local_names = set(function.interface.arguments) if function.interface is not None else set()
        self.local_names |= {v.name for v in _all_values(function) if v.name in self.helpers}
        self.constants: list[ast.stmt] = []
        self.function_names: dict[Function, str] = {}
        self.definitions: list[ast.stmt] = []
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

    def text(self) -> str:
        waiting = [self.function]
        for current in waiting:
            for operation in walk(current.body):
                callee = operation.attrs.get("function") if operation.op == "call" else None
                if callee is not None and callee not in self.function_names:
                    self.function_names[callee] = self.names.fresh(identifier(callee.name, "function"))
                    waiting.append(callee)
        for current in reversed(waiting):
            self.definitions.append(_FunctionEmitter(self, current).definition())
        used = set().union(*map(_outer_names, [*self.constants, *self.definitions]))
        helpers = self.helper_definitions(used)
        functions = [*helpers, *self.definitions]
        used = used.union(*map(_outer_names, helpers))
        exchanged = self.stand_ins | {stand_in: own for own, stand_in in self.stand_ins.items()}
        parts = [self.imports(used, exchanged)]
        if self.constants:
            parts.append("\n" + print_source(ast.Module(list(with_names(self.constants, exchanged)), [])))
        parts += ["\n\n" + print_source(ast.Module([d], [])).lstrip("\n") for d in with_names(functions, exchanged)]
        return "".join(parts)

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
                waiting += [n for n in _outer_names(found[name]) if n in self.helpers]
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


class _FunctionEmitter:
    """Builds the definition of one function."""

    def __init__(self, module: _Module, function: Function) -> None:
        self.module, self.function = module, function
        self.buffers = plan_buffers(function, for_numpy=True)
        self.folding: Folding = plan_folding(function, self.buffers)
        self.in_loop: set[Operation] = {o for loop in _loops(function.body) for b in loop.blocks for o in walk(b)}
        self.read_in_loops = {v for o in self.in_loop for v in o.operands}
        self.templates: dict[Operation, ast.expr] = {}
        self.constants: dict[Operation, ast.expr] = {}
        self.choose_arguments()
        self.choose_sizes()
        self.names = assign_variables(
            function, self.folding, self.buffers, self.argument_of, self.hints(), {*self.taken, *self.sizes.values()}
        )
        module.local_names |= {*self.names.values(), *self.sizes.values()}
        self.body: list[ast.stmt] = []
        self.used_sizes: set[str] = set()
        self.last_line: tuple[str, int] | None = None
        self.in_sweep = False
        #: whether the text has a guard of a zero, and whether a comment says what it is for
        self.has_guard = self.is_explained = False

    # The signature

    def choose_arguments(self) -> None:
        """Choose the Python parameters, and how each flat parameter is read from them."""
        names = Names(self.module.names.taken)
        interface = self.function.interface if self.function is self.module.function else None
        if interface is None:
            self.arguments = [names.fresh(identifier(p.name, "x")) for p in self.function.params]
            self.paths = list(self.arguments)
        else:
            stand_ins: dict[str, ast.expr]
            stand_ins = {own: ast.Name(name, ast.Load()) for own, name in self.module.stand_ins.items()}
            self.arguments = [self.module.stand_ins.get(a, a) for a in interface.arguments]
            self.paths = [ast.unparse(substitute(parse_expression(path), stand_ins)) for path in interface.paths]
        self.argument_of = {
            param: path for param, path in zip(self.function.params, self.paths, strict=True) if path in self.arguments
        }
        self.taken = {*names.taken, *self.arguments} - {*self.argument_of.values(), *self.module.stand_ins.values()}

    def hints(self) -> dict[str, str]:
        """Return the variables that the user's names want, where these are not the names themselves."""
        return {own: name for own, name in self.module.stand_ins.items() if own in self.module.helpers}

    def choose_sizes(self) -> None:
        """Choose a variable for each size symbol: the user's name for it, else the symbol itself."""
        symbols: set[str] = set()
        for value in _all_values(self.function):
            kind = value.type if isinstance(value.type, ArrayType) else value.type.element
            for dim in kind.shape:
                symbols |= dim_symbols(dim)
        named: dict[str, str] = {}
        for operation in walk(self.function.body):
            if operation.op == "dim":
                symbols |= dim_symbols(operation.attrs["dim"])
                text, name = str(operation.attrs["dim"]), operation.result.name
                if text in symbols and name:
                    named.setdefault(text, name)
        names = Names({*self.taken, *self.arguments})
        hints = {v.name for v in _all_values(self.function) if v.producer is None or v.producer.op != "dim"}
        self.sizes = {}
        for symbol in sorted(symbols):
            name = named.get(symbol, symbol)
            self.sizes[symbol] = names.fresh(identifier(f"n_{name}" if name in hints else name))

    def definition(self) -> ast.stmt:
        """Return the def statement."""
        self.block(self.function.body)
        for value in self.function.results:
            if value in self.folding.inline and value.producer is not None and value.producer.operands:
                self.comment(value.producer.span, [value])
        result = self.result_node()
        statements = self.body
        self.body = []
        self.prologue([*statements, ast.Return(result)])
        if self.body:
            self.body.append(BlankLine())
        while statements and isinstance(statements[0], BlankLine):
            statements = statements[1:]
        statements = [MethodCalls().visit(statement) for statement in (*statements, ast.Return(result))]
        if self.module.warnings and _drops_infinities(self.function):
            # where a cotangent is zero, factors that are inf or NaN are computed and dropped
            statements = [parse_statement('with np.errstate(divide="ignore", invalid="ignore"):', statements)]
        body = [*self.body, *statements]
        arguments = ast.arguments([], [ast.arg(a) for a in self.arguments], None, [], [], None, [])
        return ast.FunctionDef(self.module.function_names[self.function], arguments, body, [], None)

    def prologue(self, statements: Sequence[ast.stmt]) -> None:
        """Read what the statements use from the arguments: parts of structures, then sizes."""
        nodes = [n for s in statements for n in ast.walk(s)]
        used = {n.id for n in nodes if isinstance(n, ast.Name)}
        # Python floats raise where NumPy's give inf or NaN
        raises = any(isinstance(n, ast.BinOp) and may_raise(n) for n in nodes)
        for param, path in zip(self.function.params, self.paths, strict=True):
            if self.names[param] not in used:
                continue
            if raises and not param.shape and is_inexact(param.dtype):
                self.assign(self.names[param], parse_expression(f"{dtype_text(param.dtype)}({path})"))
            elif param not in self.argument_of:
                self.assign(self.names[param], parse_expression(path))
        for symbol, variable in self.sizes.items():
            if variable in used:
                self.assign(variable, self.size_node(symbol, used))

    def size_node(self, symbol: str, used: set[str]) -> ast.expr:
        """Return an expression that reads a size from the shape of a parameter."""
        found: list[tuple[int, str]] = []
        for param, path in zip(self.function.params, self.paths, strict=True):
            base = self.names[param] if self.names[param] in used and param not in self.argument_of else path
            for axis, dim in enumerate(param.shape):
                text = _solve(dim, symbol, f"{base}.shape[{axis}]")
                if text:
                    found.append((len(text), text))
        assert found, f"no parameter of @{self.function.name} shows the size {symbol}"
        return parse_expression(min(found)[1])

    def result_node(self) -> ast.expr:
        """Return the expression of the return statement."""
        nodes = []
        for position, value in enumerate(self.function.results):
            nodes.append(self.returned(value, position in self.buffers.copied_results))
        interface = self.function.interface if self.function is self.module.function else None
        if interface is None:
            return nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, ast.Load())
        template = parse_expression(interface.result.format(*map(placeholder, range(len(nodes)))))
        return substitute(template, {placeholder(i): node for i, node in enumerate(nodes)})

    def returned(self, value: Value, copied: bool) -> ast.expr:
        expression = self.expression(value)
        if value.shape:
            return self.owned(expression, value, copied=copied)
        if copied or expression.is_literal or self.is_python_number(value):
            return call(scalar_type(value.dtype), expression.node)
        return expression.node

    def is_python_number(self, value: Value) -> bool:
        """Return whether a scalar may be a Python int or bool at run time rather than a NumPy one."""
        if value.dtype not in (I64, BOOL):
            return False
        producer = value.producer
        if producer is None or producer.blocks or producer.op in (*LOGIC, "dim", "constant", "full", "undefined"):
            return True
        return producer.op in _PYTHON_OPERATORS and all(map(self.is_python_number, producer.operands))

    # Statements

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
        """Say before the first statement with a guard what it is for."""
        if self.has_guard and not self.is_explained and self.module.comments:
            self.body.insert(-1, Comment("zero stays zero, even times infinity"))
            self.is_explained = True

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

    def owned(self, expression: _Expression, value: Value, *, copied: bool = False) -> ast.expr:
        """Return an expression for a value that is kept, and perhaps written to; on demand a copy."""
        # a broadcast that was left to NumPy but not done by it makes a view that cannot be written to
        is_broadcast = expression.shape != value.shape and READ_ONLY not in self.buffers.roots[value]
        return self.full(expression, value, fresh=copied or is_broadcast)

    def nested(self, block: Block) -> Any:
        """Build statements of a nested block inside a with statement."""
        return _Nested(self, block)

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

    in_nested = 0

    def is_of_sweep(self, span: Span | None, results: Sequence[Value]) -> bool:
        """Return whether a statement is one of the sweep of cotangents."""
        named = any(self.names.get(r, r.name).startswith("ct_") for r in results)
        return named or (span is not None and span.reverse)

    def statement(self, operation: Operation) -> None:
        if operation.op not in ("stack", "undefined"):
            self.comment(operation.span, operation.results)
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

    def branch(self, operation: Operation) -> None:
        bodies = []
        for nested in operation.blocks:
            with self.nested(nested) as body:
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
            test, then, otherwise = negated(test, exact=False), otherwise, []
        match otherwise:
            case [Comment() as comment, ast.If() as inner] if _is_elif(comment):
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
        with self.nested(block) as body:
            self.block(block)
            self.assign_together(block.params[1:], block.yields, [False] * len(block.yields))
        if not is_empty(body):
            index = ast.Name(self.names[block.params[0]], ast.Store())
            self.body.append(ast.For(index, iterator, body, []))

    def while_loop(self, loop: Operation) -> None:
        self.start_carries(loop)
        condition, block = loop.blocks
        with self.nested(condition) as head:
            self.block(condition)
            test = self.test(condition.yields[0])
        with self.nested(block) as body:
            self.block(block)
            self.assign_together(block.params, block.yields, [False] * len(block.yields))
        if head:
            leave = ast.If(negated(test, exact=False), [ast.Break()], [])
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
        return producer is not None and bool(producer.operands) and producer.operands[0].dtype.kind in "iub"

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
                written = _Expression(item, ())
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

    def place_text(self, write: Operation, written: _Expression) -> str:
        """Return the subscript of a slice that is written to; a scalar is written to `[0]` rather than `[:1]`."""
        shape = write.operands[0].shape
        if written.shape:
            return slices_text(write, shape)
        places = zip(*(write.attrs[k] for k in ("start", "stop", "step")), shape, strict=True)
        return subscript_text([str(a) if b - a == 1 and d != 1 else slice_text(a, b, s, d) for a, b, s, d in places])

    def only_item(self, value: Value) -> ast.expr | None:
        """Return x[1] for a slice x[1:2] of one element."""
        part = value.producer
        if part is None or part.op != "slice" or value.shape != (1,) or part in self.buffers.copied_views:
            return None
        return ast.Subscript(
            self.whole(part.operands[0]), self.rename_sizes(parse_expression(str(part.attrs["start"][0]))), ast.Load()
        )

    def unshared(self, value: Value, written: Value, node: ast.expr) -> ast.expr:
        """Return the expression of a value, copied when it may lie in the array that is being written."""
        shares = self.buffers.may_share(value, written) and self.lies_elsewhere(node)
        return method_call(node, "copy") if shares else node

    # Expressions

    def expression(self, value: Value) -> _Expression:
        """Return the expression for a use of a value; it may have a smaller shape that broadcasts to the value's."""
        if value not in self.folding.inline:
            return _Expression(ast.Name(self.names[value], ast.Load()), value.shape)
        assert value.producer is not None
        return self.build(value.producer)

    def whole(self, value: Value) -> ast.expr:
        """Return the expression for a use of a value that needs its exact shape and dtype."""
        return self.full(self.expression(value), value)

    def full(self, expression: _Expression, value: Value, *, fresh: bool = False) -> ast.expr:
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

    def filled(self, expression: _Expression, value: Value, shape: ast.expr) -> ast.expr:
        """Return an array of one number."""
        dtype, node = value.dtype, expression.node
        keyword = [] if dtype == F64 else [ast.keyword("dtype", parse_expression(dtype_text(dtype)))]
        if expression.is_literal and isinstance(node, ast.Constant) and dtype != BOOL and node.value in (0, 1):
            return ast.Call(parse_expression("np.ones" if node.value else "np.zeros"), [shape], keyword)
        return call("np.full", shape, node if dtype == F64 else self.typed(expression, dtype))

    def typed(self, expression: _Expression, dtype: Any) -> ast.expr:
        """Return an expression that has its dtype by itself, not from what surrounds it."""
        if expression.is_literal and dtype not in (I64, BOOL):
            return call(dtype_text(dtype), expression.node)
        return expression.node

    def build(self, operation: Operation) -> _Expression:
        """Return the expression of an operation."""
        value = operation.result
        match operation.op:
            case "constant":
                return self.constant(operation)
            case "full":
                return _Expression(literal(operation.attrs["value"], value.dtype), (), is_literal=True)
            case "dim":
                return _Expression(self.dim_node(operation.attrs["dim"]), ())
            case "cast" if is_identity_matrix(operation):
                size = value.shape[0]
                keyword = "" if value.dtype == F64 else f", dtype={dtype_text(value.dtype)}"
                return _Expression(self.rename_sizes(parse_expression(f"np.eye({size}{keyword})")), value.shape)
            case "cast" if is_size(operation):
                return _Expression(self.expression(operation.operands[0]).node, (), is_literal=True)
            case "select" if triangle_of(operation) is not None:
                return _Expression(self.fill(self.template(operation), operation), value.shape)
            case "broadcast_to":
                inner = self.expression(operation.operands[0])
                if value in self.folding.inline:
                    return inner
                view = call("np.broadcast_to", self.typed(inner, value.dtype), self.shape_node(value.shape))
                return _Expression(view, value.shape)
            case "iota" if len(value.shape) > 1:
                return self.iota(operation)
            case "reshape" if 0 in inserted_axes(operation) and value in self.folding.inline:
                return self.without_leading_axes(operation)
            case "reshape" if value in self.folding.inline and self.folding.texts[operation] == placeholder(0):
                return self.expression(operation.operands[0])
            case "concatenate" if is_row_of_scalars(operation):
                mapping = {placeholder(i): self.scalar(v) for i, v in enumerate(operation.operands)}
                return _Expression(substitute(self.template(operation), mapping), value.shape)
            case "concatenate" if is_stack(operation):
                rows = [v.producer.operands[0] for v in operation.operands if v.producer is not None]
                mapping = {placeholder(i): self.whole(row) for i, row in enumerate(rows)}
                return _Expression(substitute(self.template(operation), mapping), value.shape)
            case "reshape" if (item := self.item_of_slice(operation)) is not None:
                return _Expression(item, value.shape)
            case "transpose" if (swapped := self.swapped_product(operation)) is not None:
                return _Expression(swapped, value.shape)
        if TABLE[operation.op].elementwise:
            return self.elementwise(operation)
        if operation.op == "gather" and value.shape and operation.operands[1].shape:
            return _Expression(self.gather(operation), value.shape)
        node = self.fill(self.template(operation), operation)
        if operation.op == "reduce_sum" and (opposite := without_sign(self.whole(operation.operands[0]))) is not None:
            mapping = {placeholder(0): opposite}
            node = ast.UnaryOp(ast.USub(), substitute(self.template(operation), mapping))
        return _Expression(method_call(node, "copy") if operation in self.buffers.copied_views else node, value.shape)

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

    def iota(self, operation: Operation) -> _Expression:
        """Return positions along one axis, as a shape that broadcasts to all axes."""
        shape, dtype, axis = (operation.attrs[k] for k in ("shape", "dtype", "axis"))
        keyword = "" if dtype == I64 else f", dtype={dtype_text(dtype)}"
        columns = "".join(", None" for _ in shape[axis + 1 :])
        node = self.rename_sizes(
            parse_expression(f"np.arange({shape[axis]}{keyword}){f'[:{columns}]' if columns else ''}")
        )
        return _Expression(node, (shape[axis], *(1 for _ in shape[axis + 1 :])))

    def without_leading_axes(self, reshape: Operation) -> _Expression:
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
        return _Expression(node, shape)

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

    def elementwise(self, operation: Operation) -> _Expression:
        operands = [self.expression(v) for v in operation.operands]
        self.has_guard |= operation.op == "keep_zero"
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
            return _Expression(logic(operation.op, nodes, is_scalar=not shape), shape)
        if operation.op == "select" and not shape:
            condition, yes, no = nodes
            return _Expression(ast.IfExp(condition, yes, no), shape, operands[1].is_literal or operands[2].is_literal)
        if operation.op == "cast" and not shape:
            return _Expression(call(scalar_type(dtype), nodes[0]), shape)
        if operation.op == "power" and operands[1].is_literal:
            return _Expression(ast.BinOp(nodes[0], ast.Pow(), nodes[1]), shape)
        if operation.op == "power" and not operands[1].shape and operation.result.shape:
            # the text converts an exponent of another dtype as the array that is not written here
            exponent = call(dtype_text(dtype), nodes[1]) if operation.operands[1].dtype != dtype else nodes[1]
            return _Expression(ast.BinOp(nodes[0], ast.Pow(), exponent), shape)
        if operation.op in MIRRORED and operands[0].is_literal and not operands[1].is_literal:
            return _Expression(ast.Compare(nodes[1], [MIRRORED[operation.op]()], [nodes[0]]), shape)
        if operation.op == "negative" and is_float(dtype):
            return _Expression(with_sign(nodes[0]), shape)
        if operation.op in ("add", "subtract") and (opposite := without_sign(nodes[1])) is not None:
            operator = ast.Sub() if operation.op == "add" else ast.Add()
            return _Expression(ast.BinOp(nodes[0], operator, opposite), shape)
        mapping = {placeholder(i): node for i, node in enumerate(nodes)}
        return _Expression(substitute(template, mapping), shape)

    def gather(self, operation: Operation) -> ast.expr:
        """Return an indexing expression; index arrays broadcast against each other."""
        x, *indices = operation.operands
        if operation in self.folding.windows:
            place: list[ast.expr] = [*[ast.Slice()] * operation.attrs["axes"][0], self.window(operation)]
            node: ast.expr = ast.Subscript(
                self.whole(x), place[0] if len(place) == 1 else ast.Tuple(place, ast.Load()), ast.Load()
            )
            node = node if len(place) == 1 else transposed(node)
            return node if self.is_read_at_once(operation.result) else method_call(node, "copy")
        expressions = [self.expression(i) for i in indices]
        if _broadcast([e.shape for e in expressions]) != indices[0].shape:
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

    def constant(self, operation: Operation) -> _Expression:
        value, array = operation.result, operation.attrs["value"]
        if not value.shape:
            return _Expression(literal(array.item() if array.dtype.kind in "iub" else array, value.dtype), (), True)
        node = self.constants.get(operation)
        if node is None:
            pattern = _pattern_text(array)
            node = parse_expression(pattern or self.folding.texts[operation])
            is_short = bool(pattern) or (array.size <= _SMALL_CONSTANT and self.use_count(value) == 1)
            if not is_short or operation in self.in_loop or value in self.read_in_loops:
                node = self.module.constant(value.name or ("IDENTITY" if pattern.startswith("np.eye") else ""), node)
            self.constants[operation] = node
        return _Expression(node, value.shape)

    def shape_node(self, shape: Shape) -> ast.expr:
        return self.rename_sizes(parse_expression(shape_text(shape)))

    def dim_node(self, dim: Dim) -> ast.expr:
        return self.rename_sizes(parse_expression(str(dim)))

    def rename_sizes(self, node: ast.expr) -> ast.expr:
        """Replace size symbols by their variables, in a tree without other variables."""
        if all(symbol == variable for symbol, variable in self.sizes.items()):
            return node
        return substitute(node, {s: ast.Name(v, ast.Load()) for s, v in self.sizes.items()})


class _Nested:
    """Collects statements in a list of their own."""

    def __init__(self, emitter: _FunctionEmitter, block: Block) -> None:
        self.emitter, self.block = emitter, block

    def __enter__(self) -> list[ast.stmt]:
        self.outer = self.emitter.body
        self.emitter.body = []
        self.emitter.in_nested += 1
        return self.emitter.body

    def __exit__(self, *_: object) -> None:
        self.emitter.body = self.outer
        self.emitter.in_nested -= 1


def _outer_names(tree: ast.AST) -> set[str]:
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


def _is_elif(comment: Comment) -> bool:
    return comment.text.partition("  ")[2].startswith("elif ")


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


def _solve(dim: Dim, symbol: str, size: str) -> str:
    """Return the text of a symbol's value when `dim` has the size `size`; '' when it does not tell."""
    if not isinstance(dim, SymbolicDim):
        return ""
    terms = dict(dim.terms)
    coefficient = terms.pop((symbol,), 0)
    constant = terms.pop((), 0)
    if terms or coefficient <= 0:
        return ""
    text = f"({size} - {constant})" if constant > 0 else f"({size} + {-constant})" if constant else size
    return text if coefficient == 1 else f"{text} // {coefficient}"


def _all_values(function: Function) -> Sequence[Value]:
    values = list(function.params)
    for operation in walk(function.body):
        values += operation.results
        for block in operation.blocks:
            values += block.params
    return values


def _drops_infinities(function: Function) -> bool:
    """Return whether a derivative computes quotients that a choice may drop, or guards factors."""
    operations = list(walk(function.body))
    if any(o.op in ("keep_zero", "isfinite") for o in operations):
        return True
    if not any(r.name.startswith("ct_") for o in operations for r in o.results):
        return False
    for operation in operations:
        if operation.op == "select":
            _, x, y = operation.operands
            kept = y if is_filled_with(x, 0) else x if is_filled_with(y, 0) else None
            again = kept is not None and kept.producer is not None and kept.producer.op == "select"
            if kept is not None and _has_quotient(kept, spread=again):
                return True
    return False


def _has_quotient(value: Value, *, spread: bool, limit: int = 12) -> bool:
    """Return whether a factor or a term of a value is a quotient, or a function with poles.

    Args:
        spread: whether one that is broadcast counts; what is shared by the elements of an axis is seldom dropped.
        limit: how many operations back it is searched.
    """
    passing = {"multiply", "add", "subtract", "negative", "square", "select"}
    passing |= {"broadcast_to", "reshape"} if spread else set()
    level = {value}
    for _ in range(limit):
        producers = {v.producer for v in level if v.producer is not None}
        for operation in producers:
            if any(TABLE[operation.op].singular):
                if operation.op != "divide" or not _is_nonzero_number(operation.operands[1]):
                    return True
        level = {
            operand
            for operation in producers
            if operation.op in passing and not any(TABLE[operation.op].singular)
            for operand in operation.operands
        }
    return False


def _is_nonzero_number(value: Value) -> bool:
    number = filled_number(value)
    return number is not None and number != 0


def _loops(block: Block) -> Sequence[Operation]:
    return [o for o in walk(block) if o.op in ("for", "while")]
