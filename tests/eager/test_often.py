"""Kernels that are run often come to run in C, and give the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as torch
from tracegrad.errors import CompileError
from tracegrad.ir.parser import parse_function
from tracegrad.nn import functional as F
from tracegrad.passes.wide_sums import sum_in_double
from tracegrad.runtime import kernel, often
from tracegrad.runtime.engine import engine

Function = Callable[..., Any]
CALLS = 3


def floats(*shape: int) -> Any:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def derivatives(function: Function, arrays: tuple[Any, ...]) -> list[Any]:
    """Return value, gradients, and gradients of the sum of their squares."""
    given = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    wanted = [t for t in given if t.requires_grad]
    out = function(*given)
    weights = torch.tensor(np.cos(np.arange(out.numel())).reshape(tuple(out.shape)).astype(np.float32))
    slopes = torch.autograd.grad(out, wanted, weights, create_graph=True)
    total = sum((s * s).sum() for s in slopes)
    return [
        t.detach().numpy()
        for t in (out, *slopes, *torch.autograd.grad(total, wanted, allow_unused=True))
        if t is not None
    ]


@pytest.fixture
def in_c(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have kernels run in C after some calls; names of those that do."""
    if engine is None:
        pytest.skip("there is no C compiler, so all kernels stay in NumPy")
    names: list[str] = []
    make = often.in_c

    def noting(function: Any, run: Any) -> Any:
        made = make(function, run)
        if made is not run:
            names.append(function.name)
        return made

    monkeypatch.setattr(kernel, "in_c", noting)
    count = often.calls_before_c
    monkeypatch.setattr(kernel, "calls_before_c", lambda function: None if count(function) is None else CALLS)
    return names


# shapes that no other test has, since kernels are kept by shape
CASES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (61,), w, b), (floats(4, 61), floats(61), floats(61))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1) ** 2, (floats(2, 2, 17, 18),)),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, padding=1, groups=2), (floats(2, 4, 15, 5), floats(6, 2, 3, 3))),
    "embedding": (lambda w, k: F.embedding(k, w) ** 2, (floats(9, 43), np.array([[1, 1], [8, 3]]))),
    "cross_entropy": (F.cross_entropy, (floats(5, 37), np.array([1, 6, 0, 0, 33]))),
    "gelu": (F.gelu, (floats(91),)),
    "transposed": (lambda x: torch.softmax(x.T, -1) * x.T, (floats(5, 73),)),
    "expanded": (lambda x: F.silu(x.expand(51, 7)) * x, (floats(1, 7),)),
    "number": (lambda x: F.silu(x.sum()) * x, (floats(47),)),
}


@pytest.mark.parametrize("name", CASES)
def test_same_as_numpy(name: str, in_c: list[str]) -> None:
    expected = derivatives(*CASES[name])
    assert not in_c
    for _ in range(CALLS):
        found = derivatives(*CASES[name])
    assert len(in_c) >= 2
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6)


def test_after_a_number_of_calls_that_follows_from_the_operations(in_c: list[str]) -> None:
    x = torch.tensor(floats(53))
    for _ in range(CALLS):
        expected = F.softplus(x)
    assert in_c == []
    torch.testing.assert_close(F.softplus(x), expected)
    assert in_c == ["kernel"]


def test_bad_positions_are_refused_as_before(in_c: list[str]) -> None:
    table, places = torch.tensor(floats(5, 59), requires_grad=True), torch.tensor([0, 4])
    for _ in range(CALLS + 2):
        F.embedding(places, table).sum().backward()
    assert in_c
    with pytest.raises(IndexError, match="index out of range in self"):
        F.embedding(places + 1, table)


@pytest.mark.parametrize(
    "text",
    [
        "%y: f16[9000] = exp %x",  # NumPy rounds after each operation
        "%y: f32[0] = exp %x",
        "%y: f32[9000] = argsort %x {axis=0}",
        "%y: f32[9000] = multiply %x, %x",  # as fast in NumPy
    ],
)
def test_what_stays_in_numpy(text: str) -> None:
    kind = text.partition(": ")[2].partition(" ")[0]
    result = kind.replace("f32", "i64") if "argsort" in text else kind
    body = text.replace(kind, result, 1)
    function = parse_function(f"func @f(%x: {kind}) -> ({result}) {{\n  {body}\n  return %y\n}}")
    assert often.calls_before_c(function) is None


def test_longer_texts_are_compiled_later() -> None:
    def calls(count: int) -> int | None:
        lines = [f"  %y{k + 1}: f32[9000] = exp %y{k}" for k in range(count)]
        body = "\n".join(lines)
        return often.calls_before_c(
            parse_function(f"func @f(%y0: f32[9000]) -> (f32[9000]) {{\n{body}\n  return %y{count}\n}}")
        )

    if engine is None:
        pytest.skip("there is no C compiler, so all kernels stay in NumPy")
    few, many = calls(4), calls(200)
    assert few is not None and many is not None
    assert few * 4 < many * 200
    assert calls(600) is None


def test_without_compiler_numpy_goes_on(in_c: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise CompileError("none", code="TG610", span=None, found="nothing", help="nothing")

    monkeypatch.setattr(often, "compile_c", refuse)
    x = torch.tensor(floats(67))
    found = [F.softplus(x) for _ in range(CALLS + 2)]
    assert in_c == []
    np.testing.assert_array_equal(found[-1].numpy(), found[0].numpy())


def test_long_sums_are_exact_to_the_last_digits(in_c: list[str]) -> None:
    x = torch.full((1 << 20,), 0.1)
    for _ in range(CALLS + 1):
        found = F.relu(x).mean() + (x.sigmoid() * 0 + x).mean()
    assert abs(found.item() - 0.2) < 1e-6


def test_sums_in_double() -> None:
    function = parse_function(
        "func @f(%x: f32[2,200]) -> (f32[2], f32[200]) {\n"
        "  %a: f32[2] = reduce_sum %x {axes=(1,)}\n  %b: f32[200] = reduce_sum %x {axes=(0,)}\n  return %a, %b\n}"
    )
    assert sum_in_double(function)
    assert [o.op for o in function.body.operations] == ["cast", "reduce_sum", "cast", "reduce_sum"]


def test_work_in_short_rows_counts_more() -> None:
    def calls(shape: str, ends: str) -> int | None:
        return often.calls_before_c(
            parse_function(f"""func @f(%x: f32[{shape}]) -> (f32[{shape}]) {{
          %y: f32[{shape}] = add_slice %x, %x {{start=(0, 0), stop={ends}, step=(1, 1)}}
          %z: f32[{shape}] = exp %y
          return %z
        }}""")
        )

    if engine is None:
        pytest.skip("there is no C compiler, so all kernels stay in NumPy")
    short, long = calls("65536,8", "(65536, 8)"), calls("8,65536", "(8, 65536)")
    assert short is not None and long is not None and 2 * short < long
