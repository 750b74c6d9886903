"""Which choices keep a triangle: every comparison of rows and columns against NumPy's tril and triu."""

from __future__ import annotations

import numpy as np
import pytest

from tracegrad.ir.parser import parse_function
from tracegrad.ir.triangles import triangle_of
from tracegrad.testing.interpret import interpret

X = np.arange(1.0, 13.0).reshape(3, 4)
MASKS = {
    "plain": "%m: bool[3,4] = {op} {x}, {y}",
    "difference": (
        "%d: i64[3,4] = subtract {x}, {y}\n%k: i64[3,4] = full {{shape=(3, 4), dtype=i64, value={k}}}\n"
        "%m: bool[3,4] = {op} %d, %k"
    ),
}


def made(mask: str, kept: str, **names: object) -> str:
    choice = "%x, %zero" if kept == "kept" else "%zero, %x"
    lines = f"""%zero: f64[3,4] = full {{shape=(3, 4), dtype=f64, value=0.0}}
%i: i64[3,4] = iota {{shape=(3, 4), dtype=i64, axis=0}}
%j: i64[3,4] = iota {{shape=(3, 4), dtype=i64, axis=1}}
{MASKS[mask].format(**names)}
%r: f64[3,4] = select %m, {choice}
return %r"""
    body = "\n".join(f"  {line}" for line in lines.splitlines())
    return f"func @f(%x: f64[3,4]) -> (f64[3,4]) {{\n{body}\n}}\n"


@pytest.mark.parametrize("kept", ["kept", "dropped"])
@pytest.mark.parametrize("op", ["less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize(("x", "y"), [("%i", "%j"), ("%j", "%i")])
@pytest.mark.parametrize(("mask", "k"), [("plain", 0), ("difference", 0), ("difference", 1), ("difference", -2)])
def test_bands(kept: str, op: str, x: str, y: str, mask: str, k: int) -> None:
    function = parse_function(made(mask, kept, op=op, x=x, y=y, k=k))
    found = triangle_of(function.body.operations[-1])
    assert found is not None
    band, position = found
    assert position == (1 if kept == "kept" else 2)
    expected = (np.triu if band.is_upper else np.tril)(X, band.diagonal)
    np.testing.assert_array_equal(interpret(function, X)[0], expected)


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("value=0.0", "value=-0.0"),
        ("value=0.0", "value=1.0"),
        ("axis=1", "axis=0"),
        ("less %i", "equal %i"),
    ],
)
def test_other_choices(text: str, other: str) -> None:
    source = made("plain", "kept", op="less", x="%i", y="%j")
    assert text in source
    assert triangle_of(parse_function(source).body.operations[-1]) is not None
    assert triangle_of(parse_function(source.replace(text, other)).body.operations[-1]) is None
