"""Compiled functions called with tensors: one node on the tape, whose pullback is compiled too.

Reads tensors in any structure of arguments, calls the function with their arrays; records a node. Called by api.py when
an argument holds a tensor. Previous: anomaly_mode.py; next: __init__.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree

from tracegrad.api import VJP, RequestMaker, Transformed, _remembered, bind, jvp, vjp
from tracegrad.capture.calls import call as call_captured
from tracegrad.capture.known import leaves_of_call
from tracegrad.driver.specialization import Specialization
from tracegrad.runtime.mirrors import carry_over
from tracegrad.runtime.signature import NAMESPACE, signature_of
from tracegrad.runtime.tape import (
    Cotangent,
    Edge,
    Node,
    Saved,
    attach,
    edges_of,
    from_tensor,
    inference_error,
    keep_saved,
    mode,
    needs_grad,
    user_place,
)
from tracegrad.runtime.tensor import Tensor, is_differentiable, wrap
from tracegrad.runtime.views import give_tangent, mark_written, tangent_of


def _unflatten(spec: Any, leaves: Sequence[Any]) -> Any:
    return optree.tree_unflatten(spec, leaves)


def _flatten(tree: Any) -> tuple[list[Any], Any]:
    leaves, spec = optree.tree_flatten(tree, namespace=NAMESPACE)
    return leaves, spec


def _array(value: Any) -> Any:
    return value._a if isinstance(value, Tensor) else value


def _tensor(value: Any) -> Any:
    return wrap(np.asarray(value)) if isinstance(value, np.ndarray | np.generic | float | complex) else value


class CompiledNode(Node):
    """A call of a compiled function."""

    title = "CompiledFunctionBackward"

    def __init__(self, function: Any, backend: str, pull: Callable[..., Any], edges: Sequence[Edge]) -> None:
        super().__init__(tuple(edges))
        self.function, self.backend, self.pull = function, backend, pull
        self.arguments: list[Any] = []
        self.spec: Any = None
        self.out: tuple[list[Any], Any] = ([], None)

    def apply(self, cts: list[Cotangent], create_graph: bool, keep: bool) -> Sequence[Cotangent]:
        if all(ct is None for ct in cts):
            return [None] * len(self.edges)
        if self.saved is None:
            raise self.freed_error()
        values = [self.unpack(item, create_graph) for item in self.saved]
        leaves = list(self.arguments)
        for position, value in zip(self.places, values, strict=True):
            leaves[position] = value
        arriving = iter(cts)
        templates, spec = self.out
        ct = _unflatten(spec, [self._given(t, arriving, create_graph) for t in templates])
        if create_graph:
            pulled = _pull_function(self.function, self.backend)(_unflatten(self.spec, leaves), ct)
        else:
            pulled = self.pull(leaves, ct)
        if not keep:
            self.saved = None
        found: dict[int, Any] = {}
        for argument, part in zip(_unflatten(self.spec, self.numbers), pulled, strict=True):
            _match(argument, part, found)
        results = [found.get(position) for position in self.places]
        return [ct if create_graph or ct is None else from_tensor(wrap(np.asarray(ct)), False) for ct in results]

    places: Sequence[int] = ()
    numbers: Sequence[int] = ()

    def _given(self, template: Any, arriving: Any, create_graph: bool) -> Any:
        if template is None:
            return None
        shape, dtype = template
        ct = next(arriving)
        if ct is None:
            ct = wrap(np.zeros(shape, dtype)) if create_graph else np.zeros(shape, dtype)
        return ct


def _match(numbers: Any, cotangents: Any, found: dict[int, Any]) -> None:
    """Collect the cotangent of each leaf; None stands for a leaf or a whole argument without one."""
    if cotangents is None:
        return
    if isinstance(numbers, int):
        found[numbers] = cotangents
    elif isinstance(numbers, dict):
        for key in numbers:
            _match(numbers[key], cotangents[key], found)
    elif isinstance(numbers, list | tuple):
        for a, b in zip(numbers, cotangents, strict=True):
            _match(a, b, found)
    else:
        for a, b in zip(_flatten(numbers)[0], _flatten(cotangents)[0], strict=True):
            _match(a, b, found)


def _positional(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Return the function with its keyword arguments (names that start with "=") as positional ones."""
    count = sum(1 for n in names if not n.startswith("="))
    keywords = [n[1:] for n in names[count:]]

    def positional(*values: Any) -> Any:
        return call_captured(function, *values[:count], **dict(zip(keywords, values[count:], strict=True)))

    return positional


def _pull_function(function: Any, backend: str) -> Transformed:
    """Return the compiled pullback (arguments, cotangent) -> cotangents, itself callable with tensors."""

    def make() -> Transformed:
        def pullback(arguments: Any, cotangent: Any) -> Any:
            return vjp(function, *arguments)[1](cotangent)

        return Transformed(pullback, RequestMaker("function"), backend, (_pull_function, (function, backend)))

    made: Transformed = _remembered(function, ("eager pullback", backend), make)
    return made


#: so many kinds of calls with tensors are remembered per function
_MOST_KINDS = 64


def _kind(leaves: Sequence[Any], spec: Any) -> Any:
    """Return what decides which compiled instance serves a call, None where more than types and shapes does."""
    parts: list[Any] = [spec]
    for leaf in leaves:
        array = _array(leaf)
        if isinstance(array, np.ndarray):
            parts.append((array.dtype, array.shape))
        elif type(array) is float:
            parts.append(float)
        else:
            return None
    return tuple(parts)


class _Served:
    """The compiled instances that serve calls of one kind: of the function, and of its pullback when it is known.

    Attributes:
        order: for each value that the pullback takes, its place among the leaves of the arguments.
    """

    __slots__ = ("made", "order", "pulled")

    def __init__(self, made: Specialization) -> None:
        self.made = made
        self.pulled: Specialization | None = None
        self.order: list[int] = []


def call(transformed: Transformed, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a compiled function with tensors among its arguments; arrays in the result become tensors."""
    leaves, spec = _flatten((args, keywords))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    plain_args, plain_keywords = _unflatten(spec, [_array(x) for x in leaves])
    recording = mode.grad and any(needs_grad(t) for t in tensors)
    kind = _kind(leaves, spec) if mode.level < 0 and not keywords else None
    served = transformed._tensor_calls.get(kind)
    if kind is not None and served is not None and served.made.holds():
        out = transformed._dispatch(*plain_args)
        return _wrapped(transformed, args, keywords, tensors, out, recording, served)
    names, arguments = bind(transformed._parameters, transformed._function, plain_args, plain_keywords)
    signature, values = signature_of(names, arguments)
    with leaves_of_call(values):
        made = transformed._find(signature)
    if mode.level >= 0 and any(tangent_of(t) is not None for t in tensors):
        if recording or made.program.write_back or any(n.startswith("=") for n in names):
            raise NotImplementedError(
                "a compiled function that writes to its arguments, has keyword-only ones, or is called with tensors "
                "that require grad, takes no dual tensors: use tg.jvp, or call the function it was made from"
            )
        return _call_dual(transformed, bind(transformed._parameters, transformed._function, args, keywords)[1])
    if made.program.write_back:
        if recording:
            raise RuntimeError(
                "a compiled function that writes to its arguments was called with tensors that require grad\n"
                "  help: let the function return a new array, or call it under no_grad()"
            )
        for tensor in tensors:
            mark_written(tensor, repr(transformed))
    elif kind is not None and len(names) == len(args) and not made.program.captured.contents:
        if len(transformed._tensor_calls) >= _MOST_KINDS:
            transformed._tensor_calls.clear()
        served = transformed._tensor_calls[kind] = _Served(made)
    out = transformed._run(signature, values, lambda made: made.call(values, arguments))
    if made.program.write_back:
        for tensor in tensors:
            carry_over(tensor._a)
    return _wrapped(transformed, args, keywords, tensors, out, recording, served)


def _wrapped(
    transformed: Transformed,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    tensors: list[Tensor],
    out: Any,
    recording: bool,
    served: _Served | None,
) -> Any:
    """Return what a compiled function gave, with tensors for arrays, on the tape when it is recording."""
    out_leaves, out_spec = _flatten(out)
    results = [_tensor(x) for x in out_leaves]
    if recording:
        _record(transformed, args, keywords, tensors, results, out_spec, served)
    if mode.inference:
        for result in results:
            if isinstance(result, Tensor):
                result._inference = True
    return _unflatten(out_spec, results)


def _call_dual(transformed: Transformed, arguments: list[Any]) -> Any:
    """Call a compiled function with dual tensors among its arguments; the results have tangents."""
    function = transformed._function if transformed._request.kind == "function" else transformed
    leaves, spec = _flatten(tuple(arguments))
    primals = _unflatten(spec, [_array(x) for x in leaves])
    tangents = [
        None if all(t is None for t in _flatten(part)[0]) else part
        for part in _unflatten(spec, [_tangent_leaf(x) for x in leaves])
    ]
    out, t_out = jvp(function, primals, tangents, backend=transformed._backend)
    out_leaves, out_spec = optree.tree_flatten(out, none_is_leaf=True, namespace=NAMESPACE)
    out_tangents = optree.tree_leaves(t_out, none_is_leaf=True, namespace=NAMESPACE)
    results = [_tensor(x) for x in out_leaves]
    for result, tangent in zip(results, out_tangents, strict=True):
        if isinstance(result, Tensor) and tangent is not None:
            give_tangent(result, wrap(np.asarray(tangent)))
    return _unflatten(out_spec, results)


def _tangent_leaf(value: Any) -> Any:
    """Return the tangent of a leaf as jvp takes it: an array, or None without floats."""
    if isinstance(value, Tensor):
        tangent = tangent_of(value)
        zeros = np.zeros_like(value._a) if is_differentiable(value._a.dtype) else None
        return zeros if tangent is None else tangent._a
    array = np.asarray(value)
    return np.zeros_like(array) if array.dtype.kind in "fc" else None


def _record(
    transformed: Transformed,
    args: tuple[Any, ...],
    keywords: dict[str, Any],
    tensors: list[Tensor],
    results: list[Any],
    out_spec: Any,
    served: _Served | None,
) -> None:
    if any(t._inference for t in tensors):
        raise inference_error()
    function = transformed._function if transformed._request.kind == "function" else transformed
    plain: list[str] = []
    if served is not None and served.pulled is not None and served.pulled.holds():
        leaves, spec = _flatten(list(args))
        made = served.pulled
    else:
        names, arguments = bind(transformed._parameters, transformed._function, args, keywords)
        plain = [n.lstrip("=") for n in names]
        if plain != names:
            function = _remembered(function, ("positional", tuple(names)), lambda: _positional(function, names))
        count, backend = len(arguments), transformed._backend
        key = ("vjp", count, backend, False)
        maker: VJP = _remembered(function, key, lambda: VJP(function, count, backend))
        leaves, spec = _flatten(arguments)
        signature, values = signature_of(plain, _unflatten(spec, [_array(x) for x in leaves]))
        with leaves_of_call(values):
            made = maker._pullbacks.find(signature)
        if served is not None:  # all leaves are arrays or floats
            numbered = _unflatten(spec, [float(k) for k in range(len(leaves))])
            served.pulled, served.order = made, [int(number) for number in signature_of(plain, numbered)[1]]
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]
    operands = [leaves[k] for k in places]
    hidden = made.program.hidden_values()

    def pull(leaves: Sequence[Any], ct: Any) -> Any:
        if served is not None:
            return made.pull_back([*(leaves[k] for k in served.order), *hidden], ct)
        return made.pull_back([*signature_of(plain, _unflatten(spec, leaves))[1], *hidden], ct)

    mask = sum(1 << k for k, t in enumerate(operands) if needs_grad(t) and is_differentiable(t._a.dtype))
    node = CompiledNode(function, transformed._backend, pull, edges_of(mask, operands))
    node.code, node.instruction = user_place()
    node.arguments, node.spec, node.places = [_array(x) for x in leaves], spec, places
    node.numbers = list(range(len(leaves)))
    keep_saved(node, [Saved(t._a, t._storage, ("in", k)) for k, t in enumerate(operands)], operands, ())
    outs = [x for x in results if isinstance(x, Tensor)]
    for position in places:
        node.arguments[position] = None
    node.out = ([(x._a.shape, x._a.dtype) if isinstance(x, Tensor) else None for x in results], out_spec)
    attach(node, outs)
    if len(outs) == 1 and not is_differentiable(outs[0]._a.dtype):
        outs[0]._node = None
