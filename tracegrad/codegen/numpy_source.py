"""Writes NumPy source that people read: the user's names and lines, no temporaries that say nothing.

Reads a function in IR, writes the text of a standalone Python module. Previous: poles.py; next: c_expression.py, the
other backend.

What is decided before: which writes happen in place (ir/buffers.py), which operations are part of a larger
expression (folding.py), and the variable of each value (variables.py). Statements are built as syntax trees
(numpy_expressions.py, numpy_statements.py), which text.py prints.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from tracegrad.codegen.folding import LOGIC, placeholder
from tracegrad.codegen.numpy_module import Module, all_values, outer_names
from tracegrad.codegen.numpy_statements import StatementWriter
from tracegrad.codegen.poles import drops_infinities
from tracegrad.codegen.text import BlankLine, print_source
from tracegrad.codegen.trees import (
    MethodCalls,
    call,
    may_raise,
    parse_expression,
    parse_statement,
    scalar_type,
    substitute,
    with_names,
)
from tracegrad.codegen.variables import Names, assign_variables, identifier
from tracegrad.ir.core import Function, Value, walk
from tracegrad.ir.types import BOOL, I64, ArrayType, Dim, SymbolicDim, dim_symbols, is_inexact
from tracegrad.ops.text import dtype_text

#: ops that Python evaluates by itself when all operands are Python numbers
_PYTHON_OPERATORS = frozenset(
    """add subtract multiply negative floor_divide remainder square power equal not_equal less less_equal greater
    greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift select stop_gradient""".split()
)


def emit_numpy(
    function: Function,
    *,
    comments: bool = True,
    warnings: bool = True,
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the text of a Python module that defines the function; it needs NumPy alone.

    Args:
        function: its interface gives the Python signature; without one it takes its flat parameters.
        comments: whether to write the user's line before the statements that come from it.
        warnings: whether the caller sees NumPy's warnings, so that the text must silence those that mean nothing.
        defaults: expressions of the defaults of arguments. An argument without one that comes after one with a default
            goes by keyword.
    """
    return _text(Module(function, comments, warnings), defaults)


def _text(module: Module, defaults: Mapping[str, str]) -> str:
    """Return the text of a module, with all functions that its function calls."""
    waiting = [module.function]
    for current in waiting:
        for operation in walk(current.body):
            callee = operation.attrs.get("function") if operation.op == "call" else None
            if callee is not None and callee not in module.function_names:
                module.function_names[callee] = module.names.fresh(identifier(callee.name, "function"))
                waiting.append(callee)
    definitions = [_FunctionEmitter(module, current, defaults).definition() for current in reversed(waiting)]
    used = set().union(*map(outer_names, [*module.constants, *definitions]))
    helpers = module.helper_definitions(used)
    functions = [*helpers, *definitions]
    used = used.union(*map(outer_names, helpers))
    exchanged = module.stand_ins | {stand_in: own for own, stand_in in module.stand_ins.items()}
    parts = [module.imports(used, exchanged)]
    if module.constants:
        parts.append("\n" + print_source(ast.Module(list(with_names(module.constants, exchanged)), [])))
    parts += ["\n\n" + print_source(ast.Module([d], [])).lstrip("\n") for d in with_names(functions, exchanged)]
    return "".join(parts)


class _FunctionEmitter(StatementWriter):
    """Builds the definition of one function: its signature, what it reads from its arguments, and its result."""

    def __init__(self, module: Module, function: Function, defaults: Mapping[str, str]) -> None:
        super().__init__(module, function)
        self.defaults = defaults
        self.choose_arguments()
        self.choose_sizes()
        self.names = assign_variables(
            function, self.folding, self.buffers, self.argument_of, self.hints(), {*self.taken, *self.sizes.values()}
        )
        module.local_names |= {*self.names.values(), *self.sizes.values()}

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
        for value in all_values(self.function):
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
        hints = {v.name for v in all_values(self.function) if v.producer is None or v.producer.op != "dim"}
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
        if self.module.warnings and drops_infinities(self.function):
            # where a cotangent is zero, factors that are inf or NaN are computed and dropped
            statements = [parse_statement('with np.errstate(divide="ignore", invalid="ignore"):', statements)]
        body = [*self.body, *statements]
        return ast.FunctionDef(self.module.function_names[self.function], self.signature(), body, [], None)

    def signature(self) -> ast.arguments:
        """Return the parameters and their defaults."""
        names = [ast.arg(a) for a in self.arguments]
        interface = self.function.interface if self.function is self.module.function else None
        texts = [self.defaults.get(a) for a in interface.arguments] if interface is not None else [None] * len(names)
        defaults = [None if text is None else parse_expression(text) for text in texts]
        first = next((i for i, default in enumerate(defaults) if default is not None), len(names))
        end = next((i for i in range(first, len(names)) if defaults[i] is None), len(names))
        positional = [default for default in defaults[first:end] if default is not None]
        return ast.arguments([], names[:end], None, names[end:], defaults[end:], None, positional)

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
