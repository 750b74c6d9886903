"""Signatures: what they distinguish, the paths of leaves, what they refuse."""

from __future__ import annotations

import collections
import enum
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import optree
import pytest

from tracegrad.errors import ArgumentTypeError
from tracegrad.ir.types import DTYPES
from tracegrad.runtime.signature import Signature, flatten, has_custom, renumber, result_tree, signature_of, unflatten


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class State:
    x: Any
    v: Any = 0.0
    cache: Any = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.v = np.asarray(self.v) * 1.0


@dataclass(frozen=True, slots=True)
class Frozen:
    w: Any


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


class Box:
    def __init__(self, content: Any, label: str) -> None:
        self.content, self.label = content, label


optree.register_pytree_node(
    Box, lambda b: ((b.content,), [b.label]), lambda label, parts: Box(parts[0], label[0]), namespace="tracegrad"
)


def sign(*values: Any) -> Signature:
    return signature_of(tuple("abcdef"[: len(values)]), values)[0]


def test_describes_arguments() -> None:
    params = {"w": np.zeros((3, 2), np.float32), 'a"b': [1.5, None], 3: np.float64(1)}
    signature, leaves = signature_of(
        ("params", "p", "s", "n", "f"), (params, Point(1j, 2.0), State(np.zeros(2)), 4, np.tanh)
    )
    assert signature.describe() == (
        "params[\"w\"]: f32[3,2], params['a\"b'][0]: float, params['a\"b'][1] = None, params[3]: f64[], p.x: complex, "
        "p.y: float, s.x: f64[2], s.v: f64[], s.cache = None, n = 4, f = <ufunc 'tanh'>"
    )
    assert signature.paths() == (
        'params["w"]', "params['a\"b'][0]", "params[3]", "p.x", "p.y", "s.x", "s.v"
    )  # fmt: skip
    assert len(leaves) == len(signature.leaves) == 7


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 1.0), (1, True), (0, False), (1, 2), ("a", "b"), (1.0, 1j), (1.0, np.float64(1)),
        (np.float32(1), np.float64(1)),
        (None, 0), ([1.0], (1.0,)), ({"a": 1.0, "b": 1.0}, {"b": 1.0, "a": 1.0}), ({"a": 1.0}, {"b": 1.0}),
        (np.zeros(2), np.zeros(3)), (np.zeros(2), np.zeros((2, 1))), (np.zeros(2), np.zeros(2, int)),
        (Point(1.0, 2.0), (1.0, 2.0)),
        (Point(1.0, 2), Point(1.0, 3)), (Mode.FAST, Mode.SLOW), (np.sin, np.cos), (object(), object()), ([], ()),
        ({}, None),
        ([[1.0], []], [[], [1.0]]), (Frozen(1.0), Frozen(1)), (Box(1.0, "a"), Box(1.0, "b")), (b"x", "x"),
        (np.zeros(1), 0.0), (np.float64(1), np.array(2.0)),
    ],
)  # fmt: skip
def test_distinguishes(a: Any, b: Any) -> None:
    assert sign(a) != sign(b) and sign(a) == sign(a) and hash(sign(a)) == hash(sign(a))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1.0, 2.0), (np.zeros(2), np.ones(2)), (np.zeros(4)[::2], np.zeros(2)), (np.zeros(2, ">f8"), np.zeros(2)),
        (np.zeros(2, np.longlong), np.zeros(2, np.int64)), (np.float64(1), np.float64(2)), ("ab", "".join(["a", "b"])),
        ({"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 4.0}), (Box(1.0, "a"), Box(2.0, "a")), (State(1.0), State(2.0)),
    ],
)  # fmt: skip
def test_equal(a: Any, b: Any) -> None:
    assert sign(a) == sign(b) and hash(sign(a)) == hash(sign(b))


def test_objects_without_a_hash_are_told_apart_by_identity() -> None:
    class Model:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return True

    model = Model()
    assert sign(model) == sign(model) != sign(Model())
    assert hash(sign(model)) == hash(sign(model))


@pytest.mark.parametrize(
    "value",
    [
        {"b": 1.0, "a": (2.0, None, [np.ones(2)])}, Point(1.0, "x"), Frozen(np.ones(1)), {}, (), [], None, 3, 2.5,
        collections.OrderedDict(b=1.0, a=2.0), collections.deque([1.0, 2.0], maxlen=3), {(1, 2): 1.0, None: 2.0},
    ],
)  # fmt: skip
def test_round_trip_keeps_structure_and_order(value: Any) -> None:
    tree, leaves, arrays = flatten(value)
    again = unflatten(tree, arrays)
    assert repr(again) == repr(value) and type(again) is type(value)
    assert len(leaves) == len(arrays)
    assert repr(unflatten(renumber(tree, range(1, len(arrays) + 1)), [None, *arrays])) == repr(value)


def test_dataclasses_work_without_registration_and_are_not_initialised_again() -> None:
    state = State(np.ones(2), 3.0)
    state.cache = np.zeros(1)
    tree, _, arrays = flatten(state)
    again = unflatten(tree, [a * 2 for a in arrays])
    assert type(again) is State and again.v == 6.0 and list(again.x) == [2, 2] and list(again.cache) == [0]
    rebuilt = unflatten(result_tree(tree), arrays)
    assert type(rebuilt) is State and rebuilt.x is state.x and rebuilt.v is state.v
    assert not has_custom(tree)


def test_registered_nodes_work() -> None:
    tree, leaves, arrays = flatten({"box": Box(np.ones(2), "label")}, "d")
    again = unflatten(tree, arrays)["box"]
    assert again.label == "label" and list(again.content) == [1, 1] and has_custom(tree)
    assert unflatten(result_tree(tree), arrays)["box"].label == "label" and len(leaves) == 1


def test_every_dtype_is_an_array_leaf() -> None:
    for name, dtype in DTYPES.items():
        signature = sign(np.zeros(2, dtype), np.zeros((), dtype)[()])
        assert signature.describe() == f"a: {name}[2], b: {name}[]"


def test_array_likes_are_arrays() -> None:
    class Like:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.arange(3.0)

    signature, (value,) = signature_of(("x",), (Like(),))
    assert signature.describe() == "x: f64[3]" and type(value) is np.ndarray
    signature, (value,) = signature_of(("x",), (np.ones(2).view(np.recarray),))
    assert signature.describe() == "x: f64[2]"


class Params(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (np.array(["a"]), "TG702"), (np.array([None]), "TG702"), (np.array("2020-01-01", "M8[D]"), "TG702"),
        (np.str_("a"), "TG702"),
        (np.zeros(2, np.longdouble), "TG702"), (np.zeros(2, "f8,f8"), "TG702"), (Params(a=1.0), "TG701"),
        (np.ma.masked_array([1.0], [True]), "TG703"), (np.ones((1, 1)).view(np.matrix), "TG703"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_refuses_and_names_the_argument(value: Any, code: str) -> None:
    with pytest.raises(ArgumentTypeError, match=rf'params\["w"\]\[1\].*\[{code}\]') as raised:
        signature_of(("params",), ({"w": (1.0, value)},))
    assert isinstance(raised.value, TypeError)


def test_a_float_of_a_subclass_is_a_float() -> None:
    class Meters(float):
        pass

    assert sign(Meters(2.0)) == sign(1.0)
    assert sign(ml_dtypes.bfloat16(1)).describe() == "a: bf16[]"


def test_a_class_as_an_argument_is_static() -> None:
    assert sign(np.float64).describe().startswith("a = ")
    assert sign(State) == sign(State) != sign(Frozen)


def test_trees_can_be_pickled() -> None:
    signature = sign({"a": np.ones(2), "n": 3}, Point(1.0, None))
    assert pickle.loads(pickle.dumps(signature)) == signature
