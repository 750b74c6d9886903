"""Converts a Python function: its control flow, calls and stores become calls of hooks.

Reads a function object; gives another one with the same closure cells, defaults and positions, that reaches the hooks
through the free variable `tg__`. Previous: scopes.py; next: hooks.py, which says what the hooks do.

    if c: x = f(a)          def tg_then():
                                nonlocal x
                                x = tg__.name("x", tg__.call(f, a))
                            def tg_else(): pass
                            def tg_set(tg_values):
                                nonlocal x
                                (x,) = tg_values
                            tg__.if_stmt(c, tg_then, tg_else, lambda: (x,), tg_set, ("x",))

The hooks (operators are named as their special methods: "add" for `__add__`, "lt" for `__lt__`; "is_not", "not_in"):

    if_stmt(test, then_fn, else_fn, get_state, set_state, names)        if_exp(test, then_fn, else_fn)
    while_stmt(test_fn, body_fn, get_state, set_state, names)           and_(x, *fns)    or_(x, *fns)    not_(x)
    for_stmt(iterable, body_fn, get_state, set_state, names, extra_test) compare_chain(x, operators, fns)
    call(f, *args, **kwargs)    getitem(x, key)    setitem(x, key, value)    setattr(x, name, value)
    exchange(x, keys, other_keys)       `x[i], x[j] = x[j], x[i]` where no name holds an item of x
    delitem(x, key)    delattr(x, name)
    aug_name(x, operator, value)    aug_setitem(x, key, operator, value)    aug_setattr(x, name, operator, value)
    binding(fn, get_state, set_state, names)                            a part of an expression with `:=`
    name(name, value)    load(value, name)    undefined(name)    unpack(value, count, index of the starred target)
    mapping(x)                          a dict in a display with `**x`
    iter(x)    truth(x)    guard(x)    assert_(test, message_fn)    ret(value)    getattr(x, name)
    display(list, dict or generator)    binding_generator(generator)
    outer(value, name, read_fn)         a read of a global or of a closure variable of the function converted
    rebinds(name, read_fn, carried)     at the start of a function that declares a variable global or nonlocal
    cells(read_fn)                      at the start of a function whose variables functions inside it rebind
    operate(operator, x, y)             `x + y`, `x < y`, `x in y` and so on
    unary(operator, x)                  `-x`, `+x`, `~x`
    try_stmt(fn, get_state, set_state, names)   a `try` whose handlers go on
    trial(handled)    step(number, is_left)     around its body; around each statement of it
    raises(kinds, error)                a handler that only raises another exception
    alike(kinds)                        one that goes on in the same way from all that it catches
    raised(x)    cause(x)               what `raise x` raises, and `raise error from x` notes
    attempt(handled)    passing()       around the body of another `try`; the type of a handler before the others
    context(manager)                    around the context manager of a `with`
    text(*parts)    format(value, conversion, spec)     an f-string and its pieces

In a generator, a statement with a `yield` in it stays what it is, since a function of its own cannot yield for another:

    decide(test)    items(iterable)     the test of an `if` or `while`, and what a `for` runs over, around a `yield`
    suspending(generator, emits, ...)   such a generator, or what gives its items to an emitter by emit and emit_all,
                                        which return whether it has got all that it wants
    carrying(emitter, get_state, ...)   the state of a statement that emits items, with that of what is done with them
"""

from __future__ import annotations

import ast
import copy
import inspect
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import gast

from tracegrad.capture.jumps import (
    completes,
    ends_in_raise,
    is_endless,
    is_trial,
    jumps,
    lower_jumps,
    only_raises,
    parts,
)
from tracegrad.capture.matching import lower_matches
from tracegrad.capture.nodes import (
    FUNCTIONS,
    HOOKS,
    LOOPS,
    SLICE,
    Fresh,
    Make,
    Node,
    assignment_expressions,
    bindings,
    is_store,
    parameter_names,
    settled_bindings,
    walk_scope,
)
from tracegrad.capture.regrown import mark_regrown, mark_renewed
from tracegrad.capture.scopes import Flow, declarations, free_names
from tracegrad.capture.source import FUTURE_FLAGS, FunctionSource, SourceUnavailable, find_source
from tracegrad.capture.suppressed import is_suppressing, lower_suppressed
from tracegrad.capture.swaps import mark_swaps

OPERATORS = {
    gast.Add: "add",
    gast.Sub: "sub",
    gast.Mult: "mul",
    gast.MatMult: "matmul",
    gast.Div: "truediv",
    gast.FloorDiv: "floordiv",
    gast.Mod: "mod",
    gast.Pow: "pow",
    gast.LShift: "lshift",
    gast.RShift: "rshift",
    gast.BitOr: "or",
    gast.BitXor: "xor",
    gast.BitAnd: "and",
    gast.Lt: "lt",
    gast.LtE: "le",
    gast.Eq: "eq",
    gast.NotEq: "ne",
    gast.Gt: "gt",
    gast.GtE: "ge",
    gast.Is: "is",
    gast.IsNot: "is_not",
    gast.In: "in",
    gast.NotIn: "not_in",
}

UNARY = {gast.USub: "neg", gast.UAdd: "pos", gast.Invert: "invert"}

# They read the locals of the frame that calls them, which conversion splits over several frames.
FRAME_READERS = {"globals": 0, "locals": 0, "vars": 0, "dir": 0, "eval": 1, "exec": 1}

# Methods and builtins that write to nothing, so that an operand may be read after them.
PURE_METHODS = frozenset(
    "all any argmax argmin astype clip conj copy cumprod cumsum diagonal dot flatten get item max mean min nonzero "
    "prod ravel repeat reshape round squeeze std sum swapaxes trace transpose var".split()
)
PURE_BUILTINS = frozenset("abs bool complex float int len max min pow range round sum tuple".split())

_converted: dict[int, types.CodeType] = {}  # every code object inside a converted one, by id
_cache: dict[int, tuple[types.CodeType, types.CodeType | SourceUnavailable]] = {}  # by id of the original


def convert(function: types.FunctionType, hooks: object) -> types.FunctionType:
    """Return `function` converted, so that it calls `hooks`; a function that is converted already is returned as it is.

    Raises: SourceUnavailable, when it must run unconverted.
    """
    code = function.__code__
    if id(code) in _converted:
        converted = code
    else:
        if id(code) not in _cache:
            try:
                _cache[id(code)] = code, _convert_code(function)
            except SourceUnavailable as error:
                _cache[id(code)] = code, error
            except RecursionError:  # not kept: the stack may have been deep before
                raise SourceUnavailable(f"{function.__qualname__} nests its branches too deep") from None
        outcome = _cache[id(code)][1]
        if isinstance(outcome, SourceUnavailable):
            raise SourceUnavailable(outcome.reason, outcome.remedy)
        converted = outcome
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    if converted is code and (HOOKS not in cells or cells[HOOKS].cell_contents is hooks):
        return function
    cells |= {HOOKS: types.CellType(hooks), SLICE: types.CellType(slice)}
    closure = tuple(cells[name] for name in converted.co_freevars)
    result = types.FunctionType(converted, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__ = function.__kwdefaults__
    result.__qualname__, result.__module__, result.__doc__ = (
        function.__qualname__,
        function.__module__,
        function.__doc__,
    )
    result.__dict__.update(function.__dict__)
    return result


def _raised_instead(handler: Node) -> Node | None:
    """Return what a handler that only raises another exception raises, to be converted once more."""
    again = _raises_again(handler)
    return copy.deepcopy(handler.body[0].exc) if only_raises(handler.body) and not again else None


def _raises_again(handler: Node) -> bool:
    """Return whether a handler only raises what it has caught."""
    if not only_raises(handler.body):
        return False
    raised, name = handler.body[0].exc, handler.name
    return raised is None or (isinstance(raised, gast.Name) and name is not None and raised.id == name.id)


def _uses_error(handler: Node) -> bool:
    """Return whether a handler that goes on reads or raises what it has caught."""
    if any(_raised_again([handler.body])):
        return True
    names = (n.id for statement in handler.body for n in gast.walk(statement) if isinstance(n, gast.Name))
    return handler.name is not None and handler.name.id in names


def _raised_again(lists: Iterable[list[Node]]) -> Iterator[Node]:
    """Yield each `raise` without an exception in lists of statements, but for those in handlers."""
    for statement in itertools.chain(*lists):
        if isinstance(statement, gast.Raise) and statement.exc is None:
            yield statement
        elif isinstance(statement, LOOPS):
            yield from _raised_again([statement.body, statement.orelse])
        elif isinstance(statement, gast.Try):
            yield from _raised_again([statement.body, statement.orelse, statement.finalbody])
        else:
            yield from _raised_again(parts(statement))


def is_converted(function: types.FunctionType) -> bool:
    """Return whether `function` is, or was defined in, a converted function."""
    return id(function.__code__) in _converted


def dump_converted(function: types.FunctionType) -> str:
    """Return the text of the converted function, for people to read.

    Raises: SourceUnavailable, when it cannot be converted.
    """
    factory = _convert_source(function, find_source(function))
    definition = factory.body[0]
    definition.name = function.__name__ if function.__name__.isidentifier() else definition.name
    return ast.unparse(ast.fix_missing_locations(gast.gast_to_ast(gast.Module([definition], []))))


#: expressions whose value is their truth, or is made of the truth of others
_TRUTHS = (gast.BoolOp, gast.Compare, gast.UnaryOp, gast.Constant)


class CodeStore(Protocol):
    """Keeps converted code between processes."""

    def load(self, code: types.CodeType) -> types.CodeType | None:
        """Return what was saved for a code object, or None."""

    def save(self, code: types.CodeType, converted: types.CodeType) -> None:
        """Keep the converted form of a code object."""


_store: CodeStore | None = None


def keep_converted(store: CodeStore) -> None:
    """Keep converted code in `store` from now on."""
    global _store
    _store = store


def _convert_code(function: types.FunctionType) -> types.CodeType:
    converted = _store.load(function.__code__) if _store is not None else None
    if converted is None:
        converted = _compile_converted(function)
        if _store is not None:
            _store.save(function.__code__, converted)
    for part in _all_codes(converted):
        _converted[id(part)] = part
    return converted


def _compile_converted(function: types.FunctionType) -> types.CodeType:
    code = function.__code__
    source = find_source(function)
    factory, class_name = _convert_source(function, source), source.class_name
    module = [factory]
    if class_name is not None:  # so that the compiler mangles names such as __x
        module = [Make(factory).at(gast.ClassDef(class_name, [], [], module, [], []))]
    tree = gast.gast_to_ast(gast.Module(module, []))
    try:
        compiled = compile(tree, source.file, "exec", code.co_flags & FUTURE_FLAGS, dont_inherit=True)
    except SyntaxError as error:
        raise SourceUnavailable(f"{function.__qualname__} does not compile once converted: {error}") from None
    for _ in range(3 if class_name is not None else 2):  # (the class,) the factory, the function
        compiled = next(c for c in compiled.co_consts if isinstance(c, types.CodeType))
    return _rename(compiled, code.co_name, code.co_qualname)


def _convert_source(function: types.FunctionType, source: FunctionSource) -> Node:
    """Return a function definition that takes the free variables of `function` and defines it, converted."""
    node, place = source.node, Make(source.node)
    if isinstance(node, gast.Lambda):
        body = [Make(node.body).returns(node.body)]
        node = place.at(gast.FunctionDef("lambda_", node.args, body, [], None, None, []))
    fresh = Fresh(node)
    if HOOKS in fresh.used or SLICE in fresh.used:
        raise SourceUnavailable(f"{function.__qualname__} uses a name of tracegrad's own")
    lower_matches(node, fresh)
    lower_suppressed(node, fresh)
    node.decorator_list, node.returns = [], None
    node.args.defaults, node.args.kw_defaults = [], [None for _ in node.args.kwonlyargs]
    for part in gast.walk(node.args):
        part.annotation = None
    definition = _Converter(fresh, source.class_name).function(node, frozenset())
    # Not its own name: that would hide the global of that name from a recursive call.
    definition.name = fresh.unique("tg_function")
    free = [*function.__code__.co_freevars, HOOKS, SLICE]
    return place.function(fresh.unique("tg_factory"), free, [definition])


class _Converter(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    """Converts the statements of one function, which `Flow` has annotated."""

    def __init__(self, fresh: Fresh, class_name: str | None, enclosing: frozenset[str] = frozenset()) -> None:
        self.fresh, self.class_name = fresh, class_name
        self.inner = enclosing  # names of enclosing converted functions, and of lambdas and comprehensions around
        self.flow: Flow
        self.globals: frozenset[str] = frozenset()
        self.tracked: frozenset[str] = frozenset()
        self.first_parameter: str | None = None
        self.prelude: list[Node] = []  # function definitions that go before the statement in work
        self.hoistable = True  # whether an expression may be moved into the prelude: not out of lambda, comprehension

    # Functions and classes.

    def function(self, node: Node, outer: frozenset[str]) -> Node:
        """Convert the body of a function in place. `outer`: names of enclosing functions that may be unbound in it."""
        if node.type_params:
            raise SourceUnavailable(f"line {node.lineno}: {node.name} has type parameters")
        globals_, nonlocals = declarations(node.body)
        mark_swaps(node.body)
        parameters = [*parameter_names(node.args)]
        if can_emit(node):
            node.body = self.emitting(node, parameters)
        mark_regrown(node.body, frozenset(parameters))
        mark_renewed(node.body, frozenset(parameters))
        original, suspends = bindings(node.body), yields(node.body)
        body = lower_jumps(node.body, self.fresh, Make(node.body[-1]))
        self.flow = Flow(node.args, body, original, globals_ | nonlocals, outer)
        self.globals, self.tracked = globals_, self.flow.tracked()
        positional = [*node.args.posonlyargs, *node.args.args]
        self.first_parameter = positional[0].id if positional else None
        place = Make(node.body[0])
        documented = isinstance(body[0], gast.Expr) and isinstance(body[0].value, gast.Constant)
        start = body[: 1 if documented else 0]
        unbound = [name for name in self.flow.undefined if name not in self.flow.parameters]
        node.body = [
            *start,
            *self.declare({**dict.fromkeys(sorted(globals_)), **dict.fromkeys(sorted(nonlocals))}, nonlocals, place),
            *(self.rebinds(name, body, place) for name in sorted(globals_ | nonlocals)),
            *(place.assign(name, place.hook("undefined", place.constant(name))) for name in unbound),
            *self.cells(place),
            *self.block(body[len(start) :]),
        ]
        if suspends and not yields(node.body):  # a `yield` that is never reached makes a generator of it
            node.body.append(place.expression(place.at(gast.Yield(None))))
        return node

    def emitting(self, node: Node, parameters: list[str]) -> list[Node]:
        """Return the body of a function that gives what a generator function does: it has the generator and a function
        that gives each item to an emitter (comprehensions.py)."""
        place, emitter = Make(node.body[0]), self.fresh.unique("tg_emitter")
        generator = place.function(self.fresh.unique("tg_generator"), parameters, node.body)
        generator.tg_suspends = True
        emits = place.function(self.fresh.unique("tg_emits"), [emitter, *parameters], copy.deepcopy(node.body))
        emits.body = [_Emission(emitter).visit(statement) for statement in emits.body]
        has_no_end = not completes(node.body) and "return" not in jumps(node.body)
        given = [place.load(emits.name), place.constant(has_no_end), *map(place.load, parameters)]
        made = place.call(generator.name, *given)
        made.tg_emits = "suspending"
        return [generator, emits, place.returns(made)]

    def carried(self, body: list[Node], place: Make) -> Callable[[list[Node]], list[Node]]:
        """Return what adds to the state of a statement that of the loop which gets the items emitted in its body."""
        emitters = [n.func.id for n in walk_scope(body) if getattr(n, "tg_emits", "") in ("emit", "emit_all")]

        def carry(state: list[Node]) -> list[Node]:
            if not emitters:
                return state
            return [place.at(gast.Starred(place.hook("carrying", place.load(emitters[0]), *state), gast.Load()))]

        return carry

    def rebinds(self, name: str, body: list[Node], place: Make) -> Node:
        """Return the statement that says that this function stores into a variable from outside."""
        carried = any(name in getattr(node, "tg_state", ()) for node in walk_scope(body))
        place = next((Make(node) for node in walk_scope(body) if is_store(node, name)), place)
        read = place.thunk(place.load(name))
        return place.expression(place.hook("rebinds", place.constant(name), read, place.constant(carried)))

    def cells(self, place: Make) -> list[Node]:
        """Return the statement that says which variables of this function others rebind."""
        rebound = [place.load(name) for name in self.flow.rebound]
        return [place.expression(place.hook("cells", place.thunk(place.tuple(rebound))))] if rebound else []

    def nested(self, node: Node, outer: frozenset[str], class_name: str | None) -> None:
        """Convert a function that is defined inside this one; coroutines stay as they are."""
        if isinstance(node, gast.FunctionDef):
            enclosing = self.inner | self.flow.locals
            _Converter(self.fresh, class_name, enclosing).function(node, outer & self.tracked)

    def visit_FunctionDef(self, node: Node) -> Node:
        node.decorator_list = [Make(d).hook("decorator", self.visit(d)) for d in node.decorator_list]
        self.visit_defaults(node.args)
        self.nested(node, node.tg_outer, self.class_name)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: Node) -> Node:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.bases = [self.visit(b) for b in node.bases]
        node.keywords = [self.visit(k) for k in node.keywords]
        self.visit_methods(node, node.tg_outer)
        return node

    def visit_methods(self, node: Node, outer: frozenset[str]) -> None:
        """Convert the methods of a class. The rest of its body stays: functions of hooks do not see its names."""
        for statement in node.body:
            if isinstance(statement, FUNCTIONS):
                self.nested(statement, outer, node.name)
            elif isinstance(statement, gast.ClassDef):
                self.visit_methods(statement, outer)

    def visit_Lambda(self, node: Node) -> Node:
        self.visit_defaults(node.args)
        outside = self.hoistable, self.first_parameter, self.inner
        positional = [*node.args.posonlyargs, *node.args.args]
        self.hoistable, self.first_parameter = False, positional[0].id if positional else None
        self.inner |= frozenset(parameter_names(node.args))
        node.body = self.visit(node.body)
        self.hoistable, self.first_parameter, self.inner = outside
        return node

    def visit_defaults(self, arguments: Node) -> None:
        arguments.defaults = [self.visit(d) for d in arguments.defaults]
        arguments.kw_defaults = [None if d is None else self.visit(d) for d in arguments.kw_defaults]

    # Blocks and regions.

    def block(self, statements: Iterable[Node]) -> list[Node]:
        converted: list[Node] = []
        for statement in statements:
            outside, self.prelude = self.prelude, []
            result = self.visit(statement)
            converted += self.prelude
            converted += result if isinstance(result, list) else [result]
            self.prelude = outside
        return converted

    def region(self, name: str, statements: list[Node], place: Make) -> Node:
        """Return a function without parameters that runs `statements` on the variables of this function."""
        bound = settled_bindings(statements)
        return place.function(self.fresh.shared(name), [], self.body(bound, self.block(statements), place))

    def body(self, bound: Iterable[str], statements: list[Node], place: Make) -> list[Node]:
        """Return the body of a function that rebinds the variables `bound` of this one."""
        names = dict.fromkeys(bound)
        return [*self.declare(names, names, place), *statements] or [place.at(gast.Pass())]

    def declare(self, names: Iterable[str], nonlocals: Iterable[str], place: Make) -> list[Node]:
        names = list(names)
        shared = [n for n in names if n in self.globals]
        own = [n for n in names if n not in self.globals and n in nonlocals]
        declarations = [place.at(gast.Global(shared))] if shared else []
        return [*declarations, *([place.at(gast.Nonlocal(own))] if own else [])]

    def state(
        self, kept: tuple[str, ...], place: Make, reset: tuple[str, ...] = (), setter_name: str = ""
    ) -> tuple[list[Node], list[Node]]:
        """Return definitions for the state of a statement, and its arguments get_state, set_state, names.

        The state begins with the names that are `kept` after the statement.
        """
        names = (*kept, *reset)
        get = place.thunk(place.tuple([place.load(name) for name in names]))
        values = self.fresh.shared("tg_values")
        if not names:
            return [], [get, place.thunk(place.constant(None), [values]), place.names(kept)]
        targets = place.tuple([place.store(name) for name in names], gast.Store())
        name = setter_name or self.fresh.shared("tg_set")
        setter = place.function(name, [values], self.body(names, [place.assign(targets, place.load(values))], place))
        return [setter], [get, place.load(name), place.names(kept)]

    # Control flow.

    def visit_If(self, node: Node) -> Node | list[Node]:
        place = Make(node, node.test)
        test = self.visit(as_test(node.test))
        if yields([*node.body, *node.orelse]):
            node.test = place.hook("decide", test)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        carry = self.carried([*node.body, *node.orelse], place)
        then, orelse = self.region("tg_then", node.body, place), self.region("tg_else", node.orelse, place)
        definitions, state = self.state(node.tg_state, place, node.tg_reset)
        hook = getattr(node, "tg_hook", "if_stmt")
        call = place.hook(hook, test, place.load(then.name), place.load(orelse.name), *carry(state))
        return [then, orelse, *definitions, place.expression(call)]

    def visit_While(self, node: Node) -> Node | list[Node]:
        place = Make(node, node.test)
        test = as_test(node.test)
        if yields([test, *node.body]):
            node.test = place.hook("decide", self.visit(test))
            node.body = [*self.block(node.body), *self.leave(node, place)]
            return node
        if node.tg_flags:
            running = place.negation(place.any_of(node.tg_flags))
            test = running if is_endless(node) else as_test(place.at(gast.BoolOp(gast.And(), [running, test])))
        bound = assignment_expressions(test)
        outside, self.prelude = self.prelude, []
        test = self.visit(test)
        inside, self.prelude = self.prelude, outside
        carry = self.carried(node.body, place)
        body = self.region("tg_body", node.body, place)
        definitions, state = self.state(node.tg_state, place)
        if bound or inside:
            name = self.fresh.shared("tg_test")
            statements = self.body(bound, [*inside, place.returns(test)], place)
            definitions.insert(0, place.function(name, [], statements))
            test = place.load(name)
        else:
            test = place.thunk(test)
        call = place.hook("while_stmt", test, place.load(body.name), *carry(state))
        return [body, *definitions, place.expression(call)]

    def leave(self, node: Node, place: Make) -> list[Node]:
        """Return what ends a loop with a `yield` in it by its flags, at the end of its body."""
        if not node.tg_flags:
            return []
        test = place.hook("decide", self.visit(place.any_of(node.tg_flags)))
        return [place.at(gast.If(test, [place.at(gast.Break())], []))]

    def visit_For(self, node: Node) -> Node | list[Node]:
        place, target = Make(node, node.iter), Make(node.target)
        iterable = self.visit(node.iter)
        if yields(node.body):
            item = self.fresh.unique("tg_item")
            body = [*self.assign(node.target, target.load(item), target), *self.block(node.body)]
            node.target, node.iter = target.store(item), place.hook("items", iterable)
            node.body = [*body, *self.leave(node, place)]
            return node
        bound = settled_bindings([node.target, *node.body])
        item, carry = self.fresh.shared("tg_item"), self.carried(node.body, place)
        statements = [*self.assign(node.target, target.load(item), target), *self.block(node.body)]
        body = place.function(self.fresh.shared("tg_body"), [item], self.body(bound, statements, place))
        definitions, state = self.state(node.tg_state, place)
        going = place.constant(None)
        if node.tg_flags:
            going = place.thunk(self.visit(place.negation(place.any_of(node.tg_flags))))
        call = place.hook("for_stmt", iterable, place.load(body.name), *carry(state), going)
        return [body, *definitions, place.expression(call)]

    def visit_With(self, node: Node) -> Node:
        for position, item in enumerate(node.items):
            hook = "suppressing" if is_suppressing(item) else "context"
            item.context_expr = Make(item.context_expr).hook(hook, self.visit(item.context_expr))
            target = item.optional_vars
            if target is not None and not isinstance(target, gast.Name):
                place = Make(target)
                name = self.fresh.shared("tg_value")
                item.optional_vars = place.store(name)
                node.body, rest = self.assign(target, place.load(name), place), node.body
                if later := node.items[position + 1 :]:
                    rest = [Make(node).at(gast.With(later, rest, None))]
                node.items, node.body = node.items[: position + 1], [*node.body, *self.block(rest)]
                return node
        node.body = self.block(node.body)
        return node

    def visit_Try(self, node: Node) -> Node | list[Node]:
        if not is_trial(node):
            return self.attempt(node)
        place, bound = Make(node.body[0]), settled_bindings([node])
        body = place.function(self.fresh.shared("tg_try"), [], self.body(bound, self.attempt(node), place))
        definitions, state = self.state(node.tg_state, place, node.tg_reset)
        return [body, *definitions, place.expression(place.hook("try_stmt", place.load(body.name), *state))]

    def statements(self, statements: list[Node]) -> list[Node]:
        """Convert the body of a `try`, of which statements are left out when they were run before."""
        if len(statements) == 1 and not isinstance(statements[0], LOOPS):
            return self.block(statements)
        result, can_be_left = [], (gast.If, *LOOPS)
        for number, statement in enumerate(statements):
            place = Make(statement)
            test = place.hook("step", place.constant(number), place.constant(isinstance(statement, can_be_left)))
            result.append(place.at(gast.If(test, self.block([statement]) or [place.at(gast.Pass())], [])))
        if isinstance(statements[-1], can_be_left):
            place = Make(statements[-1])
            result.append(place.expression(place.hook("step", place.constant(len(statements)), place.constant(False))))
        return result

    def attempt(self, node: Node) -> list[Node]:
        """Convert the parts of a `try`."""
        place = Make(node.body[0])
        instead = [_raised_instead(handler) for handler in node.handlers]
        is_looked_for = not all(map(_raises_again, node.handlers))
        node.body = self.statements(node.body) if is_trial(node) else self.block(node.body)
        node.orelse = self.block(node.orelse)
        for handler in node.handlers:
            handler.type = handler.type and self.visit(handler.type)
        if is_looked_for:
            kinds = place.tuple([self.handled(h, e) for h, e in zip(node.handlers, instead, strict=True)])
            hook = "trial" if is_trial(node) else "attempt"
            attempt = gast.withitem(place.hook(hook, place.thunk(kinds)), None)
            node.body = [place.at(gast.With([attempt], node.body, None))]
        for handler in node.handlers:
            again = self.name_again(handler.body)
            handler.body = self.block(handler.body)
            if handler.name is not None and handler.tg_kept and handler.name.id in self.tracked:
                place, name = Make(handler), handler.name.id
                handler.name.id = self.fresh.shared("tg_error")
                forget = place.assign(name, place.hook("undefined", place.constant(name)))
                handler.body = [
                    place.assign(name, place.load(handler.name.id)),
                    place.at(gast.Try(handler.body, [], [], [forget])),
                ]
            if again:
                place = Make(handler)
                if handler.name is None:
                    handler.name = gast.Name(again, gast.Store(), None, None)
                else:
                    handler.body.insert(0, place.assign(again, place.load(handler.name.id)))
        if node.handlers:
            node.handlers.insert(0, self.passing(place))
        return self.finish(node, self.block(node.finalbody)) if node.finalbody else [node]

    def passing(self, place: Make, *before: Node) -> Node:
        """Return the handler that raises capture's own exceptions again; before: what it does before."""
        again = place.at(gast.Raise(None, None))
        return place.at(gast.ExceptHandler(place.hook("passing"), None, [*before, again]))

    def finish(self, node: Node, last: list[Node]) -> list[Node]:
        """Return a `try` whose `finally` is left out when capture leaves the code, to run it again or to end."""
        place, name = Make(node.body[0]), self.fresh.unique("tg_left")
        node.finalbody = []
        inner = [node] if node.handlers else node.body
        noted = self.passing(place, place.assign(name, place.constant(True)))
        guarded = place.at(gast.If(place.negation(place.load(name)), last, []))
        return [
            place.assign(name, place.constant(False)),
            place.at(gast.Try([place.at(gast.Try(inner, [noted], [], []))], [], [], [guarded])),
        ]

    def name_again(self, body: list[Node]) -> str:
        """Return a name for the exception that a handler raises again inside a statement, or "": parts of statements
        become functions, in which another exception may be the last one."""
        found = [inner for inner in _raised_again([body]) if inner not in body]
        name = self.fresh.unique("tg_again") if found else ""
        for inner in found:
            inner.tg_again = name
        return name

    def handled(self, handler: Node, error: Node | None) -> Node:
        """Return what a handler catches; of one that raises, with what it raises."""
        place = Make(handler)
        kinds = place.constant(None) if handler.type is None else handler.type
        if not ends_in_raise(handler.body):
            return kinds if _uses_error(handler) else place.hook("alike", kinds)
        name = handler.name.id if handler.name is not None else self.fresh.shared("tg_error")
        if _raises_again(handler):
            error = place.load(name)
        elif error is not None:
            error = self.visit(error)
        makes = place.constant(None) if error is None else place.thunk(error, [name])
        return place.hook("raises", kinds, makes)

    def visit_Raise(self, node: Node) -> Node:
        if hasattr(node, "tg_again"):
            node.exc = Make(node).load(node.tg_again)
            return node
        node = self.generic_visit(node)
        if node.exc is not None:
            node.exc = Make(node.exc).hook("raised", node.exc)
        if node.cause is not None:
            node.cause = Make(node.cause).hook("cause", node.cause)
        return node

    def visit_Match(self, node: Node) -> Node:
        node.subject = self.visit(node.subject)
        for case in node.cases:
            if case.guard is not None:
                case.guard = Make(case.guard).hook("guard", self.visit(case.guard))
            case.body = self.block(case.body)
        return node

    def visit_Return(self, node: Node) -> Node:
        place = Make(node)
        value = place.constant(None) if node.value is None else self.visit(node.value)
        return place.returns(place.hook("ret", value))

    def visit_Assert(self, node: Node) -> list[Node]:
        if not __debug__:
            return []
        place = Make(node)
        message = place.thunk(place.constant(None)) if node.msg is None else self.thunk(node.msg)
        return [place.expression(place.hook("assert_", self.visit(as_test(node.test)), message))]

    def visit_Global(self, node: Node) -> list[Node]:
        return []  # said at the start of the function

    visit_Nonlocal = visit_Global

    # Stores.

    def visit_Assign(self, node: Node) -> list[Node]:
        place, swap = Make(node), getattr(node, "tg_swap", None)
        if swap is not None:
            keys = [place.tuple([self.visit(key) for key in part]) for part in (swap.targets, swap.sources)]
            return [place.expression(place.hook("exchange", self.visit(swap.base), *keys))]
        stable = len(node.targets) == 1 and self.is_stable_under(node.targets[0], node.value)
        pairs = self.pairs(node)
        if pairs is not None:
            names = place.at(gast.Tuple([name for name, _ in pairs], gast.Store()))
            return [place.assign(names, place.tuple([self.named(name, value) for name, value in pairs]))]
        value = self.visit(node.value)
        if getattr(node, "tg_renews", False):
            value = place.hook("renew", place.load(node.targets[0].id), value)
        if stable or (len(node.targets) == 1 and isinstance(node.targets[0], gast.Name | gast.Tuple | gast.List)):
            return self.assign(node.targets[0], value, place)
        name = self.fresh.shared("tg_value")
        statements = [place.assign(name, value)]
        for target in node.targets:
            statements += self.assign(target, place.load(name), place)
        return statements

    def visit_AnnAssign(self, node: Node) -> list[Node]:
        if node.value is None:
            return []
        return self.visit_Assign(Make(node).assign(node.target, node.value))

    def pairs(self, node: Node) -> list[tuple[Node, Node]] | None:
        """Return names with their values for `a, b = x, y`; None for all other assignments."""
        target, value = node.targets[0], node.value
        if len(node.targets) > 1 or not isinstance(target, gast.Tuple) or not isinstance(value, gast.Tuple):
            return None
        if len(target.elts) != len(value.elts) or not all(isinstance(t, gast.Name) for t in target.elts):
            return None
        if any(isinstance(v, gast.Starred) for v in value.elts):
            return None
        return list(zip(target.elts, value.elts, strict=True))

    def named(self, target: Node, value: Node) -> Node:
        place, is_constant = Make(value), isinstance(value, gast.Constant)
        value = self.visit(value)
        return value if is_constant else place.hook("name", place.constant(target.id), value)

    def assign(self, target: Node, value: Node, place: Make) -> list[Node]:
        """Return statements that assign `value`, which is converted, to `target`, which is not."""
        if isinstance(target, gast.Name):
            if not isinstance(value, gast.Constant) and not target.id.startswith("tg_"):
                value = place.hook("name", place.constant(target.id), value)
            return [place.assign(target, value)]
        if isinstance(target, gast.Starred):
            return self.assign(target.value, value, place)
        if isinstance(target, gast.Attribute):
            name = place.constant(self.mangled(target.attr))
            return [place.expression(place.hook("setattr", self.visit(target.value), name, value))]
        if isinstance(target, gast.Subscript):
            key = self.visit(target.slice)
            return [place.expression(place.hook("setitem", self.visit(target.value), key, value))]
        return self.unpack(target.elts, value, place)

    def unpack(self, targets: Sequence[Node], value: Node, place: Make) -> list[Node]:
        stars = [i for i, target in enumerate(targets) if isinstance(target, gast.Starred)]
        parts = [target.value if isinstance(target, gast.Starred) else target for target in targets]
        count, star = place.constant(len(parts)), place.constant(stars[0] if stars else None)
        value = place.hook("unpack", value, count, star)
        plain = all(isinstance(part, gast.Name) for part in parts)
        names = [part.id if plain else self.fresh.unique("tg_item") for part in parts]
        store = place.tuple([place.store(name) for name in names], gast.Store())
        statements = [place.assign(store, value)]
        for part, name in zip(parts, names, strict=True):
            statements += self.assign(part, place.load(name), place)
        return statements

    def visit_AugAssign(self, node: Node) -> list[Node]:
        place, operator = Make(node), OPERATORS[type(node.op)]
        target = node.target
        symbol = place.constant(operator)
        if isinstance(target, gast.Name):
            old = Make(target).load(target.id)
            old.tg_unbound = target.tg_unbound
            value = place.hook("aug_name", self.visit(old), symbol, self.visit(node.value))
            return [place.assign(target, value)]
        is_pure = self.is_pure(node.value)
        if isinstance(target, gast.Attribute):
            kind, key = "attr", place.constant(self.mangled(target.attr))
        else:
            kind, key = "item", self.visit(target.slice)
        owner, value = self.visit(target.value), self.visit(node.value)
        if is_pure:
            return [place.expression(place.hook(f"aug_set{kind}", owner, key, symbol, value))]
        # Python reads the old value before it evaluates the operand, which may write to the same place.
        owner_name, key_name = self.fresh.shared("tg_owner"), self.fresh.shared("tg_key")
        statements = [place.assign(owner_name, owner)]
        if kind == "item":
            statements.append(place.assign(key_name, key))
            key, old = place.load(key_name), place.hook("getitem", place.load(owner_name), place.load(key_name))
        else:
            old = place.hook("getattr", place.load(owner_name), key)
        value = place.hook("aug_name", old, symbol, value)
        return [*statements, place.expression(place.hook(f"set{kind}", place.load(owner_name), key, value))]

    def visit_Delete(self, node: Node) -> list[Node]:
        statements: list[Node] = []
        for target in node.targets:
            place = Make(target)
            if isinstance(target, gast.Tuple | gast.List):
                statements += self.visit_Delete(place.at(gast.Delete(target.elts)))
            elif isinstance(target, gast.Name) and target.id in self.tracked:
                read = place.load(target.id)
                read.tg_unbound = True
                statements.append(place.expression(self.visit(read)))
                statements.append(place.assign(target.id, place.hook("undefined", place.constant(target.id))))
            elif isinstance(target, gast.Attribute):
                name = place.constant(self.mangled(target.attr))
                statements.append(place.expression(place.hook("delattr", self.visit(target.value), name)))
            elif isinstance(target, gast.Subscript):
                owner = self.visit(target.value)
                statements.append(place.expression(place.hook("delitem", owner, self.visit(target.slice))))
            else:
                statements.append(place.at(gast.Delete([target])))
        return statements

    def mangled(self, attribute: str) -> str:
        """Return the name of an attribute as the compiler has it: `__x` in class `C` is `_C__x`."""
        owner = (self.class_name or "").lstrip("_")
        if not owner or not attribute.startswith("__") or attribute.endswith("__"):
            return attribute
        return f"_{owner}{attribute}"

    # Order of evaluation. Python evaluates the right side of `x[k] = v` first, a call of a hook evaluates it last.

    def is_stable_under(self, target: Node, value: Node) -> bool:
        """Return whether the parts of `target` may be evaluated before `value`."""
        if isinstance(value, gast.Constant):
            return True
        if any(isinstance(n, gast.NamedExpr) for n in gast.walk(value)):
            return False
        simple = (gast.Constant, gast.UnaryOp, gast.BinOp, gast.Slice, gast.Tuple, gast.operator, gast.unaryop)
        own = self.flow.locals - set(self.flow.rebound)
        keeps_names = self.is_pure(value)
        parts = (
            [target.value, target.slice]
            if isinstance(target, gast.Subscript)
            else [target.value]
            if isinstance(target, gast.Attribute)
            else []
        )
        return bool(parts) and all(
            isinstance(n, simple + (gast.expr_context,))
            or (isinstance(n, gast.Name) and (keeps_names or n.id in own))
            or (keeps_names and isinstance(n, gast.Attribute | gast.Subscript))
            for part in parts
            for n in gast.walk(part)
        )

    def is_pure(self, value: Node) -> bool:
        """Return whether evaluating `value` writes to nothing, as far as the text shows."""
        for node in gast.walk(value):
            if isinstance(node, gast.NamedExpr | gast.Yield | gast.YieldFrom):
                return False
            if isinstance(node, gast.Call):
                function = node.func
                if isinstance(function, gast.Name):
                    if function.id not in PURE_BUILTINS or function.id in self.flow.locals:
                        return False
                elif not isinstance(function, gast.Attribute):
                    return False
                elif function.attr not in PURE_METHODS and not self.is_module_function(function):
                    return False
        return True

    def is_module_function(self, node: Node) -> bool:
        """Return whether `node` is written as a function of a module, such as `np.linalg.norm`."""
        while isinstance(node, gast.Attribute):
            node = node.value
        return isinstance(node, gast.Name) and node.id in ("np", "numpy", "math", "scipy", "special")

    # Expressions.

    def thunk(self, node: Node) -> Node:
        """Return an expression for a function without parameters that evaluates `node`."""
        place, bound = Make(node), assignment_expressions(node)
        kept = dict.fromkeys(n.id for n in walk_scope([node]) if getattr(n, "tg_live", False))
        value = self.visit(node)
        if not bound:
            return place.thunk(value)
        name = self.fresh.unique("tg_operand")  # `:=` in a lambda would bind a name of the lambda
        definitions, state = self.state(tuple(kept), place, setter_name=self.fresh.unique("tg_set_operand"))
        self.prelude += [place.function(name, [], self.body(bound, [place.returns(value)], place)), *definitions]
        return place.hook("binding", place.load(name), *state)

    def can_split(self, node: Node) -> bool:
        """Return whether the operands of `node` may become functions."""
        return not yields([node]) and (self.hoistable or not assignment_expressions(node))

    def visit_Name(self, node: Node) -> Node:
        if isinstance(node.ctx, gast.Load) and getattr(node, "tg_unbound", False) and node.id in self.tracked:
            return Make(node).hook("load", node, Make(node).constant(node.id))
        if isinstance(node.ctx, gast.Load) and self.is_outer(node.id):
            place = Make(node)
            return place.hook("outer", node, place.constant(node.id), place.thunk(place.load(node.id)))
        return node

    def is_outer(self, name: str) -> bool:
        """Return whether a name belongs to no function that is being converted."""
        own = self.flow.locals - self.globals
        return name not in own and name not in self.inner and not name.startswith(("tg_", "__"))

    def visit_Attribute(self, node: Node) -> Node:
        value, name = self.visit(node.value), self.mangled(node.attr)
        if not isinstance(node.ctx, gast.Load):
            node.value = value
            return node
        return Make(node).hook("getattr", value, Make(node).constant(name))

    def visit_List(self, node: Node) -> Node:
        node = self.generic_visit(node)
        return Make(node).hook("display", node) if isinstance(node.ctx, gast.Load) else node

    def visit_Dict(self, node: Node) -> Node:
        node = self.generic_visit(node)
        node.values = [
            value if key is not None else Make(value).hook("mapping", value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return Make(node).hook("display", node)

    def visit_NamedExpr(self, node: Node) -> Node:
        node.value = Make(node).hook("name", Make(node).constant(node.target.id), self.visit(node.value))
        return node

    def visit_JoinedStr(self, node: Node) -> Node:
        return Make(node).hook("text", *(self.visit(part) for part in node.values))

    def visit_FormattedValue(self, node: Node) -> Node:
        place = Make(node)
        conversion = place.constant("" if node.conversion == -1 else chr(node.conversion))
        spec = place.constant("") if node.format_spec is None else self.visit(node.format_spec)
        return place.hook("format", self.visit(node.value), conversion, spec)

    def visit_IfExp(self, node: Node) -> Node:
        if not self.can_split(node):
            return self.generic_visit(node)
        place = Make(node)
        return place.hook("if_exp", self.visit(as_test(node.test)), self.thunk(node.body), self.thunk(node.orelse))

    def visit_BoolOp(self, node: Node) -> Node:
        if not self.can_split(node):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, gast.And) else "or_"
        first, *others = node.values
        return Make(node).hook(name, self.visit(first), *(self.thunk(value) for value in others))

    def visit_UnaryOp(self, node: Node) -> Node:
        if getattr(node, "tg_holds", False):
            return Make(node).hook("holds", self.visit(node.operand))
        operand = self.visit(as_test(node.operand) if isinstance(node.op, gast.Not) else node.operand)
        if isinstance(node.op, gast.Not):
            return Make(node).hook("not_", operand)
        if isinstance(operand, gast.Constant):
            node.operand = operand
            return node
        return Make(node).hook("unary", Make(node).constant(UNARY[type(node.op)]), operand)

    def visit_Starred(self, node: Node) -> Node:
        node.value = self.visit(node.value)
        if isinstance(node.ctx, gast.Load):
            node.value = Make(node).hook("iter", node.value)
        return node

    def visit_YieldFrom(self, node: Node) -> Node:
        node.value = Make(node).hook("iter", self.visit(node.value))
        return node

    def visit_BinOp(self, node: Node) -> Node:
        place = Make(node)
        name = place.constant(OPERATORS[type(node.op)])
        return place.hook("operate", name, self.visit(node.left), self.visit(node.right))

    def visit_Compare(self, node: Node) -> Node:
        if len(node.ops) == 1:
            place = Make(node)
            name = place.constant(OPERATORS[type(node.ops[0])])
            return place.hook("operate", name, self.visit(node.left), self.visit(node.comparators[0]))
        if not self.can_split(node):
            return self.generic_visit(node)
        place = Make(node)
        operators = place.names(OPERATORS[type(op)] for op in node.ops)
        operands = place.tuple([self.thunk(comparator) for comparator in node.comparators])
        return place.hook("compare_chain", self.visit(node.left), operators, operands)

    def visit_Call(self, node: Node) -> Node:
        place, function = Make(node), node.func
        if hasattr(node, "tg_emits"):
            return place.hook(node.tg_emits, function, *map(self.visit, node.args))
        if isinstance(function, gast.Name) and function.id not in self.flow.locals:
            if function.id == "super":
                if not node.args and self.class_name is not None and self.first_parameter is not None:
                    node.args = [place.load("__class__"), place.load(self.first_parameter)]
                return node
            if len(node.args) + len(node.keywords) <= FRAME_READERS.get(function.id, -1):
                raise SourceUnavailable(f"line {node.lineno}: {function.id}() reads the variables of its caller")
        function = self.visit(function)
        arguments = [self.argument(argument) for argument in node.args]
        return place.hook("call", function, *arguments, keywords=[self.visit(k) for k in node.keywords])

    def argument(self, node: Node) -> Node:
        """Convert an argument of a call; a generator expression becomes a list if the function reads all of it."""
        if isinstance(node, gast.GeneratorExp) and self.is_stageable(node):
            return Make(node).hook("generated", self.steps(node))
        if isinstance(node, gast.Starred):
            node.value = Make(node).hook("spread", self.visit(node.value))
            return node
        return self.visit(node)

    def visit_Subscript(self, node: Node) -> Node:
        return Make(node).hook("getitem", self.visit(node.value), self.visit(node.slice))

    def visit_Slice(self, node: Node) -> Node:
        place = Make(node)
        parts = (node.lower, node.upper, node.step)
        return place.call(SLICE, *(place.constant(None) if part is None else self.visit(part) for part in parts))

    def visit_ListComp(self, node: Node) -> Node:
        if self.is_stageable(node):
            return Make(node).hook("collect", self.steps(node))
        return self.visit_comprehension_expression(node)

    def visit_comprehension_expression(self, node: Node) -> Node:
        """Convert a comprehension that stays one: its parts are converted."""
        first, outside, inner = node.generators[0], self.hoistable, self.inner
        first.iter = Make(first.iter).hook("iter", self.visit(first.iter))
        self.hoistable = False
        self.inner |= comprehended_names(node)
        for generator in node.generators:
            if generator is not first:
                generator.iter = Make(generator.iter).hook("iter", self.visit(generator.iter))
            generator.ifs = [Make(test).hook("test", self.visit(test)) for test in generator.ifs]
        for field in ("key", "value") if isinstance(node, gast.DictComp) else ("elt",):
            setattr(node, field, self.visit(getattr(node, field)))
        self.hoistable, self.inner = outside, inner
        if isinstance(node, gast.GeneratorExp) and assignment_expressions(node):
            return Make(node).hook("binding_generator", node)
        return node if isinstance(node, gast.SetComp) else Make(node).hook("display", node)

    def visit_DictComp(self, node: Node) -> Node:
        if not self.is_stageable(node) or not any(generator.ifs for generator in node.generators):
            return self.visit_comprehension_expression(node)
        pair = Make(node.key).tuple([node.key, node.value])
        pairs = Make(node).at(gast.ListComp(pair, node.generators))
        pairs.tg_state = getattr(node, "tg_state", ())
        return Make(node).hook("collect_items", self.steps(pairs))

    visit_SetComp = visit_comprehension_expression

    def visit_GeneratorExp(self, node: Node) -> Node:
        if is_stageable(node) and not assignment_expressions(node):
            return Make(node).hook("generator", self.steps(node))
        return self.visit_comprehension_expression(node)

    def is_stageable(self, node: Node) -> bool:
        """Return whether the parts of a comprehension may become functions here."""
        return is_stageable(node) and (self.hoistable or not assignment_expressions(node))

    def steps(self, node: Node) -> Node:
        """Return an expression for the steps of a comprehension (comprehensions.py)."""
        outside, inner, bound = self.hoistable, self.inner, assignment_expressions(node)
        values = self.visit(node.generators[0].iter)
        self.hoistable = bool(bound)
        self.inner |= comprehended_names(node)
        before, step = self.part(node.elt)
        step = Make(node.elt).hook("item", step)
        for number, generator in reversed([*enumerate(node.generators)]):
            for test in reversed(generator.ifs):
                then = self.step(Make(test), [], before, step, bound)
                before, holds = self.part(as_test(test))
                before, step = [*before, *then[0]], Make(test).hook("when", holds, then[1])
            place, names = Make(generator.iter), [n.id for n in names_of(generator.target)]
            definitions, body = self.step(place, names, before, step, bound)
            before, iterable = self.part(generator.iter) if number else ([], values)
            step = place.hook("each", iterable, self.pattern(generator.target), body)
            before = [*before, *definitions]
        if bound:
            definitions, state = self.state(node.tg_state, Make(node), setter_name=self.fresh.unique("tg_set_names"))
            self.prelude += [*before, *definitions]
            step.args += state
        self.hoistable, self.inner = outside, inner
        return step

    def part(self, node: Node) -> tuple[list[Node], Node]:
        """Convert a part of a comprehension; return the definitions that it needs too."""
        outside, self.prelude = self.prelude, []
        value = self.visit(node)
        definitions, self.prelude = self.prelude, outside
        return definitions, value

    def step(
        self, place: Make, names: list[str], before: list[Node], step: Node, bound: dict[str, None]
    ) -> tuple[list[Node], Node]:
        """Return an expression for a step as a function, and its definition where it binds names of this function."""
        if not bound:
            return [], place.thunk(step, names)
        function = place.function(self.fresh.unique("tg_step"), names, [])
        function.body = self.body(bound, [*before, place.returns(step)], place)
        return [function], place.load(function.name)

    def pattern(self, target: Node) -> Node:
        """Return an expression for the structure of a target: a name, or a tuple for what is unpacked."""
        place = Make(target)
        if isinstance(target, gast.Name):
            return place.constant(target.id)
        return place.tuple([self.pattern(part) for part in target.elts])


class _Emission(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    """Turns each `yield` of a generator function into the emission of an item, after which it may return."""

    def __init__(self, emitter: str) -> None:
        self.emitter = emitter

    def visit_Expr(self, node: Node) -> Node:
        given = node.value
        if not isinstance(given, gast.Yield | gast.YieldFrom):
            return node
        place = Make(given)
        emission = place.call(self.emitter, place.constant(None) if given.value is None else given.value)
        emission.tg_emits = "emit" if isinstance(given, gast.Yield) else "emit_all"
        return place.at(gast.If(emission, [place.returns(None)], []))

    def visit_FunctionDef(self, node: Node) -> Node:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_FunctionDef


def as_test(node: Node) -> Node:
    """Return an expression of which only the truth is used: its operands need not be values of one kind."""
    if isinstance(node, gast.BoolOp):
        node.values = [value if isinstance(value, _TRUTHS) else holds(value) for value in map(as_test, node.values)]
    return node


def holds(node: Node) -> Node:
    """Return an expression for the truth of a value."""
    test = Make(node).at(gast.UnaryOp(gast.Not(), node))
    test.tg_holds = True
    return test


def names_of(target: Node) -> Iterator[Node]:
    """Yield the names in the target of a comprehension, from left to right."""
    if isinstance(target, gast.Name):
        yield target
    else:
        for part in target.elts:
            yield from names_of(part)


def comprehended_names(node: Node) -> frozenset[str]:
    """Return the names that a comprehension has for itself."""
    return frozenset(n.id for generator in node.generators for n in names_of(generator.target))


def is_stageable(node: Node) -> bool:
    """Return whether the parts of a comprehension may become functions: names keep their scopes and their values."""
    own, outside = comprehended_names(node), list(gast.walk(node.generators[0].iter))
    called = [a for n in gast.walk(node) if isinstance(n, gast.Call) for a in n.args]
    for part in gast.walk(node):
        if isinstance(part, gast.Await | gast.Yield | gast.YieldFrom):
            return False
        if isinstance(part, gast.Lambda) and assignment_expressions(part.body):
            return False
        if isinstance(part, gast.Lambda) and part not in outside and not own.isdisjoint(free_names(part)):
            return False  # it would have the value of its own item, where Python's has that of the last one
        if isinstance(part, gast.GeneratorExp) and part is not node and part not in called and part not in outside:
            return False
        if isinstance(part, gast.comprehension):
            plain = all(isinstance(t, gast.Name | gast.Tuple | gast.List | gast.Store) for t in gast.walk(part.target))
            if part.is_async or not plain or len(set(names := [n.id for n in names_of(part.target)])) < len(names):
                return False
    return True


def can_emit(node: Node) -> bool:
    """Return whether what a generator function yields, some of it in a branch or loop, can be given to a function."""
    if hasattr(node, "tg_suspends") or not isinstance(node, gast.FunctionDef):
        return False
    nodes = list(walk_scope(node.body))
    given = [n for n in nodes if isinstance(n, gast.Yield | gast.YieldFrom)]
    if sum(isinstance(n, gast.Expr) and n.value in given for n in nodes) < len(given):
        return False
    if any(isinstance(n, gast.Return) and n.value is not None for n in nodes):
        return False
    if any(isinstance(n, gast.With | gast.Try) and _handles(n) and yields(n.body) for n in nodes):
        return False  # what is done with an item would be in it too
    return any(isinstance(n, (gast.If, *LOOPS)) and yields([n]) for n in nodes)


def _handles(statement: Node) -> bool:
    """Return whether a statement may do something with an exception of its body."""
    return isinstance(statement, gast.With) or bool(statement.handlers)


def yields(nodes: Iterable[Node]) -> bool:
    """Return whether a function is suspended in `nodes`."""
    return any(isinstance(n, gast.Yield | gast.YieldFrom) for n in walk_scope(nodes))


def _all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _all_codes(constant)


def _rename(code: types.CodeType, name: str, qualname: str) -> types.CodeType:
    """Return `code` under a name; the functions made for its statements get the same one, for tracebacks."""
    inside = f"{qualname}.<locals>" if code.co_flags & inspect.CO_NEWLOCALS else qualname
    constants: list[object] = []
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name.startswith("tg_"):
                constant = _rename(constant, name, qualname)
            else:
                constant = _rename(constant, constant.co_name, f"{inside}.{constant.co_name}")
        elif isinstance(constant, str) and constant == code.co_qualname:  # of a class, which stores it
            constant = qualname
        constants.append(constant)
    return code.replace(co_name=name, co_qualname=qualname, co_consts=tuple(constants))
