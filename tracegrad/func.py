"""torch.func's names: transforms of functions of tensors.

Reads functions of tensors; gives such functions. Arguments and results may be nested tuples, lists and dicts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tracegrad.runtime import creating
from tracegrad.runtime import eager as _eager  # noqa: F401 attaches the methods of tensors
from tracegrad.runtime.gradients import enable_grad
from tracegrad.runtime.gradients import grad as gradients_of
from tracegrad.runtime.shaping import reshape, stack
from tracegrad.runtime.tape import AccumulateGrad, gradient_edge, mode, needs_grad, sparing_saved
from tracegrad.runtime.tensor import Tensor, wrap
from tracegrad.runtime.views import check_tangent, give_tangent, tangent_of

__all__ = [
    "functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "stack_module_state", "vjp", "vmap",
]  # fmt: skip


def _leaves(value: Any) -> list[Any]:
    """Return what nested tuples, lists and dicts hold."""
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple | list) else [value]


def _rebuilt(value: Any, leaves: list[Any]) -> Any:
    """Return a value of the same structure with the next leaves, which are taken out of the list."""
    if isinstance(value, dict):
        return {k: _rebuilt(v, leaves) for k, v in value.items()}
    if isinstance(value, tuple | list):
        made = [_rebuilt(v, leaves) for v in value]
        return type(value)(*made) if hasattr(value, "_fields") else type(value)(made)
    return leaves.pop(0)


def _map(function: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, Tensor):
        return function(value)
    return _rebuilt(value, [function(leaf) for leaf in _leaves(value)])


def _structure(value: Any) -> str:
    """Return what is nested in what as torch writes it, `*` for a leaf."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {_structure(v)}" for k, v in value.items()) + "}"
    parts = ", ".join(map(_structure, value)) if isinstance(value, tuple | list) else "*"
    if hasattr(value, "_fields"):
        return f"{type(value).__name__}({parts})"
    if isinstance(value, tuple):
        return f"({parts},)" if len(value) == 1 else f"({parts})"
    return f"[{parts}]" if isinstance(value, list) else parts


#: how errors begin: the transform that a function is called in
_IN_GRAD, _IN_VJP, _IN_JVP = "grad_and_value(f)(*args):", "vjp(f, *primals):", "jvp(f, primals, tangents):"


def _parted(returned: Any, has_aux: bool, place: str) -> tuple[Any, Any]:
    """Return what a function computed, and what it gave beside that.

    Raises:
        RuntimeError: it should have given a pair.
    """
    if not has_aux:
        return returned, None
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise RuntimeError(f"{place} output of function f should be a tuple: (output, aux) if has_aux is True")
    return returned


def _require_results(results: Any, place: str) -> None:
    for x in _leaves(results):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{place} expected f(*primals) to return only tensors, got unsupported type {type(x)}")


def _fresh(value: Any) -> Any:
    """Return tensors that require grad: views of those that do already, so that transforms can be nested."""
    for x in _leaves(value):
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    return _map(lambda x: x.view_as(x) if needs_grad(x) else _cut(x).requires_grad_(), value)


def _cut(tensor: Tensor, own: Sequence[Any] = ()) -> Tensor:
    """Return a tensor over the same memory out of the graph, with its tangent, which may depend on other leaves."""
    made: Tensor = tensor.detach()
    tangent = tangent_of(tensor)
    if tangent is not None:
        give_tangent(made, tangent if _reaches_others(tangent, own) else tangent.detach())
    return made


def _chosen(args: Sequence[Any], argnums: int | tuple[int, ...]) -> tuple[list[Any], Any]:
    """Return the arguments with those chosen made fresh, and these.

    Raises:
        RuntimeError: there are no such arguments.
    """
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    if len(set(numbers)) < len(numbers):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    made = list(args)
    for k in numbers:
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"Got argnum={k}, but only {len(args)} positional inputs")
        made[k] = _fresh(made[k])
    return made, made[argnums] if isinstance(argnums, int) else tuple(made[k] for k in argnums)


def _finished(value: Any, own: Sequence[Any]) -> Any:
    """Return results; out of the graph those that depend on nothing but our own leaves."""
    return _map(lambda x: x if not isinstance(x, Tensor) or _reaches_others(x, own) else _cut(x, own), value)


def _reaches_others(tensor: Tensor, own: Sequence[Any]) -> bool:
    """Return whether a tensor depends on a leaf that is none of ours."""
    if not mode.grad or not needs_grad(tensor):
        return False
    ours = {id(x) for x in own}
    node, _ = gradient_edge(tensor)
    seen, waiting = {node}, [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, AccumulateGrad) and id(node.variable) not in ours:
            return True
        for before, _ in node.edges if node is not None else ():
            if before is not None and before not in seen:
                seen.add(before)
                waiting.append(before)
    return False


def _is_final(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Return whether nobody asks for derivatives of what is pulled back: results depend on our own leaves alone."""
    return mode.level < 0 and not any(_reaches_others(y, inputs) for y in outputs)


def _pulled(outputs: list[Any], inputs: list[Any], cts: list[Any], final: bool | None = None) -> list[Any]:
    """Return the cotangents of inputs; zeros where nothing arrives.

    Args:
        final: what `_is_final` says of the outputs, where that is known.
    """
    if final is None:
        final = _is_final(outputs, inputs)
    create_graph = not final or any(map(needs_grad, cts))
    pairs = [(y, ct) for y, ct in zip(outputs, cts, strict=True) if needs_grad(y)]
    found: Sequence[Any] = [None] * len(inputs)
    if pairs:
        found = gradients_of(
            [y for y, _ in pairs], inputs, [ct for _, ct in pairs], True, create_graph=create_graph, allow_unused=True
        )
    return [wrap(np.zeros_like(x._a)) if ct is None else ct for x, ct in zip(inputs, found, strict=True)]


def _check_scalar(value: Any) -> None:
    """Check a value whose gradient is asked for.

    Raises:
        RuntimeError: it is no tensor, or has axes, or is complex.
    """
    place = f"{_IN_GRAD} Expected f(*args) to return a"
    if not isinstance(value, Tensor):
        raise RuntimeError(f"{place} Tensor, got {type(value)}")
    if value.dim():
        raise RuntimeError(
            f"{place} scalar Tensor, got tensor with {value.dim()} dims. Maybe you wanted to use the vjp or jacrev "
            "APIs instead?"
        )
    if value.is_complex():
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {value.dtype!r}")


def grad_and_value(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Return the function that gives gradient and value; with `has_aux`, the value is (value, more)."""

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        with enable_grad():
            given, chosen = _chosen(args, argnums)
            value, aux = _parted(func(*given, **keywords), has_aux, _IN_GRAD)
            _check_scalar(value)
            own, ct = _leaves(chosen), wrap(np.ones_like(value._a))
            final = _is_final([value], own)
            found = _rebuilt(chosen, _pulled([value], own, [ct], final))
        value, found = (value.detach(), found) if final else (_finished(value, own), _finished(found, own))
        aux = None if aux is None else _finished(aux, own)
        return (found, (value, aux)) if has_aux else (found, value)

    return call


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return the function that gives the gradient of a scalar with respect to some arguments.

    Higher derivatives are gradients of gradients: `grad(grad(f))`.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        found, value = both(*args, **keywords)
        return (found, value[1]) if has_aux else found

    return call


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results, and the function that gives products of cotangents with the Jacobian, one per argument."""
    with enable_grad():
        given = tuple(_fresh(x) for x in primals)
        results, aux = _parted(func(*given), has_aux, _IN_VJP)
    own = _leaves(given)
    _require_results(results, _IN_VJP)

    def pull(cotangents: Any) -> Any:
        if _structure(cotangents) != _structure(results):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the "
                f"function. cotangents: {_structure(cotangents)}, primal output: {_structure(results)}"
            )
        with enable_grad():
            found = _rebuilt(given, _pulled(_leaves(results), own, _leaves(cotangents)))
        return _finished(found, own)

    shown = _finished(results, own)
    return (shown, pull, _finished(aux, own)) if has_aux else (shown, pull)


def _check_tangents(primals: Any, tangents: Any) -> None:
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{_IN_JVP} Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    if _structure(primals) != _structure(tangents):
        raise RuntimeError(
            f"{_IN_JVP} Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {_structure(primals)} and tangents "
            f"with structure {_structure(tangents)}"
        )
    if not _leaves(primals):
        raise RuntimeError(f"{_IN_JVP} Expected primals to contain at least one Tensor.")
    for what, given in (("primals", primals), ("tangents", tangents)):
        for x in _leaves(given):
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{_IN_JVP} Expected {what} to only contain Tensors, got {type(x)}")
    for x, tangent in zip(_leaves(primals), _leaves(tangents), strict=True):
        check_tangent(x, tangent)


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, has_aux: bool = False) -> tuple[Any, ...]:
    """Return the results, and the product of the Jacobian with tangents.

    Raises:
        RuntimeError: the primals are no tuple of tensors, or the tangents are not like them.
    """
    _check_tangents(primals, tangents)
    with enable_grad(), sparing_saved():
        given = tuple(_fresh(x) for x in primals)
        results, aux = _parted(func(*given), has_aux, _IN_JVP)
        _require_results(results, _IN_JVP)
        outputs, inputs = _leaves(results), _leaves(given)
        # the VJP is linear in its cotangents, so its own VJP is the JVP
        cts = [wrap(np.zeros_like(y._a)).requires_grad_() for y in outputs]
        found = _pulled(_pulled(outputs, inputs, cts), cts, _leaves(tangents))
    own = [*inputs, *cts]
    moved, shown, aux = (_finished(x, own) for x in (_rebuilt(results, found), results, aux))
    return (shown, moved, aux) if has_aux else (shown, moved)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the results, and the function that gives the product of the Jacobian there with tangents."""
    with enable_grad(), sparing_saved():
        given = tuple(_fresh(x) for x in primals)
        results = func(*given)
        _require_results(results, _IN_JVP)
        outputs, inputs = _leaves(results), _leaves(given)
        cts = [wrap(np.zeros_like(y._a)).requires_grad_() for y in outputs]
        pulled = _pulled(outputs, inputs, cts)
    own = [*inputs, *cts]

    def push(*tangents: Any) -> Any:
        if _structure(tangents) != _structure(primals):
            raise RuntimeError(
                f"Expected the tangents {_structure(tangents)} to have the same argspec as the primals "
                f"{_structure(primals)}"
            )
        for k, (x, tangent) in enumerate(zip(inputs, _leaves(tangents), strict=True)):
            for what in ("shape", "dtype"):
                own_one, other = getattr(x, what), getattr(tangent, what)
                if own_one != other:
                    raise RuntimeError(
                        f"tangent:{k} with {what} {other!r} in flattened pytree doesn't match the {what} {own_one!r} "
                        "of the corresponding primal."
                    )
        with enable_grad():
            found = _pulled(pulled, cts, _leaves(tangents))
        return _finished(_rebuilt(results, found), own)

    return _finished(results, own), push


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and buffers of modules of one kind by name, each stacked along a new first axis.

    Raises:
        RuntimeError: there is no module, or some are of another class or in another mode.
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
        made = {}
        for name, first in states[0].items():
            joined = stack([state[name] for state in states]).detach()
            made[name] = joined.requires_grad_() if first.requires_grad else joined
        return made

    return (
        stacked([dict(model.named_parameters()) for model in models]),
        stacked([dict(model.named_buffers()) for model in models]),
    )


def jacrev(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return the function that gives the Jacobian: for each result, with respect to each of the chosen arguments.

    Args:
        chunk_size: taken, and without effect: the rows are computed one after the other.

    Raises:
        ValueError: `chunk_size` is not positive.
    """
    _check_chunks(chunk_size, "jacrev: `chunk_size` should be greater than 0.")
    return _jacobian_of(func, argnums, has_aux, _IN_VJP)


def _check_chunks(chunk_size: int | None, refusal: str) -> None:
    if chunk_size is None:
        return
    if not isinstance(chunk_size, int):
        raise TypeError(f"chunk_size must be an int or None, not {type(chunk_size).__name__}")
    if chunk_size <= 0:
        raise ValueError(refusal)


def _jacobian_of(
    func: Callable[..., Any], argnums: int | tuple[int, ...], has_aux: bool, place: str
) -> Callable[..., Any]:

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        with enable_grad():
            given, chosen = _chosen(args, argnums)
            results, aux = _parted(func(*given, **keywords), has_aux, place)
            _require_results(results, place)
            inputs = _leaves(chosen)
            jacobians = [_rebuilt(chosen, _rows(y, inputs)) for y in _leaves(results)]
        made, aux = (_finished(x, inputs) for x in (_rebuilt(results, jacobians), aux))
        return (made, aux) if has_aux else made

    return call


def _rows(y: Tensor, inputs: list[Any]) -> list[Any]:
    """Return the Jacobian of one result with respect to each input."""
    rows, final = [], _is_final([y], inputs)
    for k in range(y.numel()):
        basis = np.zeros(y.numel(), y._a.dtype)
        basis[k] = 1
        rows.append(_pulled([y], inputs, [wrap(basis.reshape(y._a.shape))], final))
    if not rows:
        return [wrap(np.zeros((*y._a.shape, *x._a.shape), x._a.dtype)) for x in inputs]
    return [
        reshape(stack(list(parts)), (*y._a.shape, *x._a.shape))
        for x, parts in zip(inputs, zip(*rows, strict=True), strict=True)
    ]


def jacfwd(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """Return the function that gives the Jacobian, as jacrev does.

    Args:
        randomness: "error": random numbers are refused; "same", "different": the function is called once, and so each
            column has the same ones.

    Raises:
        RuntimeError: there is no such randomness, or random numbers are asked for where that is an error.
    """
    in_reverse = _jacobian_of(func, argnums, has_aux, _IN_JVP)

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        _check_randomness(randomness)
        with sparing_saved(), _drawing(randomness):
            return in_reverse(*args, **keywords)

    return call


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """Return the function that gives second derivatives."""
    of_gradient = jacrev(jacrev(func, argnums), argnums)

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        with _drawing("error"):
            return of_gradient(*args, **keywords)

    return call


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Return the function that applies `func` to each element along an axis of the arguments, and stacks the results.

    Args:
        in_dims: the axis per argument, or in each the axis per tensor; None for what is the same for all elements.
        out_dims: the axis along which results are stacked, or one per result.
        randomness: "error": random numbers are refused; "same": each element gets the same; "different": its own.
        chunk_size: taken, and without effect: the elements are computed one after the other.

    Raises:
        ValueError: no argument has an axis to go along, the sizes differ, a result is no tensor, or `chunk_size` is not
            positive.
        RuntimeError: there is no such randomness, or random numbers are asked for where that is an error.
    """
    name = getattr(func, "__name__", repr(func))
    _check_randomness(randomness)
    _check_chunks(chunk_size, f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def call(*args: Any, **keywords: Any) -> Any:
        leaves, places = _leaves(args), _mapped_axes(name, in_dims, args)
        sizes = {x.shape[axis] for x, axis in zip(leaves, places, strict=True) if axis is not None}
        if len(sizes) != 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sorted(sizes)} for the mapped dimension"
                if sizes
                else "vmap: at least one input must have the mapped dimension"
            )
        results, count = [], sizes.pop()
        for k in _with_draws(randomness, max(count, 1)):
            element = [
                x if axis is None else x.select(axis, k) if count else x.sum(axis, dtype=x.dtype)
                for x, axis in zip(leaves, places, strict=True)
            ]  # of no elements: zeros, which say what results look like
            results.append(func(*_rebuilt(args, element), **keywords))
        each = [_leaves(result) for result in results]
        for x in each[0]:
            if not isinstance(x, Tensor):
                raise ValueError(
                    f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(x)}. Did you mean to set "
                    "out_dims= to None for output?"
                )
        if not isinstance(out_dims, int) and (not isinstance(results[0], tuple) or len(results[0]) != len(out_dims)):
            raise ValueError(
                f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
                "`outputs`."
            )
        to = _spread(out_dims, results[0])
        stacked = [stack(list(parts), axis) for axis, parts in zip(to, zip(*each, strict=True), strict=True)]
        if not count:
            stacked = [made.narrow(axis, 0, 0) for axis, made in zip(to, stacked, strict=True)]
        return _rebuilt(results[0], stacked)

    return call


def _mapped_axes(name: str, in_dims: Any, args: tuple[Any, ...]) -> list[int | None]:
    """Return the axis to go along per leaf of the arguments, None for what stays.

    Raises:
        ValueError: there is no such axis, or the axes do not have the structure of the arguments.
    """
    place = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>):"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{place} expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, "
            f"got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    axes = [in_dims] * len(args) if isinstance(in_dims, int) else list(in_dims)
    if len(axes) != len(args):
        raise ValueError(f"{place} in_dims is not compatible with the structure of `inputs`.")
    places = []
    for x, at in zip(args, axes, strict=True):
        if isinstance(at, int) and not isinstance(x, Tensor | tuple | list | dict):
            raise ValueError(
                f"{place} Got in_dim={at} for an input but the input is of type {type(x)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        for leaf, axis in zip(_leaves(x), _spread(at, x), strict=True):
            if axis is not None and not -leaf.dim() <= axis < leaf.dim():
                raise ValueError(
                    f"{place} Got in_dim={axis} for some input, but that input is a Tensor of dimensionality "
                    f"{leaf.dim()} so expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
                )
            places.append(axis)
    return places


def _with_draws(randomness: str, count: int) -> Iterator[int]:
    """Yield the numbers of elements; while each is computed, random numbers are as asked for."""
    source = creating.default_generator.source.bit_generator
    state = source.state
    for k in range(count):
        if k and randomness == "same":
            source.state = state
        with _drawing(randomness):
            yield k


@contextmanager
def _drawing(randomness: str) -> Iterator[None]:
    """Refuse random numbers, if they are an error, until the end."""
    refused = mode.drawing_refused
    mode.drawing_refused = _NO_DRAWS if randomness == "error" else refused
    try:
        yield
    finally:
        mode.drawing_refused = refused


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


_NO_DRAWS = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
    "randomness flags on vmap or perform the randomness operation out of vmap"
)


def _spread(axes: Any, value: Any) -> list[Any]:
    """Return an axis per leaf of a value, from a tree of axes that may end before it does."""
    if isinstance(axes, int) or axes is None:
        return [axes if isinstance(x, Tensor) else None for x in _leaves(value)]
    values = value.values() if isinstance(value, dict) else value
    parts = [axes[k] for k in value] if isinstance(axes, dict) else axes
    return [axis for part, v in zip(parts, values, strict=True) for axis in _spread(part, v)]


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: dict[str, Any] | None = None, *,
    tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Call a module with other tensors in place of its parameters and buffers, which are given by name."""
    given = parameter_and_buffer_dicts
    tensors = given if isinstance(given, dict) else {k: v for part in given for k, v in part.items()}
    places = []
    try:
        for name, value in tensors.items():
            *path, last = name.split(".")
            owner = functools.reduce(getattr, path, module)
            for kept in (owner._parameters, owner._buffers):
                if last in kept:
                    places.append((kept, last, kept[last]))
                    kept[last] = value
                    break
            else:
                raise KeyError(f"{name} is no parameter or buffer of the module")
        return module(*(args if isinstance(args, tuple) else () if args is None else (args,)), **(kwargs or {}))
    finally:
        for kept, last, value in places:
            kept[last] = value
