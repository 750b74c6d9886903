"""Derivatives that can be asked for: from a captured function to the IR that computes one, and the structure it
returns.

Reads captured functions and trees of arguments and results; calls transform/. Previous: load_python.py; next: trees.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, clone_function
from tracegrad.ir.types import ArrayType, is_complex, is_inexact
from tracegrad.runtime.signature import NONE, Tree
from tracegrad.transform.jacobian import block_type, diagonal, jacobian
from tracegrad.transform.jvp import jvp
from tracegrad.transform.vjp import gradient, without_prints

#: requests for a function that returns one scalar
SCALAR = frozenset({"grad", "value_and_grad", "hessian", "hessian_diagonal", "hvp"})
#: requests that take one tangent per floating-point leaf of the arguments
TANGENTS = frozenset({"jvp", "push", "hvp"})
#: what gives the second derivatives of a function whose result is no scalar
_FOR_ARRAYS = {
    "hessian": "tg.jacobian(tg.jacobian(f))",
    "hessian_diagonal": "tg.jacobian(tg.jacobian(f))",
    "hvp": "tg.jvp of tg.jacobian(f)",
}
_MODES = {"jacobian": "", "jacfwd": "forward", "jacrev": "reverse"}


@dataclass(frozen=True, slots=True)
class Request:
    """What is wanted of a function.

    Attributes:
        kind: "function" (its value), "grad", "value_and_grad", "jacobian", "jacfwd", "jacrev", "hessian", "hvp", "jvp",
            "push" (the tangent of "jvp" alone, of a function that has run before), or "vjp" (arguments and cotangents
            to cotangents).
        argnums: positions of the arguments differentiated, () for "function".
        single: the derivative by one argument is returned by itself, not in a tuple.
        has_aux: the function returns (what to differentiate, anything).
    """

    kind: str = "function"
    argnums: tuple[int, ...] = ()
    single: bool = True
    has_aux: bool = False


@dataclass(frozen=True, slots=True)
class Derived:
    """How to compute a derivative, and what it gives.

    Attributes:
        wrt: numbers of the flat parameters that it is taken by.
        transform: makes the IR from that of the function.
        results: types of the flat results; primal results come first when they are kept.
        keeps: whether the primal results are among them.
        tree: structure of the returned value.
    """

    wrt: tuple[int, ...]
    transform: Callable[[Function], Function]
    results: tuple[ArrayType, ...]
    keeps: bool
    tree: Tree

    def apply(self, function: Function) -> Function:
        """Return the IR of the derivative, which gives what is said here: callers make room for it."""
        made = self.transform(function)
        assert tuple(v.type for v in made.results) == self.results, f"{made.name} gives other types than planned"
        return made


def derive(
    request: Request,
    name: str,
    arguments: Mapping[int, Tree],
    inputs: Sequence[ArrayType],
    tree: Tree,
    primal: Sequence[ArrayType],
    keep: bool = False,
) -> Derived:
    """Return how to compute what is requested of a function.

    Args:
        name: of the function, for messages.
        arguments: trees of the arguments in `request.argnums`; leaves are numbers of flat parameters.
        inputs: types of the flat parameters.
        tree: structure of the function's result; leaves are numbers of flat results.
        primal: types of the flat results.
        keep: keep the primal results although the request does not need them.

    Raises:
        ArgumentTypeError: the function or the arguments do not fit the request.
    """
    value_tree, aux_tree = without_aux(name, tree, primal) if request.has_aux else (tree, None)
    every = [number for argnum in request.argnums for number in leaf_numbers(arguments[argnum])]
    wrt = tuple(number for number in every if is_inexact(inputs[number].dtype))
    if not wrt:
        given = [arguments[argnum] for argnum in request.argnums]
        values = [
            t.data.value if t.kind == "identity" else t.data[1] for t in given if t.kind in ("identity", "static")
        ]
        objects = [type(v).__name__ for v in values if hasattr(v, "__dict__") and not callable(v)]
        raise ArgumentTypeError(
            "there is nothing to differentiate by",
            code="TG204",
            span=None,
            found="the arguments chosen hold no float array or number"
            + (f": an object of class {objects[0]}" if objects else ""),
            help="make the class a dataclass, or pass a dict of its floats: the attributes of other objects are read "
            "like globals"
            if objects
            else "choose arguments that hold floats, by argnums (--wrt on the command line)",
        )
    keep = keep or request.kind in ("value_and_grad", "jvp") or (request.has_aux and request.kind != "push")
    offset = len(primal) if keep else 0
    argument_trees = [arguments[a] for a in request.argnums]
    by = argument_trees[0] if request.single else Tree("tuple", None, tuple(argument_trees))
    types = [inputs[number] for number in wrt]
    scalar = check_scalar(name, value_tree, primal, request) if request.kind in SCALAR else 0
    outputs = [number for number in leaf_numbers(value_tree) if is_inexact(primal[number].dtype)]
    if request.kind in _MODES and not outputs:
        raise ArgumentTypeError(
            f"{request.kind} needs a function that returns floats",
            code="TG202",
            span=None,
            found=f"{name} returns {kind_text(value_tree, primal)}, which does not depend smoothly on anything",
            help="return a float array",
        )

    def gradients(function: Function) -> Function:
        if scalar is not None:
            return gradient(function, wrt, scalar, keep_primal=keep)
        made = gradient(_with_constant(function), wrt, len(primal), keep_primal=keep)
        return without_results(made, len(primal), 1) if keep else made

    def place(tree: Tree, first: int) -> Tree:
        """Return a tree of the arguments whose leaves are numbered from `first` on, in the order of `wrt`."""
        numbers = {number: first + position for position, number in enumerate(wrt)}
        return _nest(tree, lambda number: Tree("leaf", numbers[number], ()) if number in numbers else NONE)

    if request.kind in ("grad", "value_and_grad"):
        extra, derivative = types, place(by, offset)

        def transform(function: Function) -> Function:
            return gradients(function)

    elif request.kind in _MODES:
        rows = {number: offset + row * len(wrt) for row, number in enumerate(outputs)}
        extra = [block_type(primal[o], t) for o in outputs for t in types]
        derivative = _nest(value_tree, lambda number: place(by, rows[number]) if number in rows else NONE)

        def transform(function: Function) -> Function:
            return jacobian(function, wrt, _MODES[request.kind], outputs=outputs, keep_primal=keep)

    elif request.kind == "hessian":
        rows = {number: offset + row * len(wrt) for row, number in enumerate(wrt)}
        extra = [block_type(a, b) for a in types for b in types]
        derivative = _nest(by, lambda number: place(by, rows[number]))

        def transform(function: Function) -> Function:
            first = gradients(function)
            made = jacobian(first, wrt, "forward", outputs=range(offset, len(first.results)), keep_primal=keep)
            return without_results(made, offset, len(wrt) if keep else 0)

    elif request.kind == "hessian_diagonal":
        extra, derivative = types, place(by, offset)

        def transform(function: Function) -> Function:
            first = gradients(function)
            made = diagonal(first, wrt, outputs=range(offset, len(first.results)), keep_primal=keep)
            return without_results(made, offset, len(wrt) if keep else 0)

    elif request.kind == "hvp":
        extra, derivative = types, place(by, offset)

        def transform(function: Function) -> Function:
            first = gradients(function)
            made = jvp(first, wrt, outputs=range(offset, len(first.results)), keep_primal=keep)
            return without_results(made, offset, len(wrt) if keep else 0)

    else:
        assert request.kind in ("jvp", "push"), f"no such request: {request.kind}"
        places = {number: offset + position for position, number in enumerate(outputs)}
        extra = [primal[o] for o in outputs]
        derivative = _nest(value_tree, lambda number: Tree("leaf", places[number], ()) if number in places else NONE)

        def transform(function: Function) -> Function:
            again = without_prints(function) if request.kind == "push" else function
            return jvp(again, wrt, outputs=outputs, keep_primal=keep)

    if request.kind == "value_and_grad":
        result = Tree("tuple", None, (tree, derivative))
    elif request.kind == "jvp":
        result = Tree("tuple", None, (value_tree, derivative, *([aux_tree] if aux_tree is not None else [])))
    elif aux_tree is not None and request.kind != "push":
        result = Tree("tuple", None, (derivative, aux_tree))
    else:
        result = derivative
    return Derived(wrt, transform, (*(primal if keep else ()), *extra), keep, result)


def without_aux(name: str, tree: Tree, primal: Sequence[ArrayType]) -> tuple[Tree, Tree]:
    """Return the structures of what to differentiate and of the auxiliary part of a result.

    Raises:
        ArgumentTypeError: the result is no tuple of two.
    """
    if tree.kind != "tuple" or len(tree.children) != 2:
        raise no_pair(name, kind_text(tree, primal))
    value, aux = tree.children
    return value, aux


def no_pair(name: str, found: str) -> ArgumentTypeError:
    """Return the error for a function that does not return a value and what is auxiliary."""
    return ArgumentTypeError(
        f"has_aux=True: {name} must return a tuple of two",
        code="TG203",
        span=None,
        found=f"{name} returns {found}",
        help="return a tuple of two: what to differentiate, then anything",
    )


def _nest(tree: Tree, leaf: Callable[[int], Tree]) -> Tree:
    """Return a tree with each leaf replaced by the tree `leaf(number)`; static parts become None."""
    if tree.kind == "leaf":
        return leaf(tree.data)
    if tree.kind in ("none", "static", "identity"):
        return NONE
    return Tree(tree.kind, tree.data, tuple(_nest(child, leaf) for child in tree.children))


def without_results(function: Function, first: int, count: int) -> Function:
    """Return a function, which is used up, without some of its results."""
    del function.body.yields[first : first + count]
    return function


def leaf_numbers(tree: Tree) -> list[int]:
    """Return the numbers of the leaves of a tree, in order."""
    if tree.kind == "leaf":
        return [tree.data]
    return [number for child in tree.children for number in leaf_numbers(child)]


def inexact_part(tree: Tree, wrt: Sequence[int]) -> Tree:
    """Return the structure of the cotangent of an argument: leaves that carry a derivative, None for all else."""
    return _nest(tree, lambda number: Tree("leaf", list(wrt).index(number), ()) if number in wrt else NONE)


def _with_constant(function: Function) -> Function:
    """Return the function with a float more as its last result, which does not depend on anything."""
    made = clone_function(function)
    builder = Builder(made.body)
    made.body.yields = [*made.results, builder.constant(0.0)]
    return made


def check_scalar(name: str, tree: Tree, primal: Sequence[ArrayType], request: Request) -> int | None:
    """Return which flat result is differentiated; None for a Python int, as of `return 0` where there is nothing."""
    kind = request.kind
    if tree.kind == "static" and tree.data[0] is int:
        return None
    if tree.kind != "leaf":
        found = kind_text(tree, primal)
        raise ArgumentTypeError(
            f"{kind} needs a function that returns a scalar",
            code="TG202",
            span=None,
            found=f"{name} returns {found}",
            help="return one float; with has_aux=True return (scalar, anything); "
            f"{_FOR_ARRAYS.get(kind, 'tg.vjp')} takes functions with several results",
        )
    found_type = primal[tree.data]
    if found_type.shape != ():
        raise ArgumentTypeError(
            f"{kind} needs a function that returns a scalar",
            code="TG202",
            span=None,
            found=f"{name} returns {found_type}",
            help="reduce it, for instance with np.sum; or use "
            + (_FOR_ARRAYS.get(kind) or "tg.vjp, which takes a cotangent of that shape"),
        )
    if not is_inexact(found_type.dtype):
        raise ArgumentTypeError(
            f"{kind} needs a function that returns a float",
            code="TG202",
            span=None,
            found=f"{name} returns {found_type}, which does not depend smoothly on anything",
            help="return a float",
        )
    if is_complex(found_type.dtype):
        raise ArgumentTypeError(
            f"{kind} needs a function that returns a real number",
            code="TG202",
            span=None,
            found=f"{name} returns {found_type}",
            help="return np.abs, np.real or np.imag of it"
            + ("" if kind in _FOR_ARRAYS else "; or use tg.vjp, which takes a complex cotangent"),
        )
    return int(tree.data)


def kind_text(tree: Tree, types: Sequence[ArrayType]) -> str:
    """Return what a function returns, for messages."""
    if tree.kind == "leaf":
        return str(types[tree.data])
    if tree.kind in ("tuple", "list", "dict"):
        return f"a {tree.kind} of {len(tree.children)}"
    if tree.kind in ("static", "identity"):
        value = tree.data[1] if tree.kind == "static" else tree.data.value
        return f"a Python {type(value).__name__} that does not depend on its arguments"
    if tree.kind in ("object", "custom"):
        cls = tree.data[0] if tree.kind == "object" else tree.data.cls
        return f"an object of class {cls.__name__}"
    return "None" if tree.kind == "none" else f"a {tree.kind}"


def tree_text(tree: Tree) -> str:
    """Return the template of a returned structure; see Interface.result."""
    texts = [tree_text(child) for child in tree.children]
    if tree.kind == "leaf":
        return f"{{{tree.data}}}"
    if tree.kind == "none":
        return "None"
    if tree.kind in ("static", "identity"):
        value = tree.data[1] if tree.kind == "static" else tree.data.value
        return repr(value).replace("{", "{{").replace("}", "}}")
    if tree.kind == "list":
        return f"[{', '.join(texts)}]"
    if tree.kind == "dict":
        return "{{" + ", ".join(f"{k!r}: {t}" for k, t in zip(tree.data, texts, strict=True)) + "}}"
    if tree.kind == "call":
        return str(tree.data.text(*texts)) if hasattr(tree.data, "text") else f"list({texts[0]})"
    if tree.kind == "object":
        return "{{" + ", ".join(f"{k!r}: {t}" for k, t in zip(tree.data[1], texts, strict=True)) + "}}"
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
