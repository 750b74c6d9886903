"""Random programs of views, in-place writes, cuts, hooks and backward passes: after each line every tensor is as in torch.

Compared are values, shapes, strides, gradients, versions, names of nodes and all flags, and the classes of errors. Not
compared: gradients that `create_graph` made, but for their values; whether a write into a saved value is refused, for
the two save different values in places.
"""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

# ruff: noqa: E501
torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

VALUES = (
    "{a} * {b}", "{a} * 2", "{a} + {b}", "{a}.sin()", "{a}.tanh()", "{a}.sum()", "{a}.clone()", "{a} * {a}", "{a}.mean(0)",
    "{a} - 1", "T.cat([{a}, {b}])", "T.where({a} > 1, {a}, {b})", "{a} / 3", "{a}[[0, 1]]",
)  # fmt: skip
VIEWS = (
    "{a}[0]", "{a}[1:]", "{a}.view(-1)", "{a}.t()", "{a}.detach()", "{a}.data", "{a}.diagonal()", "{a}.expand(2, *{a}.shape)",
    "{a}.unsqueeze(0)", "{a}.split(1)[0]", "{a}.unbind(0)[0]", "{a}.narrow(0, 0, 1)", "{a}[..., ::2]", "{a}[:, 1]",
    "{a}.chunk(2)[0]", "{a}.view_as({a})", "{a}.squeeze()", "{a}.T", "{a}.flatten()", "{a}.permute(1, 0)", "{a}.view(3, 2)",
    "{a}.swapaxes(0, 1)", "{a}.contiguous()", "{a}.reshape(-1)",
)  # fmt: skip
WRITES = (
    "{a}.mul_(2)", "{a}.add_({b})", "{a}.zero_()", "{a}.copy_({b})", "{a}[0] = 1.5", "{a}[1:] = {b}", "{a}.sin_()", "{a}.fill_(0.5)",
    "{a} += 1", "{a} *= {b}", "{a}[0] = {b}", "{a}[0] += 1", "{a}.clamp_(0, 1)", "{a}.tanh_()", "{a}.sub_({b})",
    "{a}.masked_fill_({a} > 1, 0.3)",
)  # fmt: skip
STATES = (
    "{a}.detach_()", "{a}.requires_grad_()", "{a}.requires_grad_(False)", "{a}.retain_grad()", "{a}.register_hook(lambda g: g * 2)",
    "{a}.register_hook(lambda g: log.append(g.detach().numpy().copy()))", "{a}.grad = None", "{a}.grad.zero_()",
    "{a}.data.mul_(2)", "{a}.data[0] = 3.0", "{a}.detach().add_(1)", "{a}.requires_grad = True", "{a}.grad = T.ones_like({a})",
    "{a}.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.detach().numpy().copy()))",
    "{a} = {a}.detach().requires_grad_()", "{a}.grad_fn.register_hook(lambda i, o: log.append(len(i)))", "{a}.grad.mul_(2)",
)  # fmt: skip
WALKS = (
    "({a} * {a}).sum().backward({keep})", "{a}.sum().backward({keep})", "{a}.backward(T.ones_like({a}), {keep})",
    "({a} * {b}).sum().backward({keep})", "{a}.sum().backward(inputs=[{b}], {keep})",
    "log.extend(g.detach().numpy().copy() for g in T.autograd.grad(({a} * {b}).sum(), [{a}, {b}], {keep}))",
    "log.extend(None if g is None else g.detach().numpy().copy() for g in "
    "T.autograd.grad({a}.sum(), [{b}], allow_unused=True, {keep}))",
)  # fmt: skip
#: another shape in place: of programs of their own, after views and before writes
SHAPES = (
    "{a}.t_()", "{a}.transpose_(0, 1)", "{a}.unsqueeze_(0)", "{a}.unsqueeze_(-1)", "{a}.squeeze_()", "{a}.squeeze_(0)",
    "{a}.swapaxes_(0, -1)", "{a}.transpose_(-1, -2)",
)  # fmt: skip
#: of programs with complex numbers, beside the others
COMPLEX_VALUES = (
    "{a} * 2j", "{a}.conj() * {b}", "{a}.real * {b}", "{a}.abs()", "{a}.resolve_conj()", "{a}.conj_physical()", "{a} - 1j", "{a}.exp()",
    "T.complex({a}.real, {b}.real)", "{a}.mH @ {b}", "{a} ** 2",
)  # fmt: skip
COMPLEX_VIEWS = (
    "{a}.conj()", "{a}.conj()", "{a}.real", "{a}.imag", "{a}.mH", "{a}.H", "{a}.adjoint()", "T.view_as_real({a})", "T.view_as_complex({a})",
    "{a}.T.conj()", "{a}.conj().imag", "T.real({a})", "{a}.unfold(-1, 1, 1)",
)  # fmt: skip
COMPLEX_WRITES = (
    "{a}.mul_(2j)", "{a}[0] = 1.5j", "{a}.conj().mul_(1 + 1j)", "{a}.imag.add_(1)", "{a}.real.mul_(2)", "{a}.imag = {b}.real", "{a}.conj()[0] = {b}",
    "{a}.conj_physical_()", "{a}.mH.add_({b})", "{a}.copy_({b}.conj())", "T.view_as_real({a})[..., 1].neg_()", "{a}.imag.zero_()",
)  # fmt: skip
COMPLEX_STATES = ("{a}.register_hook(lambda g: g.conj())", "{a}.detach().conj().mul_(1j)", "{a}.grad.conj().mul_(1j)")
COMPLEX_WALKS = (
    "({a} * {a}.conj()).real.sum().backward({keep})", "({a} * {b}).abs().sum().backward({keep})", "{a}.backward(T.ones_like({a}).conj(), {keep})",
    "(({a}.imag - {b}.real) ** 2).sum().backward({keep})", "{a}.abs().sum().backward(inputs=[{b}], {keep})",
)  # fmt: skip
KEEP = ("", "retain_graph=True", "retain_graph=True", "create_graph=True")
NEW_NAME = (VALUES, VIEWS)


def draw_program(rng: random.Random, shapes: int = 0) -> list[str]:
    lines: list[str] = []
    names: list[str] = []
    for _ in range(rng.choice([1, 2, 2, 3])):
        shape = rng.choice([(2, 3), (3,), (2, 2), (3, 3), (2, 3)])
        names.append(f"t{len(names)}")
        values = (np.arange(np.prod(shape)).reshape(shape) * 0.37 + len(names) * 0.11 + 0.2).round(2).tolist()
        lines.append(f"{names[-1]} = T.tensor({values}, dtype=T.float64, requires_grad={rng.random() < 0.6})")
    for _ in range(rng.randint(4, 14)):
        kind = rng.choices((VALUES, VIEWS, WRITES, STATES, WALKS, SHAPES), (22, 28, 22, 14, 14, shapes))[0]
        line = rng.choice(kind).format(a=rng.choice(names), b=rng.choice(names), keep=rng.choice(KEEP))
        if kind in NEW_NAME:
            names.append(f"t{len(names)}")
            line = f"{names[-1]} = {line}"
        quiet = kind in (VALUES, WRITES, STATES, SHAPES) and rng.random() < 0.12
        lines.append(f"with T.no_grad(): {line}" if quiet else line)
    return lines


def draw_complex_program(rng: random.Random) -> list[str]:
    lines: list[str] = []
    names: list[str] = []
    kinds = [
        (VALUES, COMPLEX_VALUES), (VIEWS, COMPLEX_VIEWS), (WRITES, COMPLEX_WRITES), ((), COMPLEX_STATES), ((), COMPLEX_WALKS),
    ]  # fmt: skip
    for _ in range(rng.choice([1, 2, 2])):
        shape = rng.choice([(2, 3), (3,), (2, 2)])
        names.append(f"t{len(names)}")
        values = (np.arange(np.prod(shape)).reshape(shape) * 0.37 + len(names) * 0.11 + 0.2).round(2)
        given = (values + 1j * (0.9 - 0.31 * values).round(2)).tolist()
        lines.append(f"{names[-1]} = T.tensor({given}, dtype=T.complex128, requires_grad={rng.random() < 0.6})")
    for _ in range(rng.randint(4, 12)):
        number = rng.choices(range(5), (20, 28, 24, 8, 16))[0]
        plain, own = kinds[number]
        line = rng.choice(plain if plain and rng.random() < 0.5 else own)
        line = line.format(a=rng.choice(names), b=rng.choice(names), keep=rng.choice(KEEP))
        if number < 2:
            names.append(f"t{len(names)}")
            line = f"{names[-1]} = {line}"
        lines.append(f"with T.no_grad(): {line}" if number != 4 and rng.random() < 0.1 else line)
    return lines


def values_of(x: Any) -> Any:
    return x.detach().resolve_conj().resolve_neg().numpy().copy()


def state_of(T: Any, x: Any) -> dict[str, Any]:
    """Return all that a tensor shows."""
    try:
        node = x.grad_fn
    except RuntimeError:
        return {"cut off": True, "requires_grad": x.requires_grad}
    strides = tuple(s if n != 1 else 0 for s, n in zip(x.stride(), x.shape, strict=True))
    return {
        "shape": tuple(x.shape), "strides": strides, "values": values_of(x), "version": x._version,
        "requires_grad": x.requires_grad, "is_leaf": x.is_leaf, "node": None if node is None else node.name(),
        "is_view": x._is_view(), "grad": None if x.grad is None else values_of(x.grad),
        "grad requires grad": x.grad is not None and x.grad.requires_grad,
    }  # fmt: skip


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)
    return type(a) is type(b) and bool(a == b)


def step(line: str, names: dict[str, Any]) -> str | None:
    try:
        exec(line, names)
    except Exception as error:
        overwritten = "modified by an inplace operation" in str(error)
        return "overwritten" if overwritten else type(error).__name__
    return None


def reads_what_it_writes(line: str, names: dict[str, Any]) -> bool:
    """Return whether a write reads the memory that it writes under another name: torch's result is not defined."""
    found = [names[n] for n in dict.fromkeys(re.findall(r"t\d+", line)) if n in names]
    memory = [x.untyped_storage().data_ptr() for x in found]
    return any(w.split("{a}")[1].split("{b}")[0] in line for w in WRITES if "{b}" in w) and len(set(memory)) < len(
        memory
    )


def check_program(lines: list[str]) -> int:
    """Run a program in both; return the number of lines that were compared."""
    both: list[dict[str, Any]] = [{"T": T, "log": []} for T in (torch, tg)]
    for number, line in enumerate(lines):
        shown = "\n".join(lines[: number + 1])
        if reads_what_it_writes(line, both[0]):
            return number
        expected, found = (step(line, names) for names in both)
        if "overwritten" in (expected, found) or any(
            x.numel() == 0 for x in both[0].values() if isinstance(x, torch.Tensor)
        ):
            return number
        assert expected == found, shown
        logs = [names["log"] for names in both]
        assert len(logs[0]) == len(logs[1]) and all(map(same, *logs)), f"{shown}\n{logs}"
        for name in sorted(n for n in both[0] if n.startswith("t") and n in both[1]):
            expected_state, found_state = (state_of(names["T"], names[name]) for names in both)
            for what, value in expected_state.items():
                assert same(value, found_state.get(what)), (
                    f"{shown}\n{name}.{what}: {value}, not {found_state.get(what)}"
                )
    return len(lines)


@pytest.mark.parametrize("group", range(12))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_programs(group: int) -> None:
    compared = sum(check_program(draw_program(random.Random(f"{group} {k}"))) for k in range(60))
    assert compared > 300


@pytest.mark.parametrize("group", range(4))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_programs_that_give_shapes_in_place(group: int) -> None:
    compared = sum(check_program(draw_program(random.Random(f"shapes {group} {k}"), 22)) for k in range(60))
    assert compared > 300


#: where torch has no answer, or one of its own: writes into places that overlap, names of nodes, gradients that nobody computed
LEFT_OUT = re.compile("single memory location|storage of size|second time|ZeroTensor|isFloatingType")


def check_complex_program(lines: list[str]) -> int:
    """Run a program in both; return the number of lines that were compared."""
    both: list[dict[str, Any]] = [{"T": T} for T in (torch, tg)]
    for number, line in enumerate(lines):
        shown = "\n".join(lines[: number + 1])
        if reads_what_it_writes(line, both[0]):
            return number
        errors: list[Exception | None] = [None, None]
        for k, names in enumerate(both):
            try:
                exec(line, names)
            except Exception as error:
                errors[k] = error
        if any(re.search("modified by an inplace|" + LEFT_OUT.pattern, str(error)) for error in errors):
            return number
        expected, found = (type(error).__name__ if error else None for error in errors)
        assert (expected is None) == (found is None), f"{shown}\n{errors}"
        for name in sorted(n for n in both[0] if n.startswith("t") and n in both[1]):
            wanted = both[0][name]
            if (
                not wanted.numel()
                or not torch.isfinite(wanted.detach().abs()).all()
                or wanted.detach().abs().max() > 1e6
            ):
                return number
            try:
                expected_state, found_state = (state_of(names["T"], names[name]) for names in both)
            except RuntimeError as error:
                assert LEFT_OUT.search(str(error)), shown
                return number
            if "cut off" in expected_state:
                return number
            for what in ("shape", "strides", "values", "requires_grad", "is_leaf", "grad"):
                assert same(expected_state[what], found_state.get(what)), (
                    f"{shown}\n{name}.{what}: {expected_state[what]}, not {found_state.get(what)}"
                )
            assert both[1][name].is_neg() == wanted.is_neg() and both[1][name].is_conj() == wanted.is_conj(), shown
    return len(lines)


@pytest.mark.parametrize("group", range(8))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_programs_of_complex_numbers(group: int) -> None:
    compared = sum(
        check_complex_program(draw_complex_program(random.Random(f"complex {group} {k}"))) for k in range(60)
    )
    assert compared > 250
