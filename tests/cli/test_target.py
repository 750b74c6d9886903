"""Targets and arguments as text and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracegrad.errors import ArgumentError
from tracegrad.ir.types import ArrayType, array_type
from tracegrad.target import bind_inputs, load_function, parse_argument, read_inputs

T = array_type


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("x=f64[8,3]", "x", T("f64[8,3]")),
        (" x = f64[ n , 2*n+1 ] ", "x", T("f64[n,2*n+1]")),
        ("x=float32[]", "x", T("f32[]")),
        ("n=3", "n", 3),
        ("n=-1_000", "n", -1000),
        ("lr=1e-3", "lr", 1e-3),
        ("lr=-.5", "lr", -0.5),
        ("top=inf", "top", float("inf")),
        ("z=2j", "z", 2j),
        ("mode='a = b'", "mode", "a = b"),
        ('mode="it\'s"', "mode", "it's"),
        ("flag=True", "flag", True),
        ("none=None", "none", None),
        ("sizes=(4, 8, 1)", "sizes", (4, 8, 1)),
        ("one=(4,)", "one", (4,)),
        ("same=(4)", "same", 4),
        ("empty=()", "empty", ()),
        (
            "p={w: f64[3], 'two words': {b: f64[]}, 0: 1.5}",
            "p",
            {"w": T("f64[3]"), "two words": {"b": T("f64[]")}, 0: 1.5},
        ),
        ("p=[f64[2], (1, f64[3])]", "p", [T("f64[2]"), (1, T("f64[3]"))]),
        ("p={}", "p", {}),
        ("p={w: f64[3],}", "p", {"w": T("f64[3]")}),
        ("params.w=f64[3]", "params.w", T("f64[3]")),
    ],
)
def test_text_of_an_argument(text: str, name: str, value: Any) -> None:
    found = parse_argument(text)
    assert found == (name, value)
    assert type(found[1]) is type(value)


def test_lists_of_numbers_are_arrays() -> None:
    value = parse_argument("x=[[1, 2.5], [3, 4]]")[1]
    assert value.dtype == np.float64
    assert value.tolist() == [[1.0, 2.5], [3.0, 4.0]]
    assert parse_argument("labels=[0, 2]")[1].dtype == np.int64
    ragged = parse_argument("x=[[1.0], [2.0, 3.0]]")[1]
    assert [part.tolist() for part in ragged] == [[1.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x", "an argument needs a name"),
        ("=f64[3]", "an argument needs a name"),
        ("2x=3", "an argument needs a name"),
        ("x=", "a value is missing"),
        ("x=f64", "f64 has no shape"),
        ("x=f65[3]", "f65 is no dtype"),
        ("x=f64[3", "a closing ] is missing"),
        ("x=f64[-1]", "-1 is no size"),
        ("x=f64[a b]", "a b is no size"),
        ("x=f64[,]", "nothing is no size"),
        ("x=f64[n.m]", "n.m is no size"),
        ("x=abc", "for text write quotes: 'abc'"),
        ("x=1x", "1x is no number"),
        ("x=3 4", "something follows the value"),
        ("x=[1 2]", "a comma or ] is missing"),
        ("x={w f64[3]}", "a colon is missing"),
        ("x={: f64[3]}", "a key is missing"),
        ("x={w: f64[3]", "a comma or } is missing"),
        ("x=}", "unexpected }"),
        ("x=@", "unexpected text"),
    ],
)
def test_unreadable_text(text: str, says: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_argument(text)
    assert says in str(caught.value)


def test_caret_under_the_fault() -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_argument("p={w: f64[3], b: f65[]}")
    lines = str(caught.value).splitlines()
    assert lines[2].index("^") == lines[1].index("f65")


def test_files_make_pytrees(project: Path) -> None:
    found = read_inputs("stack.npz", ["x=f64[2]"])
    assert [sorted(layer) for layer in found["stack"]] == [["b", "w"], ["b", "w"]]
    assert found["x"] == T("f64[2]")
    found = read_inputs("batch.npz", ["params.w=f64[n]"])
    assert found["params"] == {"w": T("f64[n]"), "b": np.array(0.1)}
    found = read_inputs("batch.json", ["params={w: f64[3]}"])
    assert found["params"] == {"w": T("f64[3]")}
    assert found["x"].shape == (2, 3)
    assert found["n"] == 2
    assert type(found["n"]) is int


def test_bind_orders_and_fills() -> None:
    def f(a, b=2.0, *rest, c, d=4, **more):
        pass

    inputs = bind_inputs(f, {"more_1": 7, "c": T("f64[n]"), "a": 1, "rest": (5, 6)})
    assert inputs.names == ["a", "b", "rest_0", "rest_1", "=c", "=d", "=more_1"]
    assert inputs.values == [1, 2.0, 5, 6, T("f64[n]"), 4, 7]
    assert inputs.signature().describe() == "a = 1, b: float, rest_0 = 5, rest_1 = 6, c: f64[n], d = 4, more_1 = 7"
    assert list(inputs.example_sizes()) == ["n"]


def test_drawn_arrays() -> None:
    def f(x, labels, z, mask):
        pass

    given = {"x": T("f32[n,2]"), "labels": T("i64[n]"), "z": T("c128[]"), "mask": T("bool[n]")}
    inputs = bind_inputs(f, given)
    x, labels, z, mask = inputs.draw(np.random.default_rng(0), {"n": 5}, (2.0, 3.0))
    assert (x.dtype, x.shape) == (np.float32, (5, 2))
    assert ((x >= 2) & (x <= 3)).all()
    assert set(labels.tolist()) <= {0, 1}
    assert (z.dtype, mask.dtype) == (np.complex128, np.bool_)
    signature = inputs.signature()
    assert [leaf.type for leaf in signature.leaves] == list(given.values())
    assert all(isinstance(leaf.type, ArrayType) for leaf in signature.leaves)


@pytest.mark.parametrize(
    "target", ["model:loss", "model.py:loss", "./model.py:loss", "model:model.value", "package.part:f"]
)
def test_targets(project: Path, target: str) -> None:
    assert callable(load_function(target))


def test_file_of_a_package_is_imported_as_its_part(project: Path) -> None:
    assert load_function("package/part.py:f")(np.ones(2)) == 8.0


def test_file_named_like_a_loaded_module(project: Path) -> None:
    (project / "json.py").write_text("def f(x):\n    return x\n")
    assert load_function("json.py:f").__module__ == "_tracegrad_target_json"
