"""The functional interface: decorator and transforms on plain NumPy functions.

Reads functions and their arguments; calls driver/pipeline.py for each new signature, and runtime/ to call the result.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, overload

import numpy as np
import optree

from tracegrad import ops
from tracegrad.capture import context
from tracegrad.capture.calls import call as call_captured
from tracegrad.capture.context import Place
from tracegrad.capture.convert import keep_converted
from tracegrad.capture.entry import function_name
from tracegrad.capture.guards import lift
from tracegrad.capture.known import leaves_of_call
from tracegrad.capture.sizes import SMALLEST
from tracegrad.capture.tracer import Tracer, apply
from tracegrad.config import BACKENDS, load_options
from tracegrad.driver import inner_gradients, pipeline, specialization
from tracegrad.driver.batching import Batch
from tracegrad.driver.cache import open_cache
from tracegrad.driver.code_store import CodeStore
from tracegrad.driver.derive import Request, leaf_numbers, no_pair
from tracegrad.driver.launch import Dispatcher, build_dispatcher, build_forward
from tracegrad.driver.specialization import Program, Specialization
from tracegrad.driver.tangents import check_still, tangent_leaves, tangent_name
from tracegrad.errors import ArgumentError, ArgumentTypeError, TracegradError
from tracegrad.frames import user_frames, with_user_frames
from tracegrad.ir.printer import print_function
from tracegrad.ir.types import is_inexact, symbol
from tracegrad.runtime.signature import NAMESPACE, Signature, flatten, signature_of, unflatten
from tracegrad.suggestion import suggest

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("tracegrad")

#: attribute of a function that keeps its transforms
MEMORY = "__tracegrad_transforms__"
#: specializations kept per function and signature; more mean that a guard fails again and again
MAX_VARIANTS = 32


class Transformed:
    """A function made by one of the transforms; call it like the original.

    `.source(*args)` gives its generated code, `.ir(*args)` and `.lower(*args)` its IR.
    """

    __tracegrad__ = True

    def __init__(
        self,
        function: Callable[..., Any],
        request: RequestMaker,
        backend: str | None,
        made_by: tuple[Callable[..., Any], tuple[Any, ...]],
        dynamic: bool = False,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._request, self._made_by = function, request, made_by
        self._backend = _check_backend(backend)
        self._parameters = parameters_of(function)
        self._lock = threading.RLock()
        self._specializations = Specializations(self._compile, self._discard, dynamic)
        self._dispatch: Callable[..., Any] = self._first
        self._dispatcher: Dispatcher | None = None
        #: what autograd/compiled.py knows of calls with tensors
        self._tensor_calls: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with user_frames:
            return self._dispatch(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind as a method does."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<tracegrad {self._request.kind} of {function_name(self._function)}, backend {self._backend}>"

    def __reduce__(self) -> Any:
        """Pickle under its own name where it stands in a module, else by what it was made from."""
        return global_name(self) or self._made_by

    # ---- calls

    @with_user_frames
    def _first(self, *args: Any, **kwargs: Any) -> Any:
        """Make the dispatcher at the first call, so that decorating costs nothing."""
        if context.is_capturing():
            return self._slow(*args, **kwargs)
        options = load_options()
        cache = open_cache(options)
        keep_converted(CodeStore(cache))
        self._dispatch = self._dispatcher = build_dispatcher(self._slow, cache=cache, options=options)
        Transformed.__call__ = build_forward("_dispatch", cache=cache, options=options)  # type: ignore[method-assign]
        return self._slow(*args, **kwargs)

    def _slow(self, *args: Any, **kwargs: Any) -> Any:
        with user_frames:
            if context.is_capturing():
                return self._inline(args, kwargs)
            if _hold_tensors((args, kwargs)):
                return importlib.import_module("tracegrad.autograd.compiled").call(self, args, kwargs)
            names, arguments = bind(self._parameters, self._function, args, kwargs)
            signature, values = signature_of(names, arguments)

            def call(made: Specialization) -> Any:
                result = NotImplemented
                if made.direct is not None and not specialization.BEFORE_RUN:
                    result = made.direct(*args, **kwargs)
                return made.call(values, arguments) if result is NotImplemented else result

            return self._run(signature, values, call)

    def _run(self, signature: Signature, values: Sequence[Any], call: Callable[[Specialization], Any]) -> Any:
        find = _finder(self._find, signature, values)
        return specialization.run(find(), find, call)

    def _find(self, signature: Signature) -> Specialization:
        with self._lock:
            return self._specializations.find(signature)

    def _compile(self, signature: Signature, sizes: Mapping[str, int]) -> Specialization:
        program = self._program(signature, sizes)
        made = pipeline.compile_program(program, self._backend)
        if made.direct is not None and self._dispatcher is not None:
            self._dispatcher.add(made.direct)
        return made

    def _discard(self, made: Specialization) -> None:
        if made.direct is not None and self._dispatcher is not None:
            self._dispatcher.discard(made.direct)

    def _program(
        self, signature: Signature, sizes: Mapping[str, int] | None = None, backend: str | None = None
    ) -> Program:
        request = self._request(signature.names)
        return pipeline.build_program(self._function, request, signature, sizes, backend=backend or self._backend)

    def _signature(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Signature, list[Any]]:
        names, values = bind(self._parameters, self._function, *arrays_of((args, kwargs)))
        return signature_of(names, values)

    # ---- inside a capture

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Stage the transformed function into the capture in progress."""
        names, values = bind(self._parameters, self._function, args, kwargs)
        request = self._request(names)
        if request.kind == "function":
            return call_captured(self._function, *args, **kwargs)
        return inner_gradients.inline_derivative(self._function, request, names, values)

    # ---- inspection

    @with_user_frames
    def source(self, *args: Any, backend: str | None = None, **kwargs: Any) -> str:
        """Return the generated code for arguments like these, as text.

        It is the code that runs for them when the function has been called with such ones, for any size if sizes have
        changed between calls. The first lines say what it was made for: sizes, and Python values such as ints, that are
        fixed in it.

        Args:
            backend: "numpy" or "c"; by default that of the function.
        """
        backend = self._backend if backend is None else _check_backend(backend)
        program = self._example(args, kwargs, backend)
        return (pipeline.source_header(program, backend) + pipeline.source_text(program, backend)).rstrip("\n")

    @with_user_frames
    def ir(self, *args: Any, **kwargs: Any) -> str:
        """Return the text of the captured function in IR, for arguments like these."""
        return print_function(self._example(args, kwargs).captured.function)

    @with_user_frames
    def lower(self, *args: Any, **kwargs: Any) -> str:
        """Return the text of the transformed and optimised function in IR, for arguments like these."""
        return print_function(self._example(args, kwargs).function)

    def _example(self, args: tuple[Any, ...], kwargs: dict[str, Any], backend: str | None = None) -> Program:
        try:
            signature, values = self._signature(args, kwargs)
        except TypeError as error:
            if isinstance(error, TracegradError):
                raise
            parameters = self._parameters.parameters if self._parameters is not None else ("...",)
            wanted = f"{function_name(self._function)}({', '.join(parameters)})"
            raise ArgumentTypeError(
                f"the code is made for arguments like those of a call: {error}",
                code="TG213",
                span=None,
                found=f"{len(args) + len(kwargs)} arguments for {wanted}",
                help="give arguments of the types and shapes that the code is for, as in a call",
            ) from None
        backend = backend or self._backend
        with leaves_of_call(values), self._lock:
            made = self._specializations.serving(signature)
            if made is None:
                return self._program(signature, backend=backend)
            if made.backend == backend:
                return made.program
            return self._program(made.program.signature, made.sizes(signature), backend=backend)


def _hold_tensors(arguments: Any) -> bool:
    """Return whether eager tensors are among arguments; costs nothing where none was ever made."""
    module = sys.modules.get("tracegrad.runtime.tensor")
    if module is None:
        return False
    leaves = optree.tree_leaves(arguments, namespace=NAMESPACE)
    return any(isinstance(leaf, module.Tensor) for leaf in leaves)


def arrays_of(arguments: Any) -> Any:
    """Return arguments with arrays in place of eager tensors."""
    if not _hold_tensors(arguments):
        return arguments
    tensor = sys.modules["tracegrad.runtime.tensor"].Tensor
    return optree.tree_map(lambda x: x._a if isinstance(x, tensor) else x, arguments, namespace=NAMESPACE)


class Specializations:
    """The compiled instances of one transformed function, by signature.

    The first call compiles for its exact sizes. When calls with other sizes follow, those that change become symbolic,
    and the instance serves all sizes from then on (0 and 1 excepted).
    """

    def __init__(
        self,
        compile_: Callable[[Signature, Mapping[str, int]], Specialization],
        discard: Callable[[Specialization], None],
        dynamic: bool = False,
    ) -> None:
        self._compile, self._discard, self._dynamic = compile_, discard, dynamic
        self._exact: dict[Signature, list[Specialization]] = {}
        self._symbolic: dict[Signature, list[Specialization]] = {}
        self._seen: dict[Signature, list[Signature]] = {}
        #: why the last instance was compiled
        self.reason = ""

    def serving(self, signature: Signature) -> Specialization | None:
        """Return the instance that serves a call, or None when there is none yet."""
        for made in self._exact.get(signature, ()):
            if made.holds():
                return made
        for made in self._symbolic.get(signature.pattern(), ()):
            if made.sizes(signature) is not None and made.holds():
                return made
        return None

    def find(self, signature: Signature) -> Specialization:
        """Return an instance that serves a call, compiled now if there is none."""
        serving = self.serving(signature)
        if serving is not None:
            return serving
        pattern = signature.pattern()
        symbolic = self._symbolic.setdefault(pattern, [])
        seen = self._seen.setdefault(pattern, [])
        self.reason = self._why(signature, seen)
        general, sizes = generalize(signature, seen, self._dynamic)
        if signature not in seen:
            seen.append(signature)
        if sizes and len(symbolic) < MAX_VARIANTS:
            try:
                made = self._compile(general, sizes)
            except TracegradError as error:  # a size that must be known after all
                logger.debug("sizes stay fixed: %s", error)
            else:
                symbolic.insert(0, made)
                return made
        made = self._compile(signature, {})
        variants = self._exact.setdefault(signature, [])
        for old in variants[MAX_VARIANTS - 1 :]:
            self._discard(old)
        variants[:] = [made, *variants[: MAX_VARIANTS - 1]]
        return made

    def _why(self, signature: Signature, seen: Sequence[Signature]) -> str:
        """Return why no instance serves a call."""
        variants = self._exact.get(signature, ())
        if variants:
            return (
                f"changed since the last capture: {', '.join(variants[0].changed()) or 'what was decided from sizes'}"
            )
        if seen:
            shapes = f"{seen[-1].describe()}, now {signature.describe()}"
            return f"sizes that no instance serves: last {shapes}"
        last = next(reversed(self._exact), None)
        if last is None:
            return "first call"
        return f"arguments of other types: last {last.describe()}, now {signature.describe()}"


def generalize(
    signature: Signature, seen: Sequence[Signature], dynamic: bool = False
) -> tuple[Signature, dict[str, int]]:
    """Return the signature with symbols for sizes that differ from calls before, and the sizes of this call by symbol.

    Sizes that were equal to each other in all calls get one symbol. Sizes 0 and 1 stay as they are. With `dynamic`
    every other size becomes symbolic, without waiting for a second call.
    """
    columns = [[leaf.type.shape for leaf in other.leaves] for other in (*seen, signature)]
    symbols: dict[tuple[Any, ...], str] = {}
    sizes: dict[str, int] = {}
    shapes = []
    for index, leaf in enumerate(signature.leaves):
        shape: list[Any] = []
        for axis, size in enumerate(leaf.type.shape):
            assert isinstance(size, int), "the sizes of a call are ints"
            history = tuple(column[index][axis] for column in columns)
            if (dynamic or len(set(history)) > 1) and size >= SMALLEST:
                name = symbols.setdefault(history, f"{'nmkl'[len(symbols) % 4]}{len(symbols) // 4 or ''}")
                sizes[name] = size
                shape.append(symbol(name))
            else:
                shape.append(size)
        shapes.append(tuple(shape))
    return signature.with_shapes(shapes), sizes


def _finder(
    find: Callable[[Signature], Specialization], signature: Signature, leaves: Sequence[Any]
) -> Callable[[], Specialization]:
    """Return what finds the instance for a call with some leaves, once more where its lists had too little room."""

    def find_for_call() -> Specialization:
        with leaves_of_call(leaves):
            return find(signature)

    return find_for_call


def position_of(argnum: int, names: Sequence[str]) -> int | None:
    """Return the position that a number means: a negative one counts from the last argument that is not passed by
    keyword; None where there is no such argument.

    >>> position_of(-1, ["x", "y", "=scale"])
    1
    """
    count = len(names) if argnum >= 0 else sum(not name.startswith("=") for name in names)
    return argnum % count if -count <= argnum < count else None


class RequestMaker:
    """Makes the Request for given argument names: `argnums` may be names."""

    def __init__(self, kind: str, argnums: Any = (), has_aux: bool = False) -> None:
        self.kind, self.argnums, self.has_aux = kind, argnums, has_aux

    def __call__(self, names: Sequence[str]) -> Request:
        if self.kind == "function":
            return Request()
        wanted = self.argnums if isinstance(self.argnums, tuple | list) else (self.argnums,)
        single = not isinstance(self.argnums, tuple | list)
        return Request(self.kind, tuple(self._position(a, names) for a in wanted), single, self.has_aux)

    def _position(self, argnum: Any, names: Sequence[str]) -> int:
        plain = [n.lstrip("=") for n in names]
        if isinstance(argnum, str):
            if argnum in plain:
                return plain.index(argnum)
        elif isinstance(argnum, int) and not isinstance(argnum, bool):
            position = position_of(argnum, names)
            if position is not None:
                return position
        raise ArgumentError(
            "argnums names an argument that the function does not have",
            code="TG205",
            span=None,
            found=f"argnums={self.argnums!r}, arguments ({', '.join(plain)})",
            help=(suggest(argnum, plain) if isinstance(argnum, str) else "")
            or "give the position (from 0) or the name of an argument, or a tuple of them",
        )


def global_name(made: Any) -> str | None:
    """Return the name under which pickle finds an object in the module of the function that it was made from."""
    name: str = getattr(made, "__qualname__", "")
    found: Any = sys.modules.get(getattr(made, "__module__", None) or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return name if found is made else None


def _check_backend(backend: str | None) -> str:
    if backend is None:
        return load_options().backend
    if backend not in BACKENDS:
        raise ArgumentError(
            "there is no such backend",
            code="TG206",
            span=None,
            found=f"backend={backend!r}",
            help=f"choose one of {', '.join(BACKENDS)}",
        )
    return backend


def explains_misuse(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function that says what it takes when it is called with something else."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                title = f"tg.{function.__name__} cannot be called like this: {error}"
                raise misused(function.__name__, args, title, kwargs) from None
            raise

    return run


def misused(name: str, args: Sequence[Any], title: str, kwargs: Mapping[str, Any] | None = None) -> ArgumentTypeError:
    """Return the error for a transform that is called with the arguments of the function, or with unknown options."""
    first = function_name(args[0]) if args and callable(args[0]) else "f"
    given = [function_name(a) if callable(a) else type(a).__name__ for a in args] + [
        f"{key}=..." for key in kwargs or ()
    ]
    return ArgumentTypeError(
        title,
        code="TG213",
        span=None,
        found=f"tg.{name}({', '.join(given)})",
        help=_USAGE.get(name)
        or f"tg.{name}({first}) returns a function, which takes the arguments: tg.{name}({first})(...); what to "
        "differentiate by is argnums, a position or name, or a tuple of them",
    )


#: how to call what has no argnums
_USAGE = {
    "debug_nans": "it takes no arguments: with tg.debug_nans(): ...",
    "explain": "tg.explain(f) returns a function, which takes the arguments: print(tg.explain(f)(...))",
    "function": "tg.function(f) returns a function, which takes the arguments; its options are backend and dynamic",
    "vmap": "tg.vmap(f) returns a function, which takes the arguments; its options are in_axes and out_axes",
    "vjp": "tg.vjp(f, *arguments) returns the value and the pullback; its options are has_aux and backend",
    "jvp": "tg.jvp(f, arguments, tangents), each a tuple with one entry per argument",
    "hvp": "tg.hvp(f, arguments, vectors), each a tuple with one entry per argument",
    "vhp": "tg.vhp(f, vectors, arguments), each a tuple with one entry per argument",
    "linearize": "tg.linearize(f, *arguments) returns the value and the linear map of tangents",
}


def _check_callable(function: Any, transform: str) -> None:
    if not callable(function):
        raise ArgumentTypeError(
            f"tg.{transform} needs a function",
            code="TG207",
            span=None,
            found=f"{type(function).__name__} {function!r}"[:120],
            help=f"pass the function itself, not its result: tg.{transform}(f), then call what it returns",
        )


def _transformed(f: Any, kind: str, argnums: Any, has_aux: bool, backend: str | None) -> Transformed:
    _check_callable(f, kind)
    numbers = argnums if isinstance(argnums, tuple | list) else (argnums,)
    if not all(isinstance(n, int | str) for n in numbers) or not isinstance(has_aux, int | np.bool_):
        raise misused(kind, (f, argnums), f"tg.{kind} takes the position or name of an argument, not its value")
    backend = _check_backend(backend)
    argnums = tuple(argnums) if isinstance(argnums, list) else argnums
    given = (f, kind, argnums, has_aux, backend)
    made: Transformed = _remembered(
        f,
        given[1:],
        lambda: Transformed(f, RequestMaker(kind, argnums, has_aux), backend, (_transformed, given)),
    )
    return made


class Memory:
    """What was made for one function, kept on the function itself; copies and pickles of the function start empty."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.made: dict[Any, Any] = {}

    def __reduce__(self) -> Any:
        return Memory, (None,)


def _remembered(f: Any, key: Any, make: Callable[[], Any]) -> Any:
    """Return what was made for this function before, so that `tg.grad(f)(x)` in a loop compiles once.

    It is kept on the function itself and goes when the function goes.
    """
    memory = getattr(f, "__dict__", {}).get(MEMORY)
    if memory is None or memory.function is not f:  # functools.wraps copies the attribute to another function
        memory = Memory(f)
        try:
            setattr(f, MEMORY, memory)
        except (AttributeError, TypeError):  # a bound method or a C function takes no attributes
            return make()
    if key not in memory.made:
        memory.made[key] = make()
    return memory.made[key]


def parameters_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """Return the signature that arguments are bound by, or None where they are taken as they come."""
    if isinstance(function, np.ufunc) or (getattr(function, "__module__", None) or "").startswith("numpy"):
        return None  # defaults of NumPy's functions mean "not given"
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        return None


def bind(
    parameters: inspect.Signature | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[str], list[Any]]:
    """Return names and values of the arguments of a call, defaults filled in.

    Each value of `*args` is an argument by itself, and so is each of `**kwargs`; names passed by keyword start with
    `=`.
    """
    if parameters is None:
        names = [f"x{i}" for i in range(len(args))] + [f"={k}" for k in kwargs]
        return names, [*args, *kwargs.values()]
    try:
        bound = parameters.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{function_name(function)}() {error}") from None
    if len(bound.arguments) < len(parameters.parameters):
        for name, value in _current_defaults(function).items():
            if name not in bound.arguments and name in parameters.parameters:
                bound.arguments[name] = value
    bound.apply_defaults()
    names, values = [], []
    for name, value in bound.arguments.items():
        kind = parameters.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            names.extend(f"{name}_{i}" for i in range(len(value)))
            values.extend(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            names.extend(f"={key}" for key in value)
            values.extend(value.values())
        else:
            names.append(f"={name}" if kind is inspect.Parameter.KEYWORD_ONLY else name)
            values.append(value)
    return names, values


def _current_defaults(function: Any) -> dict[str, Any]:
    """Return the defaults of a Python function as they are now."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return {}
    code, defaults = function.__code__, function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return {**dict(zip(positional, defaults, strict=True)), **(function.__kwdefaults__ or {})}


# ---- public functions


@overload
def function(f: Callable[..., Any], *, backend: str | None = None, dynamic: bool = False) -> Transformed: ...
@overload
def function(
    f: None = None, *, backend: str | None = None, dynamic: bool = False
) -> Callable[[Callable[..., Any]], Transformed]: ...
@with_user_frames
@explains_misuse
def function(f: Callable[..., Any] | None = None, *, backend: str | None = None, dynamic: bool = False) -> Any:
    """Compile a NumPy function; a decorator, with and without arguments.

    Args:
        f: any function of arrays, numbers and pytrees of them.
        backend: "numpy" or "c"; by default TRACEGRAD_BACKEND, else "numpy".
        dynamic: compile for all sizes at the first call, not only from the second size on.

    Returns:
        A function that gives the same results. It is compiled at its first call, and again for arguments of other
        types.

    >>> @function
    ... def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    if f is None:
        return lambda g: function(g, backend=backend, dynamic=dynamic)
    _check_callable(f, "function")
    return _compiled(f, backend, dynamic)


def _compiled(f: Callable[..., Any], backend: str | None, dynamic: bool) -> Transformed:
    backend = _check_backend(backend)
    return Transformed(f, RequestMaker("function"), backend, (_compiled, (f, backend, dynamic)), dynamic)


@with_user_frames
@explains_misuse
def grad(f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None) -> Transformed:
    """Return the function that computes the gradient of a scalar function.

    Args:
        f: returns one float; with `has_aux`, a tuple (float, anything).
        argnums: the argument to differentiate by: its position or name, or a tuple of them. Negative positions count
            from the last that is not keyword-only.
        has_aux: return (gradient, auxiliary value).
        backend: "numpy" or "c".

    Returns:
        A function with the arguments of `f`. The gradient has structure, shapes and dtypes of the argument; for a tuple
        of argnums, a tuple of gradients.

    Raises:
        ArgumentTypeError: (when called) `f` returns no scalar, or the argument holds integers.

    >>> grad(lambda x: np.sum(x**3))(np.array([1.0, 2.0])).tolist()
    [3.0, 12.0]
    """
    return _transformed(f, "grad", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def value_and_grad(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return the function that computes the value and the gradient of a scalar function in one pass.

    Args and errors are those of `grad`. With `has_aux` the value is the whole tuple (float, auxiliary).

    >>> value, gradient = value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (5.0, [2.0, 4.0])
    """
    return _transformed(f, "value_and_grad", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, backend: str | None = None) -> Any:
    """Return the value of a function and its pullback.

    Args:
        f: any function of arrays, numbers and pytrees of them.
        primals: its arguments; what has a default may be left out.
        has_aux: `f` returns (out, anything); return (out, pullback, anything).

    Returns:
        (out, pullback). `pullback(ct)` takes a cotangent with the structure and shapes of `out`, in which None is zero,
        and returns a tuple with one entry per primal, of the primal's structure (None for what carries no derivative).
        It may be called again; a primal overwritten in between does not matter.

    >>> out, pullback = vjp(lambda x: x**2, np.array([1.0, 2.0]))
    >>> pullback(np.array([1.0, 10.0]))[0].tolist()
    [2.0, 40.0]
    """
    _check_callable(f, "vjp")
    backend = _check_backend(backend)
    count = len(primals)
    made: VJP = _remembered(f, ("vjp", count, backend, has_aux), lambda: VJP(f, count, backend, has_aux))
    return made(*primals)


class VJP:
    """`tg.vjp` of one function by its first arguments, `count` of them; compiled once per signature."""

    def __init__(self, function: Callable[..., Any], count: int, backend: str, has_aux: bool = False) -> None:
        self._function, self._count, self._backend, self._has_aux = function, count, backend, has_aux
        self._forward = _compiled(function, backend, dynamic=False)
        self._pullbacks = Specializations(self._compile, lambda made: None)

    def __call__(self, *primals: Any) -> Any:
        """Return (out, pullback), and what is auxiliary."""
        names, values = bind(self._forward._parameters, self._function, primals, {})
        if context.is_capturing():
            out, pull = inner_gradients.inline_vjp(self._function, names, values, self._count, self._has_aux)
            return _arranged(out, pull, self._has_aux)
        signature, leaves = signature_of(names, values)
        kept = [np.array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        find = _finder(self._pullbacks.find, signature, leaves)
        made = find()
        hidden = made.program.hidden_values()
        out = self._forward(*primals)

        @with_user_frames
        def pullback(ct: Any) -> tuple[Any, ...]:
            if context.is_capturing():
                primals = _held([unflatten(tree, kept) for tree in signature.arguments])
                return inner_gradients.inline_pullback(self._function, names, primals, self._count, ct, self._has_aux)
            gradients: tuple[Any, ...] = specialization.run(
                made, find, lambda instance: instance.pull_back([*kept, *hidden], ct)
            )
            return gradients

        return _arranged(out, pullback, self._has_aux)

    def _compile(self, signature: Signature, sizes: Mapping[str, int]) -> Specialization:
        program = pipeline.build_vjp_program(
            self._function, signature, sizes, count=self._count, backend=self._backend, has_aux=self._has_aux
        )
        return pipeline.compile_program(program, self._backend)


def _arranged(out: Any, linear: Any, has_aux: bool) -> tuple[Any, ...]:
    """Return a value and its linear map, then the auxiliary part of the value."""
    return (out[0], linear, out[1]) if has_aux else (out, linear)


@with_user_frames
@explains_misuse
def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    *,
    has_aux: bool = False,
    backend: str | None = None,
) -> Any:
    """Return the value of a function and its derivative in a direction (forward mode).

    Args:
        primals: the arguments.
        tangents: one per argument, of its structure and shapes; None is zero.
        has_aux: `f` returns (out, anything); return (out, t_out, anything).

    Returns:
        (out, t_out); t_out has the structure of out, with None for what carries no derivative.

    >>> out, t_out = jvp(lambda x: x**2, (np.array([1.0, 2.0]),), (np.array([1.0, 10.0]),))
    >>> t_out.tolist()
    [2.0, 40.0]
    """
    return _forward(f, "jvp", backend, has_aux)(_entries("primals", primals), _entries("tangents", tangents))


@with_user_frames
@explains_misuse
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, backend: str | None = None) -> Any:
    """Return the value of a function and its linear map of tangents at this point.

    Args:
        primals: its arguments.
        has_aux: `f` returns (out, anything); return (out, jvp_function, anything).

    Returns:
        (out, jvp_function); `jvp_function(*tangents)` gives t_out and may be called again; primals overwritten in
        between do not matter.

    >>> out, push = linearize(np.sin, 0.0)
    >>> float(push(2.0))
    2.0
    """
    if context.is_capturing():
        _check_callable(f, "linearize")
        names, values = bind(parameters_of(f), f, primals, {})
        out, staged = inner_gradients.inline_linearize(f, names, values, has_aux)
        return _arranged(out, lambda *tangents: staged(_per_argument(tangents, primals, values)), has_aux)
    kept = tuple(_copied(p) for p in primals)
    forward = _forward(f, "push", backend, has_aux)
    backend = _check_backend(backend)
    out = _remembered(f, ("function", backend), lambda: _compiled(f, backend, dynamic=False))(*primals)
    if has_aux and not (type(out) is tuple and len(out) == 2):
        raise no_pair(function_name(f), f"a {type(out).__name__}")

    @with_user_frames
    def push(*tangents: Any) -> Any:
        return forward(tuple(_held(kept)) if context.is_capturing() else kept, tangents)

    return _arranged(out, push, has_aux)


@with_user_frames
@explains_misuse
def hvp(
    f: Callable[..., Any], primals: Sequence[Any], vectors: Sequence[Any], *, backend: str | None = None
) -> tuple[Any, ...]:
    """Return the product of the Hessian of a scalar function with a vector, without forming the Hessian.

    Args:
        primals: the arguments.
        vectors: one per argument, of its structure and shapes; None is zero.

    Returns:
        One product per argument, of its structure; None for an argument without floats.

    >>> hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))[0].tolist()
    [6.0, 12.0]
    """
    result: tuple[Any, ...] = _forward(f, "hvp", backend)(_entries("primals", primals), _entries("vectors", vectors))
    return result


@with_user_frames
@explains_misuse
def vhp(
    f: Callable[..., Any], vectors: Sequence[Any], primals: Sequence[Any], *, backend: str | None = None
) -> tuple[Any, ...]:
    """Return the product of a vector with the Hessian of a scalar function; the Hessian is symmetric, so that of
    `hvp`."""
    return hvp(f, primals, vectors, backend=backend)


class Forward:
    """`tg.jvp`, the map of `tg.linearize` or `tg.hvp` of one function, compiled once per signature."""

    def __init__(self, function: Callable[..., Any], kind: str, backend: str, has_aux: bool = False) -> None:
        self._function, self._kind, self._backend, self._has_aux = function, kind, backend, has_aux
        self._parameters = parameters_of(function)
        self._specializations = Specializations(self._compile, lambda made: None)

    def __call__(self, primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> Any:
        """Push tangents forward at the primals."""
        names, values = bind(self._parameters, self._function, primals, {})
        tangents = _per_argument(tangents, primals, values)
        if context.is_capturing():
            every = [p for p, value in enumerate(values) if inner_gradients.holds_floats(value)]
            self._check_still(names, tangents, every)
            moving = [p for p in every if tangents[p] is not None]
            chosen = tuple(every if self._kind == "hvp" else moving or every)
            result = inner_gradients.inline_derivative(
                self._function, Request(self._kind, chosen, False, self._has_aux), names, values, tangents
            )
            return self._per_primal(result, chosen, primals)
        signature, arguments = signature_of(names, values)
        find = _finder(self._specializations.find, signature, arguments)
        made = find()
        types = [leaf.type for leaf in signature.leaves]
        chosen = made.program.request.argnums
        self._check_still(names, tangents, chosen)
        given = []
        for number in chosen:
            given.extend(tangent_leaves(signature.arguments[number], tangents[number], types, names[number]))
        result = specialization.run(made, find, lambda instance: instance.call(arguments, values, given))
        return self._per_primal(result, chosen, primals)

    @staticmethod
    def _check_still(names: Sequence[str], tangents: Sequence[Any], chosen: Sequence[int]) -> None:
        """Check that arguments without floats have no tangent."""
        for position, (name, tangent) in enumerate(zip(names, tangents, strict=True)):
            if position not in chosen:
                check_still(tangent, tangent_name(name))

    def _per_primal(self, result: Any, chosen: Sequence[int], primals: Sequence[Any]) -> Any:
        """Return the products with one per primal, None for those without floats."""
        if self._kind != "hvp":
            return result
        products = dict(zip(chosen, result, strict=True))
        return tuple(products.get(position) for position in range(len(primals)))

    def _compile(self, signature: Signature, sizes: Mapping[str, int]) -> Specialization:
        chosen = [
            position
            for position, tree in enumerate(signature.arguments)
            if any(is_inexact(signature.leaves[n].type.dtype) for n in leaf_numbers(tree))
        ]
        request = Request(self._kind, tuple(chosen), False, self._has_aux)
        program = pipeline.build_program(self._function, request, signature, sizes, backend=self._backend)
        return pipeline.compile_program(program, self._backend)


def _entries(name: str, given: Any) -> tuple[Any, ...]:
    """Return the entries of a tuple that has one per argument."""
    if not isinstance(given, tuple | list):
        raise ArgumentTypeError(
            f"{name} is a tuple with one entry per argument",
            code="TG212",
            span=None,
            found=f"{name}: {type(given).__name__}",
            help=f"write {'(x,)' if name == 'primals' else '(v,)'} for a function of one argument",
        )
    return tuple(given)


def _per_argument(tangents: Sequence[Any], primals: Sequence[Any], values: Sequence[Any]) -> tuple[Any, ...]:
    """Return a tangent for each argument of a call, None for the defaults of those left out."""
    if len(primals) != len(tangents):
        raise ArgumentError(
            "there must be one tangent per primal",
            code="TG212",
            span=None,
            found=f"{len(primals)} primals and {len(tangents)} tangents",
            help="give a tuple of each; None is a zero tangent",
        )
    return (*tangents, *[None] * (len(values) - len(primals)))


def _forward(f: Callable[..., Any], kind: str, backend: str | None, has_aux: bool = False) -> Forward:
    _check_callable(f, kind)
    backend = _check_backend(backend)
    made: Forward = _remembered(f, (kind, backend, has_aux), lambda: Forward(f, kind, backend, has_aux))
    return made


def _held(primals: Sequence[Any]) -> Sequence[Any]:
    """Return primals of an earlier call for the capture in progress: arrays are inputs, not constants in the text."""
    return [lift(value, Place(primals, (("item", k),), f"primal_{k}")) for k, value in enumerate(primals)]


def _copied(value: Any) -> Any:
    tree, _, leaves = flatten(value)
    return unflatten(tree, [np.array(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves])


@with_user_frames
@explains_misuse
def jacobian(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return the function that computes the Jacobian, in the mode that needs fewer sweeps.

    Args:
        f: returns arrays, or a pytree of them.
        argnums: the argument to differentiate by: its position or name, or a tuple of them.
        has_aux: `f` returns (value, anything); return (Jacobian, anything).

    Returns:
        A function with the arguments of `f`. For out: f64[a] and x: f64[b] it gives f64[a,b]: shape of the output, then
        of the argument. Structure of the output, then of the argument.

    >>> jacobian(lambda x: x * x[::-1])(np.array([2.0, 3.0])).tolist()
    [[3.0, 2.0], [3.0, 2.0]]
    """
    return _transformed(f, "jacobian", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def jacfwd(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return `jacobian(f, ...)` by forward mode: one sweep per element of the argument."""
    return _transformed(f, "jacfwd", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def jacrev(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return `jacobian(f, ...)` by reverse mode: one sweep per element of the output."""
    return _transformed(f, "jacrev", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def hessian(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return the function that computes the Hessian of a scalar function, by forward mode over reverse mode.

    Returns:
        A function with the arguments of `f`. For x: f64[n] it gives f64[n,n]; for a pytree, the structure of the
        argument twice.

    >>> hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0])).tolist()
    [[6.0, 4.0], [4.0, 0.0]]
    """
    return _transformed(f, "hessian", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def hessian_diagonal(
    f: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, backend: str | None = None
) -> Transformed:
    """Return the function that computes the diagonal of the Hessian of a scalar function, of the structure of the
    argument.

    It takes as many sweeps as the Hessian, and no more memory than a gradient.

    >>> hessian_diagonal(lambda x: x[0] ** 2 * x[1] ** 3)(np.array([2.0, 3.0])).tolist()
    [54.0, 72.0]
    """
    return _transformed(f, "hessian_diagonal", argnums, has_aux, backend)


@with_user_frames
@explains_misuse
def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, *, backend: str | None = None) -> Transformed:
    """Return the function that applies `f` to each element of stacked arguments.

    In NumPy the elements are computed together, on arrays with one more axis; in C one after the other. Branches and
    loops in `f` may run differently for each element.

    Args:
        f: a function of one element; any transform of a function, such as `grad(g)`.
        in_axes: the axis along which the elements of the arguments are stacked; None for what is the same for all
            elements. An int stands for all arguments (Python numbers among them are the same for all elements); a tuple
            has one entry per argument: an int, None, or a tree of them with the structure of the argument. Fields that
            are declared `int` or `bool`, and what holds no array, are the same for all elements, whatever is given.
        out_axes: the axis along which the results are stacked, or a tree of axes with the structure of the result; None
            for a result that is the same for all elements.
        backend: "numpy" or "c".

    Returns:
        A function with the arguments of `f`. For x: f64[b,n] and f of f64[n] to f64[m] it gives f64[b,m].

    Raises:
        ArgumentError: (when called) the axes do not fit the arguments, or there are different numbers of elements.

    >>> vmap(lambda x, y: x @ y, in_axes=(0, None))(np.eye(2), np.array([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    _check_callable(f, "vmap")
    return _batched(f, in_axes, out_axes, _check_backend(backend))


def _batched(f: Callable[..., Any], in_axes: Any, out_axes: Any, backend: str) -> Transformed:
    parameters = parameters_of(f)
    found = parameters.parameters.items() if parameters is not None else ()
    defaults = frozenset(name for name, p in found if p.default is not inspect.Parameter.empty)
    batch = Batch(f, in_axes, out_axes, lambda args, kwargs: bind(parameters, f, args, kwargs), defaults)
    given = (f, in_axes, out_axes, backend)
    made = Transformed(batch, RequestMaker("function"), backend, (_batched, given))
    made._parameters = parameters
    return made


def stop_gradient(x: Any) -> Any:
    """Return the same value, through which no derivative passes. Works on pytrees; outside a capture it does nothing.

    >>> float(grad(lambda x: x * stop_gradient(x))(3.0))
    3.0
    """
    if isinstance(x, Tracer):
        return apply(ops.stop_gradient, x) if is_inexact(x.dtype) else x
    if isinstance(x, dict):
        return {k: stop_gradient(v) for k, v in x.items()}
    if isinstance(x, list | tuple):
        items = [stop_gradient(v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    return x


def is_tracer(x: Any) -> bool:
    """Return whether `x` stands for an array in a function that is being captured."""
    return isinstance(x, Tracer)
