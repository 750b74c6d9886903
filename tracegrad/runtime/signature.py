"""The abstract signature of a call: the tree of its arguments, the types of the arrays in it, and its static values.

Reads the arguments of a call; gives a Signature to driver/ and api.py, which find or make the specialization for it.
Previous: driver/pipeline.py; next: call.py.

Trees (dict, list, tuple, named tuple, dataclass, None, and what is registered with optree) hold leaves. Arrays, NumPy
scalars and Python floats and complex numbers are array leaves, numbered in order; all else is static and compared by
type and value. A dict's order of keys is part of the tree, so results come back in the order of the argument.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import optree

from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.types import DTYPES, ArrayType, Shape, dtype_name

NAMESPACE: Final = "tracegrad"

#: compared by value; all other objects by identity
_CONSTANTS = (int, str, bytes, enum.Enum, np.dtype, frozenset, range, type)
_SUPPORTED = frozenset(DTYPES.values())


class Tree(NamedTuple):
    """A node of the structure of arguments or results; a plain tuple, because launcher.c reads it.

    kind, data, children:
        "leaf"      number of the flat input or result
        "none"      -
        "static"    (type, value), compared by both
        "identity"  Identity of an object without a hash
        "tuple", "list"   -
        "named"     the named tuple's class
        "dict"      tuple of keys
        "object"    (class, names of attributes): a dataclass
        "custom"    CustomNode: registered with optree
        "call"      in results only: a function of the children
    """

    kind: str
    data: Any
    children: tuple[Tree, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Identity:
    """An object compared by identity."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class Rebuild:
    """Makes an instance of a dataclass from the values of its fields, without running its `__init__`."""

    cls: type
    names: tuple[str, ...]

    def __call__(self, *values: Any) -> Any:
        instance: Any = object.__new__(self.cls)
        for name, value in zip(self.names, values, strict=True):
            object.__setattr__(instance, name, value)
        return instance


@dataclass(frozen=True, slots=True)
class CustomNode:
    """A node type registered with optree: what it compares by, and how it is built again."""

    cls: type
    compared: Any
    metadata: Any = dataclasses.field(compare=False)
    unflatten: Callable[[Any, Any], Any] = dataclasses.field(compare=False)

    def __call__(self, *values: Any) -> Any:
        return self.unflatten(self.metadata, values)


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array leaf.

    Attributes:
        type: dtype in native byte order, and shape.
        kind: "array" (also a NumPy scalar), "0-d array" and "scalar" where it matters which of these it is; or "float",
            "complex" (Python numbers, which NumPy promotes weakly).
    """

    type: ArrayType
    kind: str = "array"

    def __str__(self) -> str:
        return self.kind if self.is_weak else str(self.type)

    @property
    def is_weak(self) -> bool:
        """Whether it is a Python number."""
        return self.kind in ("float", "complex")


@dataclass(frozen=True, slots=True)
class Signature:
    """What the specialization of a call depends on.

    Attributes:
        names: of the arguments, in order.
        arguments: the tree of each argument; leaves are numbered through all of them.
        leaves: the type of each leaf.
    """

    names: tuple[str, ...]
    arguments: tuple[Tree, ...]
    leaves: tuple[Leaf, ...]

    def paths(self) -> tuple[str, ...]:
        """Return for each leaf the Python expression that reads it from the arguments: `params["w"]`."""
        found: list[str] = []
        for name, tree in zip(self.names, self.arguments, strict=True):
            found.extend(path for path, node in walk(tree, name.lstrip("=")) if node.kind == "leaf")
        return tuple(found)

    def with_shapes(self, shapes: Sequence[Shape]) -> Signature:
        """Return the signature with other shapes of the leaves."""
        leaves = (Leaf(leaf.type.with_shape(s), leaf.kind) for leaf, s in zip(self.leaves, shapes, strict=True))
        return Signature(self.names, self.arguments, tuple(leaves))

    def pattern(self) -> Signature:
        """Return the signature without sizes: equal for calls that differ in sizes only."""
        return self.with_shapes([(0,) * leaf.type.ndim for leaf in self.leaves])

    def describe(self) -> str:
        """Return a text for people: `params["w"]: f64[3], n = 4`.

        >>> signature_of(("x", "n"), (np.zeros(3), 4))[0].describe()
        'x: f64[3], n = 4'
        """
        parts = []
        for name, tree in zip(self.names, self.arguments, strict=True):
            for path, node in walk(tree, name.lstrip("=")):
                if node.kind == "leaf":
                    parts.append(f"{path}: {self.leaves[node.data]}")
                elif node.kind == "static":
                    parts.append(f"{path} = {node.data[1]!r}")
                elif node.kind == "identity":
                    parts.append(f"{path} = {type(node.data.value).__name__} object")
                elif node.kind == "none":
                    parts.append(f"{path} = None")
        return ", ".join(parts)


NONE: Final = Tree("none", None, ())


def signature_of(names: Sequence[str], arguments: Sequence[Any]) -> tuple[Signature, list[Any]]:
    """Return the signature of arguments, and the values of the array leaves in order (array-likes made arrays).

    Raises:
        ArgumentTypeError: an argument holds something that is neither an array of numbers nor a static value.
    """
    leaves: list[Leaf] = []
    values: list[Any] = []
    trees = [_flatten(value, name, leaves, values) for name, value in zip(names, arguments, strict=True)]
    return Signature(tuple(names), tuple(trees), tuple(leaves)), values


def flatten(value: Any, name: str = "value") -> tuple[Tree, list[Leaf], list[Any]]:
    """Flatten one value: its tree, the types of its leaves, and the leaves."""
    leaves: list[Leaf] = []
    values: list[Any] = []
    return _flatten(value, name, leaves, values), leaves, values


def settings_of(cls: type) -> frozenset[str]:
    """Return the fields of a dataclass or named tuple that are declared int or bool: no gradient is meant by these.

    >>> class Options(NamedTuple):
    ...     rate: float
    ...     steps: int = 3
    >>> settings_of(Options)
    frozenset({'steps'})
    """
    declared = {name: kind for base in reversed(cls.__mro__) for name, kind in inspect.get_annotations(base).items()}
    # named tuples keep the text of an annotation in a reference
    texts = {name: getattr(kind, "__forward_arg__", kind) for name, kind in declared.items()}
    return frozenset(name for name, kind in texts.items() if kind in (int, bool, "int", "bool"))


def unflatten(tree: Tree, leaves: Sequence[Any]) -> Any:
    """Return the value with this tree whose leaf number i is `leaves[i]`.

    >>> tree, _, leaves = flatten({"b": 1.0, "a": (2.0, None)})
    >>> unflatten(tree, leaves)
    {'b': 1.0, 'a': (2.0, None)}
    """
    kind, data, children = tree
    if kind == "leaf":
        return leaves[data]
    if kind == "none":
        return None
    if kind == "static":
        return data[1]
    if kind == "identity":
        return data.value
    values = [unflatten(child, leaves) for child in children]
    if kind == "tuple":
        return tuple(values)
    if kind == "list":
        return values
    if kind == "dict":
        return dict(zip(data, values, strict=True))
    if kind == "object":
        return Rebuild(*data)(*values)
    return data(*values)


def result_tree(tree: Tree) -> Tree:
    """Return the tree as launcher.c builds results from it: dataclasses and custom nodes become calls."""
    children = tuple(result_tree(child) for child in tree.children)
    if tree.kind == "object":
        return Tree("call", Rebuild(*tree.data), children)
    return Tree("call" if tree.kind == "custom" else tree.kind, tree.data, children)


def renumber(tree: Tree, numbers: Sequence[int] | Mapping[int, int]) -> Tree:
    """Return the tree with leaf number i replaced by number `numbers[i]`."""
    if tree.kind == "leaf":
        return Tree("leaf", numbers[tree.data], ())
    return Tree(tree.kind, tree.data, tuple(renumber(child, numbers) for child in tree.children))


def has_custom(tree: Tree) -> bool:
    """Return whether a node is one that launcher.c cannot read."""
    return tree.kind == "custom" or any(has_custom(child) for child in tree.children)


def walk(tree: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    """Yield each node that has no children with the expression that reads it, given the expression of the root."""
    if tree.kind in ("leaf", "none", "static", "identity"):
        yield path, tree
    for step, child in zip(_steps(tree), tree.children, strict=True):
        yield from walk(child, path + step)


def _steps(tree: Tree) -> list[str]:
    if tree.kind == "dict":
        return [f"[{_quoted(key)}]" for key in tree.data]
    if tree.kind == "named":
        return [f".{name}" for name in tree.data._fields]
    if tree.kind == "object":
        return [f".{name}" for name in tree.data[1]]
    return [f"[{i}]" for i in range(len(tree.children))]


def _quoted(key: Any) -> str:
    return f'"{key}"' if isinstance(key, str) and '"' not in key and key.isprintable() else repr(key)


def _flatten(value: Any, path: str, leaves: list[Leaf], values: list[Any]) -> Tree:
    cls = type(value)
    if cls is np.ndarray:
        return _leaf(_array_leaf(value, path), value, leaves, values)
    if cls is float or cls is complex:
        dtype = DTYPES["f64" if cls is float else "c128"]
        return _leaf(Leaf(ArrayType(dtype), cls.__name__), value, leaves, values)
    if value is None:
        return NONE
    if cls in (int, bool, str):
        return Tree("static", (cls, value), ())
    if cls is dict:
        children = tuple(_flatten(v, f"{path}[{_quoted(k)}]", leaves, values) for k, v in value.items())
        return Tree("dict", tuple(value), children)
    if cls is tuple or cls is list:
        children = tuple(_flatten(v, f"{path}[{i}]", leaves, values) for i, v in enumerate(value))
        return Tree(cls.__name__, None, children)
    return _flatten_rare(value, path, leaves, values)


def _flatten_rare(value: Any, path: str, leaves: list[Leaf], values: list[Any]) -> Tree:
    cls = type(value)
    if isinstance(value, np.generic):
        return _leaf(_array_leaf(value, path), value, leaves, values)
    if isinstance(value, np.ndarray) or (hasattr(cls, "__array__") and not isinstance(value, type)):
        array = _as_array(value, path)
        return _leaf(_array_leaf(array, path), array, leaves, values)
    if isinstance(value, (float, complex)):
        plain = float(value) if isinstance(value, float) else complex(value)
        return _flatten(plain, path, leaves, values)
    if isinstance(value, tuple) and hasattr(cls, "_fields"):
        children = tuple(_flatten(v, f"{path}.{n}", leaves, values) for n, v in zip(cls._fields, value, strict=True))
        return Tree("named", cls, children)
    if _is_registered(cls):
        node, entries, parts = open_custom(value)
        children = tuple(_flatten(v, f"{path}[{e!r}]", leaves, values) for e, v in zip(entries, parts, strict=True))
        return Tree("custom", node, children)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = tuple(f.name for f in dataclasses.fields(value) if hasattr(value, f.name))
        children = tuple(_flatten(getattr(value, n), f"{path}.{n}", leaves, values) for n in names)
        return Tree("object", (cls, names), children)
    if isinstance(value, (dict, list, tuple)):
        raise ArgumentTypeError(
            f"the argument {path} is a container of an unknown class",
            code="TG701",
            span=None,
            found=f"{path}: {cls.__module__}.{cls.__qualname__}",
            help="pass a plain dict, list or tuple, or register the class with "
            f'optree.register_pytree_node(..., namespace="{NAMESPACE}")',
        )
    if (isinstance(value, _CONSTANTS) or not _has_own_equality(cls)) and _is_hashable(value):
        return Tree("static", (cls, value), ())
    # an object may be read from and written to: one that is merely equal will not do
    return Tree("identity", Identity(value), ())


def _leaf(leaf: Leaf, value: Any, leaves: list[Leaf], values: list[Any]) -> Tree:
    leaves.append(leaf)
    values.append(value)
    return Tree("leaf", len(leaves) - 1, ())


def _array_leaf(value: Any, path: str) -> Leaf:
    dtype = value.dtype.newbyteorder("=")
    if dtype not in _SUPPORTED:
        raise ArgumentTypeError(
            f"the argument {path} has a dtype that cannot be compiled",
            code="TG702",
            span=None,
            found=f"{path}: {value.dtype} array of shape {value.shape}",
            help=f"convert it to one of {', '.join(d.name for d in DTYPES.values())}, or pass it as a Python value",
        )
    kind = "array" if value.ndim else "scalar" if isinstance(value, np.generic) else "0-d array"
    return Leaf(ArrayType(DTYPES[dtype_name(dtype)], value.shape), kind)


def _as_array(value: Any, path: str) -> np.ndarray[Any, Any]:
    if isinstance(value, (np.ma.MaskedArray, np.matrix)):
        raise ArgumentTypeError(
            f"the argument {path} is an array of a class with rules of its own",
            code="TG703",
            span=None,
            found=f"{path}: {type(value).__name__}",
            help="pass np.asarray(...) of it, and a mask as an argument of its own",
        )
    return np.asarray(value)


def open_custom(value: Any) -> tuple[CustomNode, Sequence[Any], Sequence[Any]]:
    """Return the node of an object of a class registered with optree, and the entries and values of its children."""
    parts, metadata, entries, rebuild = optree.tree_flatten_one_level(value, namespace=NAMESPACE)
    return CustomNode(type(value), _freeze(metadata), metadata, rebuild), entries, list(parts)


def _is_registered(cls: type) -> bool:
    """Return whether optree knows the class as a node."""
    known = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    return known is not None


def _freeze(metadata: Any) -> Any:
    """Return metadata of a node in a form that has a hash."""
    if isinstance(metadata, (list, tuple)):
        return (type(metadata), *(_freeze(part) for part in metadata))
    return metadata if _is_hashable(metadata) else Identity(metadata)


def _has_own_equality(cls: type) -> bool:
    """Return whether two distinct objects of a class may be equal."""
    return any("__eq__" in vars(base) for base in cls.__mro__[:-1])


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
