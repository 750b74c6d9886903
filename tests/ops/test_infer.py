"""Type rules with symbolic dimensions, and what they refuse."""

import numpy as np
import pytest

from tracegrad.errors import ArgumentTypeError, ShapeError
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Value
from tracegrad.ir.opdef import TABLE, interpreter
from tracegrad.ir.types import DTYPES, I64, StackType, array_type, symbol
from tracegrad.ops import vjp_of
from tracegrad.testing.interpret import interpret

N, M = symbol("n"), symbol("m")


def infer(name, *types, **attrs):
    found = TABLE[name].infer(*[array_type(t) for t in types], **attrs)
    return " ".join(map(str, found))


@pytest.mark.parametrize(
    ("name", "types", "attrs", "expected"),
    [
        ("add", ("f64[n,3]", "f64[n,3]"), {}, "f64[n,3]"),
        ("less", ("f32[2*n]", "f32[2*n]"), {}, "bool[2*n]"),
        ("select", ("bool[n]", "i64[n]", "i64[n]"), {}, "i64[n]"),
        ("power", ("f32[n]", "i64[n]"), {}, "f32[n]"),
        ("absolute", ("c64[n]",), {}, "f32[n]"),
        ("cast", ("f64[n]",), {"dtype": DTYPES["f32"]}, "f32[n]"),
        ("full", (), {"shape": (N, 2), "dtype": I64, "value": 0}, "i64[n,2]"),
        ("iota", (), {"shape": (N + 1,), "dtype": I64, "axis": 0}, "i64[n+1]"),
        ("dim", (), {"dim": 2 * N}, "i64[]"),
        ("reshape", ("f64[n,m]",), {"shape": (M * N,)}, "f64[m*n]"),
        ("reshape", ("f64[2*n]",), {"shape": (N, 2)}, "f64[n,2]"),
        ("transpose", ("f64[n,m,3]",), {"axes": (2, 0, 1)}, "f64[3,n,m]"),
        ("broadcast_to", ("f64[1,n]",), {"shape": (M, 4, N)}, "f64[m,4,n]"),
        ("reduce_sum", ("f64[n,m]",), {"axes": (0,)}, "f64[m]"),
        ("slice", ("f64[n]",), {"start": (1,), "stop": (N,), "step": (1,)}, "f64[n-1]"),
        ("slice", ("f64[2*n]",), {"start": (0,), "stop": (2 * N,), "step": (2,)}, "f64[((2*n+1)//(2))]"),
        ("pad", ("f64[n]",), {"low": (1,), "high": (N,), "interior": (1,)}, "f64[3*n]"),
        ("flip", ("f64[n,2]",), {"axes": (0,)}, "f64[n,2]"),
        ("concatenate", ("f64[n,2]", "f64[3,2]", "f64[m,2]"), {"axis": 0}, "f64[m+n+3,2]"),
        ("gather", ("f64[n,m,2]", "i64[m]", "i64[m]"), {"axes": (0, 2)}, "f64[m,m]"),
        ("scatter_add", ("f64[n,m]", "i64[3]", "f64[3,m]"), {"axes": (0,)}, "f64[n,m]"),
        ("set_slice", ("f64[n]", "f64[n-1]"), {"start": (1,), "stop": (N,), "step": (1,)}, "f64[n]"),
        ("reduce_max", ("f64[n,m]",), {"axes": (1,)}, "f64[n]"),
        ("argmax", ("f64[n,m]",), {"axis": 0}, "i64[m]"),
        ("argsort", ("f64[n]",), {"axis": 0}, "i64[n]"),
        ("cumsum", ("f64[n]",), {"axis": 0, "reverse": True}, "f64[n]"),
        (
            "dot_general",
            ("f64[m,n,2]", "f64[m,2,5]"),
            {"contract": ((2,), (1,)), "batch": ((0,), (0,))},
            "f64[m,n,5]",
        ),
        ("solve", ("f64[n,n]", "f64[n,m]"), {}, "f64[n,m]"),
        ("det", ("f64[m,n,n]",), {}, "f64[m]"),
        ("slogdet", ("c64[n,n]",), {}, "c64[] f32[]"),
        ("is_positive_definite", ("c64[m,n,n]",), {}, "bool[m]"),
        ("is_regular", ("f64[n,n]",), {}, "bool[]"),
        ("eigh", ("c64[m,n,n]",), {"lower": True}, "f32[m,n] c64[m,n,n]"),
        ("svd", ("f64[m,n]",), {"full_matrices": False, "excess": 1}, "f64[m,n] f64[n] f64[n,n]"),
        ("svd", ("f64[m,n]",), {"full_matrices": True, "excess": -1}, "f64[m,m] f64[m] f64[n,n]"),
        ("qr", ("f64[m,n]",), {}, "f64[m,n] f64[n,n]"),
        ("pinv", ("f32[5,m,n]", "f64[5]"), {}, "f32[5,n,m]"),
        ("fft", ("f32[m,n]",), {"axes": (0, 1), "norm": "ortho"}, "c64[m,n]"),
        ("rfft", ("f64[n,m]",), {"axis": 0, "norm": "backward"}, "c128[((n)//(2))+1,m]"),
        ("irfft", ("c128[m]",), {"count": 2 * M - 2, "axis": 0, "norm": "backward"}, "f64[2*m-2]"),
        ("undefined", (), {"type": array_type("f64[n]")}, "f64[n]"),
    ],
)
def test_symbolic(name, types, attrs, expected):
    assert infer(name, *types, **attrs) == expected


@pytest.mark.parametrize(
    ("name", "types", "attrs", "error"),
    [
        ("add", ("f64[n]", "f64[m]"), {}, ShapeError),
        ("add", ("f64[n]", "f32[n]"), {}, ArgumentTypeError),
        ("add", ("bool[2]", "bool[2]"), {}, ArgumentTypeError),
        ("sin", ("i64[2]",), {}, ArgumentTypeError),
        ("less", ("c128[2]", "c128[2]"), {}, ArgumentTypeError),
        ("logical_and", ("i64[2]", "i64[2]"), {}, ArgumentTypeError),
        ("power", ("f64[2]", "f32[2]"), {}, ArgumentTypeError),
        ("select", ("bool[3]", "f64[2]", "f64[2]"), {}, ShapeError),
        ("cast", ("c128[2]",), {"dtype": DTYPES["f64"]}, ArgumentTypeError),
        ("reshape", ("f64[n]",), {"shape": (M,)}, ShapeError),
        ("transpose", ("f64[2,3]",), {"axes": (0, 0)}, ShapeError),
        ("transpose", ("f64[2,3]",), {"axes": (0,)}, ShapeError),
        ("broadcast_to", ("f64[2]",), {"shape": (3,)}, ShapeError),
        ("broadcast_to", ("f64[2,1]",), {"shape": (2,)}, ShapeError),
        ("reduce_sum", ("f64[2]",), {"axes": (1,)}, ShapeError),
        ("slice", ("f64[3]",), {"start": (0,), "stop": (4,), "step": (1,)}, ShapeError),
        ("slice", ("f64[3]",), {"start": (2,), "stop": (1,), "step": (1,)}, ShapeError),
        ("pad", ("f64[3]",), {"low": (-1,), "high": (0,), "interior": (0,)}, ShapeError),
        ("concatenate", ("f64[2,3]", "f64[2,4]"), {"axis": 0}, ShapeError),
        ("gather", ("f64[3]", "i32[]"), {"axes": (0,)}, ArgumentTypeError),
        ("gather", ("f64[3,3]", "i64[2]", "i64[3]"), {"axes": (0, 1)}, ShapeError),
        ("scatter_add", ("f64[3]", "i64[2]", "f64[3]"), {"axes": (0,)}, ShapeError),
        ("scatter_set", ("f64[3]", "i64[2]", "f32[2]"), {"axes": (0,)}, ArgumentTypeError),
        ("add_slice", ("f64[3]", "f64[3]"), {"start": (1,), "stop": (3,), "step": (1,)}, ShapeError),
        ("reduce_any", ("f64[3]",), {"axes": (0,)}, ArgumentTypeError),
        ("dot_general", ("f64[2,3]", "f64[2]"), {"contract": ((1,), (0,)), "batch": ((), ())}, ShapeError),
        ("solve", ("f64[2,3]", "f64[2,1]"), {}, ShapeError),
        ("solve", ("f64[2,2]", "f64[2]"), {}, ShapeError),
        ("inv", ("f16[2,2]",), {}, ArgumentTypeError),
        ("eigh", ("f64[2,3]",), {"lower": True}, ShapeError),
        ("svd", ("f64[3]",), {"full_matrices": False, "excess": 0}, ShapeError),
        ("svd", ("f64[3,2]",), {"full_matrices": False, "excess": -1}, ShapeError),
        ("qr", ("f64[2,3]",), {}, ShapeError),
        ("pinv", ("f64[2,3]", "f32[]"), {}, ArgumentTypeError),
        ("fft", ("i64[3]",), {"axes": (0,), "norm": "backward"}, ArgumentTypeError),
        ("rfft", ("c128[3]",), {"axis": 0, "norm": "backward"}, ArgumentTypeError),
        ("irfft", ("c128[3]",), {"count": 7, "axis": 0, "norm": "backward"}, ShapeError),
    ],
)
def test_refused(name, types, attrs, error):
    with pytest.raises(error, match=r"\[TG30\d\]"):
        infer(name, *types, **attrs)


# Control


def block(params, build):
    values = [Value(array_type(t)) for t in params]
    made = Block(values)
    with interpreter(Builder(made)):
        made.yields = list(build(*values))
    return made


def test_branches_must_agree():
    then, other = block((), lambda: [TABLE["dim"](dim=1)]), block((), lambda: [TABLE["dim"](dim=2)])
    assert TABLE["if"].infer(array_type("bool[]"), blocks=[then, other]) == (array_type("i64[]"),)
    with pytest.raises(ShapeError, match="two branches"):
        TABLE["if"].infer(array_type("bool[]"), blocks=[then, block((), list)])
    with pytest.raises(ArgumentTypeError):
        TABLE["if"].infer(array_type("i64[]"), blocks=[then, other])


def test_loops_keep_their_types():
    i64, x = array_type("i64[]"), array_type("f64[n]")
    body = block(("i64[]", "f64[n]"), lambda k, x: [TABLE["sin"](x)])
    assert TABLE["for"].infer(i64, i64, x, blocks=[body], step=1, reverse=False) == (x,)
    shrinking = block(("i64[]", "f64[n]"), lambda k, x: [TABLE["reduce_sum"](x, axes=(0,))])
    with pytest.raises(ShapeError, match="end of the loop body"):
        TABLE["for"].infer(i64, i64, x, blocks=[shrinking], step=1, reverse=False)
    positive = block(("f64[]",), lambda x: [TABLE["greater"](x, TABLE["full"](shape=(), dtype=x.dtype, value=0.0))])
    halved = block(("f64[]",), lambda x: [TABLE["sin"](x)])
    assert TABLE["while"].infer(array_type("f64[]"), blocks=[positive, halved]) == (array_type("f64[]"),)


def test_calls_and_stacks():
    function = Function("f", block(("f64[n]",), lambda x: [x, x]))
    assert TABLE["call"].infer(array_type("f64[n]"), function=function) == (array_type("f64[n]"),) * 2
    with pytest.raises(ShapeError, match="call of 'f'"):
        TABLE["call"].infer(array_type("f64[m]"), function=function)
    element = array_type("f64[n]")
    (stack,) = TABLE["stack"].infer(element=element, capacity=None)
    assert stack == StackType(element)
    assert TABLE["push"].infer(stack, element) == ()
    assert TABLE["pop"].infer(stack) == (element,)
    with pytest.raises(ArgumentTypeError):
        TABLE["push"].infer(stack, array_type("f64[]"))


# Rules on symbolic dimensions

SYMBOLIC = [
    ("broadcast_to", ("f64[1,n]",), {"shape": (M, 4, N)}, ((1, 5),)),
    ("reduce_sum", ("f64[n,m]",), {"axes": (1,)}, ((5, 3),)),
    ("slice", ("f64[n]",), {"start": (1,), "stop": (N,), "step": (2,)}, ((5,),)),
    ("slice", ("f64[n]",), {"start": (1,), "stop": (N,), "step": (2,)}, ((6,),)),
    ("pad", ("f64[n]",), {"low": (1,), "high": (2,), "interior": (2,)}, ((5,),)),
    ("concatenate", ("f64[n]", "f64[m]"), {"axis": 0}, ((5,), (3,))),
    ("reshape", ("f64[n,m]",), {"shape": (N * M,)}, ((5, 3),)),
    ("set_slice", ("f64[n]", "f64[n-2]"), {"start": (1,), "stop": (N - 1,), "step": (1,)}, ((5,), (3,))),
    ("reduce_max", ("f64[n,m]",), {"axes": (1,)}, ((5, 3),)),
    ("reduce_prod", ("f64[n,m]",), {"axes": (1,)}, ((5, 3),)),
    ("reduce_prod", ("f64[n,m]",), {"axes": (0, 1)}, ((5, 3),)),
    ("cumprod", ("f64[n]",), {"axis": 0, "reverse": False}, ((5,),)),
    ("cummax", ("f64[n]",), {"axis": 0}, ((5,),)),
    (
        "dot_general",
        ("f64[n,m]", "f64[m,2]"),
        {"contract": ((1,), (0,)), "batch": ((), ())},
        ((5, 3), (3, 2)),
    ),
    ("solve", ("f64[n,n]", "f64[n,2]"), {}, ((5, 5), (5, 2))),
    ("cholesky", ("f64[n,n]",), {}, ((5, 5),)),
    ("det", ("f64[n,n]",), {}, ((5, 5),)),
    ("cofactor", ("f64[n,n]",), {}, ((5, 5),)),
    ("tanh", ("f64[n]",), {}, ((5,),)),
    ("logaddexp", ("f64[n]", "f64[n]"), {}, ((5,), (5,))),
]


@pytest.mark.parametrize(("name", "types", "attrs", "shapes"), SYMBOLIC)
def test_rules_stage_on_symbolic_dimensions(name, types, attrs, shapes, rng):
    """The VJP staged for sizes n and m equals, run at n = 5 and m = 3, the one staged for these sizes."""
    sizes = {"n": shapes[0][-1] if name in ("slice", "broadcast_to") else 5, "m": 3}
    symbolic = staged_vjp(name, [array_type(t) for t in types], attrs)
    operands = [rng.uniform(0.5, 1.5, shape) for shape in shapes]
    if types[0] == "f64[n,n]":
        operands[0] = operands[0] @ operands[0].T + np.eye(5)
    out_type = symbolic.params[-1].array_type
    ct_shape = tuple(d if isinstance(d, int) else d.evaluate(sizes) for d in out_type.shape)
    inputs = [*operands, rng.normal(size=ct_shape)]
    fixed_attrs = {k: _evaluated(v, sizes) for k, v in attrs.items()}
    fixed_types = [array_type(f"f64[{','.join(map(str, shape))}]") for shape in shapes]
    fixed = staged_vjp(name, fixed_types, fixed_attrs)
    for a, b in zip(interpret(symbolic, *inputs, sizes=sizes), interpret(fixed, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def _evaluated(value, sizes):
    if isinstance(value, tuple):
        return tuple(_evaluated(v, sizes) for v in value)
    return value.evaluate(sizes) if hasattr(value, "evaluate") else value


def staged_vjp(name, types, attrs):
    op = TABLE[name]
    params = [Value(t, f"x{k}") for k, t in enumerate(types)]
    body = Block(params)
    builder = Builder(body)
    with interpreter(builder):
        out = builder.apply(op, params, attrs)
        ct = Value(out.type, "ct")
        body.yields = list(vjp_of(op, (ct,), (out,), params, attrs))
    body.params = [*params, ct]
    return Function("f", body)
