"""The C backend against the interpreter: every op of the table, then programs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
import tracegrad.ops  # fills the table
from tests.codegen.c_harness import Kernel, KernelFault, compile_text
from tests.codegen.programs import arguments, make_program
from tests.transform.generate import Generator
from tracegrad.codegen import c_blocks, c_elements, c_source
from tracegrad.codegen.c_expression import CTYPES
from tracegrad.codegen.c_source import emit_c
from tracegrad.errors import ArgumentTypeError, CompileError, Span
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Function, Value
from tracegrad.ir.opdef import BY_TRANSFORM, TABLE, OpDef, interpreter
from tracegrad.ir.parser import parse_function
from tracegrad.ir.types import ArrayType, is_complex
from tracegrad.passes.manager import run_passes
from tracegrad.testing.interpret import interpret
from tracegrad.testing.rules import Case, cases
from tracegrad.transform.vjp import gradient, vjp

OPS = sorted(name for name, op in TABLE.items() if op.marker is not BY_TRANSFORM and name != "print")


def supported(case: Case) -> bool:
    types = [ArrayType(x.dtype, x.shape) for x in case.operands]
    types += case.op.infer(*types, **case.attrs)
    return all(t.dtype in CTYPES and not is_complex(t.dtype) for t in types)


def sample_cases(op: OpDef) -> Iterator[Case]:
    for dtype in ("f64", "f32"):
        yield from (c for c in cases(op, dtype) if supported(c))


def complex_cases(op: OpDef) -> Iterator[Case]:
    """Yield the samples with complex numbers, and those of floats with complex numbers in their place."""
    for dtype in ("c128", "c64", "f64", "f32"):
        for case in cases(op, dtype):
            try:
                types = [ArrayType(x.dtype, x.shape) for x in case.operands]
                types += case.op.infer(*types, **case.attrs)
            except ArgumentTypeError:
                continue
            if any(is_complex(t.dtype) for t in types) and all(t.dtype in CTYPES for t in types):
                yield case


def program_of(some: list[Case]) -> tuple[Function, list[Any]]:
    """Return one function that applies the op to the operands of all cases."""
    function = Function("kernel")
    builder = Builder(function.body)
    arrays: list[Any] = []
    with interpreter(builder):
        for case in some:
            params = [Value(ArrayType(x.dtype, x.shape), "") for x in case.operands]
            function.body.params += params
            arrays += case.operands
            results = case.op(*params, **case.attrs)
            function.body.yields += results if isinstance(results, tuple) else [results]
    return function, arrays


def assert_agree(
    function: Function,
    *arrays: Any,
    kernel: Kernel | None = None,
    scale: float = 1.0,
    vectors: tuple[int | None, ...] = (None,),
    **options: Any,
) -> Kernel:
    """Check the C text against the interpreter; return the kernel.

    vectors: for the results in turn, the axis along which vectors of arbitrary sign lie.
    """
    kernel = kernel or Kernel(function, **options)
    with np.errstate(all="ignore"):
        expected = interpret(function, *arrays)
    found = kernel(*arrays)
    again = kernel(*arrays)
    for k, (a, b, c) in enumerate(zip(found, expected, again, strict=True)):
        b = np.asarray(b)
        along = vectors[k % len(vectors)]
        if along is not None:
            a = a * np.sign(np.sum(a * b, axis=along, keepdims=True))
            c = c * np.sign(np.sum(c * b, axis=along, keepdims=True))
        tolerance = scale * (2e-5 if b.dtype in (np.float32, np.complex64) else 1e-12)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"result {k}\n{kernel.source.text}")
        np.testing.assert_array_equal(a, c, err_msg=f"result {k} differs in a second call")
    return kernel


#: per result, the axis along which vectors lie whose sign is arbitrary
VECTORS: dict[str, tuple[int | None, ...]] = {"eigh": (None, -2), "svd": (-2, None, -1)}


@pytest.mark.parametrize("small", [16, 0])
@pytest.mark.parametrize("name", [o for o in OPS if o != "undefined"])
def test_every_op(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_elements, "SMALL", small)
    some = list(sample_cases(TABLE[name]))
    if not some and any(complex_cases(TABLE[name])):
        return  # of complex numbers only
    if not some:
        with pytest.raises(Exception, match="C backend"):
            c_source.emit_c(program_of(list(cases(TABLE[name])))[0])
        return
    function, arrays = program_of(some)
    assert_agree(function, *arrays, vectors=VECTORS.get(name, (None,)), flags=("-O1",))


#: what has no C text for complex numbers
ONLY_REAL = frozenset({"eigh", "pinv", "qr", "svd"})


@pytest.mark.parametrize("small", [16, 0])
@pytest.mark.parametrize("name", OPS)
def test_complex_numbers_of_every_op(name: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_elements, "SMALL", small)
    some = list(complex_cases(TABLE[name]))
    assert name not in ONLY_REAL or some
    if name in ONLY_REAL:
        with pytest.raises(CompileError, match=rf"does not support {name} "):
            emit_c(program_of(some)[0])
    elif some:
        function, arrays = program_of(some)
        assert_agree(function, *arrays, flags=("-O1",))


#: parts of complex numbers whose products and sums are exact
PARTS = np.array([0.0, -0.0, 1.0, -2.5, 0.25, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", [o for o in OPS if TABLE[o].elementwise and o not in ("select", "blend", "cast")])
def test_complex_special_values(name: str) -> None:
    """Zeros of either sign (the sides of branch cuts), infinities and NaN in either part, as in NumPy."""
    op = TABLE[name]
    for dtype in (np.complex128, np.complex64):
        parts = [a.ravel() for a in np.meshgrid(*[PARTS] * (2 * len(op.operands)), indexing="ij")]
        operands = [np.empty(len(parts[0]), dtype) for _ in op.operands]
        for operand, re, im in zip(operands, parts[::2], parts[1::2], strict=True):
            operand.real, operand.imag = re, im
        try:
            op.infer(*[ArrayType(x.dtype, x.shape) for x in operands], **dict.fromkeys(op.attributes, 1))
        except ArgumentTypeError:
            return
        function, arrays = program_of([Case(op, {}, operands, name)])
        (found,) = Kernel(function)(*arrays)
        with np.errstate(all="ignore"):
            (expected,) = map(np.asarray, interpret(function, *arrays))
            tolerance = np.abs(expected) * (1e-6 if dtype == np.complex64 else 1e-15)
            for mine, theirs in ((found.real, expected.real), (found.imag, expected.imag)):
                mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
                zeros = (mine == 0.0) & (theirs == 0.0)
                near = (mine == theirs) | (np.isnan(mine) & np.isnan(theirs)) | (np.abs(mine - theirs) <= tolerance)
                good = np.where(zeros, np.signbit(mine) == np.signbit(theirs), near)
                wrong = [(*(str(x[k]) for x in operands), found[k], expected[k]) for k in np.flatnonzero(~good)[:5]]
                assert not wrong, f"{name}: operands, result in C, in NumPy: {wrong}"


def gradient_of(text: str, wrt: tuple[int, ...]) -> Function:
    return run_passes(gradient(parse_function(text), wrt))


def body_of(function: Function) -> str:
    """Return what stands in the braces of the kernel."""
    source = emit_c(function)
    start = source.text.index(f"\nint {source.name}(", source.text.index(f"{source.name}_entry"))
    return source.text[source.text.index("{\n", start) :].split("\n}", 1)[0]


CHAIN = """func @chain(%x: f64[n]) -> (f64[]) {
  %a: f64[n] = negative %x
  %b: f64[n] = exp %a
  %c: f64[n] = log1p %b
  %d: f64[n] = tanh %x
  %e: f64[n] = multiply %c, %d
  %s: f64[n] = sin %x
  %y: f64[n] = add %e, %s
  %loss: f64[] = reduce_sum %y {axes=(0,)}
  return %loss
}"""

LORENZ = """func @lorenz(%s: f64[3], %p: f64[3]) -> (f64[]) {
  %i0: i64[] = constant {value=0}
  %i1: i64[] = constant {value=50}
  %c0: i64[] = constant {value=0}
  %c1: i64[] = constant {value=1}
  %c2: i64[] = constant {value=2}
  %s.1: f64[3] = for %i0, %i1, %s {step=1, reverse=False} (%t: i64[], %u: f64[3]) {
    %x: f64[] = gather %u, %c0 {axes=(0,)}
    %y: f64[] = gather %u, %c1 {axes=(0,)}
    %z: f64[] = gather %u, %c2 {axes=(0,)}
    %sigma: f64[] = gather %p, %c0 {axes=(0,)}
    %rho: f64[] = gather %p, %c1 {axes=(0,)}
    %beta: f64[] = gather %p, %c2 {axes=(0,)}
    %0: f64[] = subtract %y, %x
    %1: f64[] = multiply %sigma, %0
    %2: f64[] = subtract %rho, %z
    %3: f64[] = multiply %x, %2
    %4: f64[] = subtract %3, %y
    %5: f64[] = multiply %x, %y
    %6: f64[] = multiply %beta, %z
    %7: f64[] = subtract %5, %6
    %8: f64[1] = reshape %1 {shape=(1,)}
    %9: f64[1] = reshape %4 {shape=(1,)}
    %10: f64[1] = reshape %7 {shape=(1,)}
    %k: f64[3] = concatenate %8, %9, %10 {axis=0}
    %dt: f64[3] = full {shape=(3,), dtype=f64, value=0.005}
    %11: f64[3] = multiply %dt, %k
    %u.1: f64[3] = add %u, %11
    yield %u.1
  }
  %sum: f64[] = reduce_sum %s.1 {axes=(0,)}
  return %sum
}"""

NEWTON = """func @root(%a: f64[]) -> (f64[]) {
  %one: f64[] = constant {value=1.0}
  %half: f64[] = constant {value=0.5}
  %eps: f64[] = constant {value=1e-13}
  %x: f64[], %old: f64[] = while %one, %a (%x.1: f64[], %old.1: f64[]) {
    %d: f64[] = subtract %x.1, %old.1
    %m: f64[] = absolute %d
    %go: bool[] = greater %m, %eps
    yield %go
  } (%x.2: f64[], %old.2: f64[]) {
    %q: f64[] = divide %a, %x.2
    %t: f64[] = add %x.2, %q
    %n: f64[] = multiply %half, %t
    yield %n, %x.2
  }
  return %x
}"""

SOFTMAX = """func @softmax(%x: f64[n,m], %b: f64[m]) -> (f64[]) {
  %bb: f64[n,m] = broadcast_to %b {shape=(n, m)}
  %a: f64[n,m] = add %x, %bb
  %top: f64[n] = reduce_max %a {axes=(1,)}
  %0: f64[n,1] = reshape %top {shape=(n, 1)}
  %1: f64[n,m] = broadcast_to %0 {shape=(n, m)}
  %d: f64[n,m] = subtract %a, %1
  %e: f64[n,m] = exp %d
  %s: f64[n] = reduce_sum %e {axes=(1,)}
  %l: f64[n] = log %s
  %lse: f64[n] = add %l, %top
  %loss: f64[] = reduce_sum %lse {axes=(0,)}
  return %loss
}"""


def test_elementwise_chain_is_one_loop() -> None:
    function = gradient_of(CHAIN, (0,))
    kernel = assert_agree(function, np.linspace(-3.0, 3.0, 101))
    body = body_of(function)
    assert body.count("for (") == 1
    assert body.count("exp(") == 1 and body.count("tanh(") == 1
    assert_agree(function, np.zeros(0), kernel=kernel)


def test_loop_over_a_small_state_is_scalar_code() -> None:
    function = gradient_of(LORENZ, (0, 1))
    assert_agree(function, np.array([1.0, 2.0, 20.0]), np.array([10.0, 28.0, 8 / 3]))
    body = body_of(function)
    assert body.count("for (") == 2
    assert "malloc" not in body and "tg_grow" not in body


def test_while_grows_its_stack_and_keeps_it() -> None:
    function = gradient_of(NEWTON, (0,))
    kernel = assert_agree(function, 2.0)
    assert_agree(function, 1e30, kernel=kernel)
    assert "_release(" in kernel.source.text


SERIES = """func @series(%x: f64[9]) -> (f64[9]) {
  %one: f64[9] = full {shape=(9,), dtype=f64, value=1.0}
  %k0: f64[] = constant {value=1.0}
  %sum: f64[9], %term: f64[9], %k: f64[] = while %one, %one, %k0 (%s.1: f64[9], %t.1: f64[9], %k.1: f64[]) {
    %m: f64[9] = absolute %t.1
    %top: f64[] = reduce_max %m {axes=(0,)}
    %eps: f64[] = constant {value=1e-16}
    %go: bool[] = greater %top, %eps
    yield %go
  } (%s.2: f64[9], %t.2: f64[9], %k.2: f64[]) {
    %kk: f64[9] = broadcast_to %k.2 {shape=(9,)}
    %q: f64[9] = divide %x, %kk
    %t.3: f64[9] = multiply %t.2, %q
    %s.3: f64[9] = add %s.2, %t.3
    %inc: f64[] = constant {value=1.0}
    %k.3: f64[] = add %k.2, %inc
    yield %s.3, %t.3, %k.3
  }
  return %sum
}"""


def test_what_follows_the_exit_of_a_while_stays_behind_it() -> None:
    function = run_passes(vjp(parse_function(SERIES), (0,)))
    kernel = assert_agree(function, np.linspace(-1.0, 1.0, 9), np.linspace(1.0, 2.0, 9))
    assert_agree(function, np.linspace(-3.0, 3.0, 9), np.linspace(1.0, 2.0, 9), kernel=kernel)


POWER = """func @power(%x: f64[n,n], %a: f64[n,n], %k: i64[]) -> (f64[n,n]) {
  %i0: i64[] = constant {value=0}
  %r: f64[n,n], %q: f64[n,n] = for %i0, %k, %x, %a {step=1, reverse=False} (%t: i64[], %u: f64[n,n], %w: f64[n,n]) {
    %v: f64[n,n] = dot_general %u, %a {contract=((1,), (0,)), batch=((), ())}
    %w2: f64[n,n] = transpose %w {axes=(1, 0)}
    %w3: f64[n,n] = add %w2, %u
    yield %v, %w3
  }
  %s: f64[n,n] = add %r, %q
  return %s
}"""


def test_large_carried_arrays_exchange_pointers() -> None:
    function = parse_function(POWER)
    rng = np.random.default_rng(0)
    kernel = assert_agree(function, rng.normal(size=(5, 5)), rng.normal(size=(5, 5)), 3)
    for count in (0, 1, 2):
        assert_agree(function, rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), count, kernel=kernel)
    assert "memcpy" not in body_of(function).split("for (", 1)[1]


def test_rows_share_their_loop() -> None:
    function = gradient_of(SOFTMAX, (0, 1))
    rng = np.random.default_rng(0)
    kernel = assert_agree(function, rng.normal(size=(7, 5)), rng.normal(size=5))
    assert_agree(function, rng.normal(size=(1, 1)), rng.normal(size=1), kernel=kernel)
    body = body_of(function)
    assert body.count("i < n") == 1 and body.count("exp(") == 1


INDEX = """func @pick(%x: f64[n], %k: i64[]) -> (f64[]) {
  %y: f64[] = gather %x, %k {axes=(0,)}
  return %y
}"""


def test_index_out_of_range_is_reported() -> None:
    function = parse_function(INDEX)
    function.body.operations[0].span = Span("model.py", 12)
    kernel = assert_agree(function, np.arange(3.0), -3)
    for place in (3, -4):
        with pytest.raises(KernelFault) as caught:
            kernel(np.arange(3.0), place)
        assert (caught.value.kind, caught.value.line) == ("IndexError", 12)
        assert caught.value.message == f"index {place} is out of bounds for axis 0 with size 3"


def test_index_of_a_loop_is_not_checked() -> None:
    text = """func @total(%x: f64[n]) -> (f64[]) {
  %i0: i64[] = constant {value=0}
  %n: i64[] = dim {dim=n}
  %z: f64[] = constant {value=0.0}
  %s: f64[] = for %i0, %n, %z {step=1, reverse=False} (%i: i64[], %acc: f64[]) {
    %v: f64[] = gather %x, %i {axes=(0,)}
    %acc.1: f64[] = add %acc, %v
    yield %acc.1
  }
  return %s
}"""
    function = parse_function(text)
    assert_agree(function, np.arange(5.0))
    body = body_of(function)
    assert "tg_fail" not in body and "acc += x[i]" in body


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", [("-O0",), ("-O2", "-fopenmp-simd", "-pedantic")], ids=["plain", "fast"])
def test_no_warnings(compiler: str, flags: tuple[str, ...]) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    for text, wrt in ((CHAIN, (0,)), (LORENZ, (0, 1)), (NEWTON, (0,)), (SOFTMAX, (0, 1))):
        compile_text(emit_c(gradient_of(text, wrt)).text, flags, compiler)
    every = [case for name in OPS if name not in ONLY_REAL for case in complex_cases(TABLE[name])]
    compile_text(emit_c(program_of(every)[0]).text, flags, compiler)


def test_comments_name_the_users_lines() -> None:
    function = parse_function(CHAIN)
    for operation in function.body.operations:
        operation.span = Span("model.py", 12)
    assert "/* model.py:12 */" in emit_c(function).text
    assert "model.py" not in emit_c(function, comments=False).text


def test_unsupported_is_said() -> None:
    function = parse_function("func @half(%x: f16[2]) -> (f16[2]) {\n  %y: f16[2] = sin %x\n  return %y\n}")
    with pytest.raises(CompileError, match="the C backend does not support dtype float16"):
        emit_c(function)


@pytest.mark.parametrize("small", [16, 0])
@pytest.mark.parametrize("seed", range(0, 24, 2))
def test_random_programs(seed: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_elements, "SMALL", small)
    assert_agree(make_program(seed + small // 16), *arguments(), flags=("-O1",), scale=100.0)


@pytest.mark.parametrize("seed", range(8))
def test_gradients_of_random_programs(seed: int) -> None:
    function = gradient(Generator(np.random.default_rng(seed)).make(), (0, 1))
    if seed % 2:
        run_passes(function)
    assert_agree(function, 0.3, np.array([0.1, -0.4, 0.7]), seed % 4, flags=("-O1",), scale=1000.0)


RESHAPED = """func @f(%x: f64[5,30,40], %w: f64[30,50]) -> (f64[200,50]) {
  %t: f64[5,40,30] = transpose %x {axes=(0, 2, 1)}
  %u: f64[200,30] = reshape %t {shape=(200, 30)}
  %v: f64[200,50] = dot_general %u, %w {contract=((1,), (0,)), batch=((), ())}
  return %v
}"""


def test_a_reshaped_transpose_is_stored_in_its_own_axes(rng: np.random.Generator) -> None:
    function = parse_function(RESHAPED)
    assert_agree(function, rng.normal(size=(5, 30, 40)), rng.normal(size=(30, 50)))
    body = body_of(function)
    assert "/" not in body and "%" not in body


def test_nested_branches_are_followed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def converge(p: Any, n: int) -> Any:
        x = p * 1.0
        history = {}
        for it in range(n):
            step = p - x * x
            x = x + 0.3 * step
            history[it] = np.abs(step).max()
            if history[it] < 1e-10:
                return x.sum()
        return x.sum()

    followed = []
    chosen_from = c_blocks._chosen_from
    monkeypatch.setattr(c_blocks, "_chosen_from", lambda value: followed.append(value) or chosen_from(value))
    counts = []
    for n in (8, 16):
        tg.grad(converge, backend="c").source(np.array([1.0, 2.0]), n)
        counts.append(len(followed))
        followed.clear()
    assert counts[1] < 3 * counts[0]


@pytest.mark.parametrize(("stack", "batch"), [("", "((), ())"), ("3,", "((0,), (0,))")], ids=["one", "stack"])
def test_a_product_with_few_rows_is_computed_transposed(stack: str, batch: str, rng: np.random.Generator) -> None:
    last = stack.count(",") + 1
    function = parse_function(f"""func @f(%x: f32[{stack}6,400], %y: f32[{stack}50,400]) -> (f32[{stack}6,50]) {{
      %z: f32[{stack}6,50] = dot_general %x, %y {{contract=(({last},), ({last},)), batch={batch}}}
      return %z
    }}""")
    lead = (3,) if stack else ()
    x, y = (rng.normal(size=(*lead, n, 400)).astype(np.float32) for n in (6, 50))
    body = body_of(function)
    assert "tg_matmul_f32(0, 1, 50, 6, 400, y" in body
    (found,) = Kernel(function)(x, y)
    np.testing.assert_allclose(found, x.astype(float) @ np.swapaxes(y, -1, -2), rtol=1e-4, atol=1e-4)


def test_a_stack_of_products_is_computed_transposed(rng: np.random.Generator) -> None:
    function = parse_function("""func @f(%x: f64[3,40,30], %y: f64[3,40,50]) -> (f64[3,50,30]) {
      %z: f64[3,30,50] = dot_general %x, %y {contract=((1,), (1,)), batch=((0,), (0,))}
      %t: f64[3,50,30] = transpose %z {axes=(0, 2, 1)}
      return %t
    }""")
    assert_agree(function, rng.normal(size=(3, 40, 30)), rng.normal(size=(3, 40, 50)))
    assert "tg_matmul_f64(1, 0, 50, 30, 40, y" in body_of(function)


def filtered(x: Any, w: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x) - len(w) + 1):
        out[i] = np.dot(x[i : i + len(w)], w)
    return np.sum(np.tanh(out))


@pytest.mark.parametrize("length", [3, 20])
def test_windows_that_stay_inside_are_read_and_written_without_checks(length: int, rng: np.random.Generator) -> None:
    x, w = rng.normal(size=40), rng.normal(size=length)
    text = tg.grad(filtered, argnums=(0, 1), backend="c").source(x, w)
    body = text[text.index("\nint filtered_grad(") :]
    assert "tg_fail" not in body
    assert "int64_t t" not in body.replace("for (int64_t t", "")  # no array of places
    found, expected = (tg.grad(filtered, argnums=(0, 1), backend=b)(x, w) for b in ("c", "numpy"))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def wrapping(x: Any, n: Any) -> Any:
    total = 0.0
    for i in range(4):
        total = total + np.sum(x[np.arange(3) + i - n] ** 2)
    return total


def test_windows_that_may_leave_are_checked() -> None:
    x = np.arange(6.0)
    gradient = tg.grad(wrapping, backend="c")
    np.testing.assert_array_equal(gradient(x, np.int64(2)), tg.grad(wrapping, backend="numpy")(x, np.int64(2)))
    with pytest.raises(IndexError):
        gradient(x, np.int64(-1))
    with pytest.raises(IndexError):
        gradient(x, np.int64(7))
