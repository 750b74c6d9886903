"""Arguments as NumPy users pass them: strides, byte order, read-only, empty, scalars, lists; and writes into them."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def energy(x):
    return np.sum(x**2 * np.arange(1.0, x.size + 1).reshape(x.shape))


def read_only(x: np.ndarray) -> np.ndarray:
    x = x.copy()
    x.flags.writeable = False
    return x


BASE = np.arange(24.0).reshape(4, 6) / 10
LAYOUTS: dict[str, np.ndarray] = {
    "contiguous": BASE,
    "transposed": BASE.T,
    "fortran": np.asfortranarray(BASE),
    "every second": BASE[::2, ::3],
    "reversed": BASE[::-1, ::-1],
    "broadcast": np.broadcast_to(BASE[0], (3, 6)),
    "byte-swapped": BASE.astype(">f8"),
    "read-only": read_only(BASE),
    "unaligned": np.frombuffer(b"\0" + BASE.tobytes(), dtype=np.uint8)[1:].view(np.float64),
    "empty": np.zeros((0, 3)),
    "one element": np.array([[2.0]]),
    "zero-dimensional": np.array(1.5),
    "single": BASE.astype(np.float32),
}


@each_backend
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, backend: str) -> None:
    x = LAYOUTS[layout]
    before = np.array(x)
    weights = np.arange(1.0, x.size + 1).reshape(x.shape)
    for _ in range(2):  # the second call takes the fast path
        value, ct = tg.value_and_grad(energy, backend=backend)(x)
        np.testing.assert_allclose(value, energy(x), rtol=1e-6)
        np.testing.assert_allclose(ct, 2 * before * weights, rtol=1e-6)
        assert ct.dtype == x.dtype.newbyteorder("=")
        assert not np.shares_memory(ct, x)
    np.testing.assert_array_equal(np.asarray(x), before)


@each_backend
def test_one_gradient_for_all_layouts(backend: str) -> None:
    gradient = tg.grad(lambda x: np.sum(x**3), backend=backend)
    for x in LAYOUTS.values():
        np.testing.assert_allclose(gradient(x), 3 * np.asarray(x, dtype=np.float64) ** 2, rtol=1e-6)


@each_backend
def test_python_numbers_and_lists(backend: str) -> None:
    def f(x, items, count):
        return x * items[0] ** count + items[1]

    assert float(tg.grad(f, backend=backend)(2.0, [3.0, 1.0], 2)) == 9.0
    ct = tg.grad(f, argnums=1, backend=backend)(2.0, [3.0, 1.0], 2)
    assert [float(part) for part in ct] == [12.0, 1.0]
    assert float(tg.grad(f, backend=backend)(np.float64(2.0), (3.0, 1.0), 3)) == 27.0


@each_backend
def test_sizes_may_change(backend: str) -> None:
    gradient = tg.grad(energy, backend=backend)
    for n in (3, 1, 7, 0, 12, 3):
        x = np.linspace(-1.0, 1.0, n)
        np.testing.assert_allclose(gradient(x), 2 * x * np.arange(1, n + 1))


@each_backend
def test_an_int_argument_may_change(backend: str) -> None:
    def power(x, n):
        out = 1.0
        for _ in range(n):
            out = out * x
        return out

    gradient = tg.grad(power, backend=backend)
    for n in (3, 1, 0, 5):
        assert float(gradient(2.0, n)) == pytest.approx(n * 2.0 ** (n - 1))


@each_backend
def test_writes_into_arguments_are_seen_by_the_caller(backend: str) -> None:
    def update(state, velocity):
        state += 0.5 * velocity
        velocity[0] = 0.0
        return np.sum(state**2)

    state, velocity = np.array([1.0, 2.0]), np.array([2.0, 4.0])
    view = state[::-1]
    assert float(tg.function(update, backend=backend)(state, velocity)) == 20.0
    np.testing.assert_array_equal(state, [2.0, 4.0])
    np.testing.assert_array_equal(view, [4.0, 2.0])
    np.testing.assert_array_equal(velocity, [0.0, 4.0])


@each_backend
def test_writes_into_a_dict_and_a_strided_argument(backend: str) -> None:
    def fill(tables, x):
        for i in range(x.shape[0]):
            tables["squares"][i] = x[i] ** 2
        return tables["squares"][-1]

    whole = np.zeros(8)
    tables: dict[str, Any] = {"squares": whole[::2]}
    out = tg.function(fill, backend=backend)(tables, np.arange(4.0))
    assert float(out) == 9.0
    np.testing.assert_array_equal(whole, [0, 0, 1, 0, 4, 0, 9, 0])


@each_backend
def test_write_into_a_read_only_argument_is_refused(backend: str) -> None:
    def clear(x):
        x[:] = 0.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        tg.function(clear, backend=backend)(read_only(np.ones(3)))


@each_backend
def test_the_gradient_of_a_function_that_writes(backend: str) -> None:
    def scale_in_place(x):
        x *= 3.0
        return np.sum(x**2)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(tg.grad(scale_in_place, backend=backend)(x), [18.0, 36.0])
    np.testing.assert_allclose(x, [3.0, 6.0])


@each_backend
def test_gradients_alias_nothing(backend: str) -> None:
    x = np.arange(3.0)
    ct_x, ct_y = tg.grad(lambda x, y: np.sum(x + y), argnums=(0, 1), backend=backend)(x, np.ones(3))
    ct_x[:] = 5.0
    np.testing.assert_array_equal(ct_y, np.ones(3))


@each_backend
def test_containers_in_and_out(backend: str) -> None:
    def f(tree):
        return {"sum": tree["a"] + tree["b"][0], "none": None, "pair": (tree["b"][1], [tree["a"] * 2])}

    out = tg.function(f, backend=backend)({"a": np.ones(2), "b": (np.zeros(2), 3.0)})
    np.testing.assert_array_equal(out["sum"], np.ones(2))
    assert out["none"] is None
    assert isinstance(out["pair"], tuple)
    assert float(out["pair"][0]) == 3.0
    np.testing.assert_array_equal(out["pair"][1][0], [2.0, 2.0])


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_parts_that_the_gradient_does_not_read(backend: str) -> None:
    def network(layers: Any, x: Any) -> Any:
        *hidden, last = layers
        for layer in hidden:
            x = np.tanh(x * layer["w"] + layer["b"])
        return x * last["w"] + last["b"]

    layers = [{"w": 1.5, "b": 0.3}, {"w": 0.5, "b": 0.7}, {"w": 3.0, "b": 5.0}]
    expected = (network(layers, 0.2 + 1e-6) - network(layers, 0.2 - 1e-6)) / 2e-6
    assert tg.grad(network, argnums=1, backend=backend)(layers, 0.2) == pytest.approx(expected, rel=1e-8)


@dataclasses.dataclass
class Settings:
    w: Any
    name: str = "square"
    start: Any = None


@dataclasses.dataclass
class WithOrder:
    w: Any
    order: int = 2
    shifted: bool = False


class Scaled(NamedTuple):
    w: Any
    by: float = 2.0
    times: int = 3


@each_backend
@pytest.mark.parametrize("inside", [False, True])
def test_what_is_no_number_has_no_gradient(inside: bool, backend: str) -> None:
    def loss(p: Any) -> Any:
        return np.sum(p.w ** (2 if p.name == "square" else 3))

    def derivative(transform: Any) -> Any:
        made = transform(loss, backend=backend)
        if not inside:
            return made(Settings(np.array([1.0, 2.0])))
        return tg.function(lambda w: made(Settings(w)), backend=backend)(np.array([1.0, 2.0]))

    for transform in (tg.grad, tg.jacobian, tg.hessian_diagonal):
        found = derivative(transform)
        assert (type(found), found.name, found.start) == (Settings, None, None)
        np.testing.assert_array_equal(found.w, [2.0, 2.0] if transform is tg.hessian_diagonal else [2.0, 4.0])
    found = derivative(tg.hessian)
    assert (found.name, found.w.name) == (None, None)
    np.testing.assert_array_equal(found.w.w, 2 * np.eye(2))


@each_backend
@pytest.mark.parametrize("inside", [False, True])
def test_fields_declared_int_are_settings(inside: bool, backend: str) -> None:
    def power(p: Any) -> Any:
        return np.sum(p.w**p.order) + (1.0 if p.shifted else 0.0)

    def scaled(p: Any) -> Any:
        return np.sum(p.w) * p.by**p.times

    def derivative(transform: Any, loss: Any, p: Any) -> Any:
        made = transform(loss, backend=backend)
        if not inside:
            return made(p)
        rest = p._asdict() if isinstance(p, tuple) else dataclasses.asdict(p)
        return tg.function(lambda w: made(type(p)(**{**rest, "w": w})), backend=backend)(p.w)

    for transform in (tg.grad, tg.jacobian):
        found = derivative(transform, power, WithOrder(np.array([1.0, 2.0]), 3))
        assert (type(found), found.order, found.shifted) == (WithOrder, None, None)
        np.testing.assert_allclose(found.w, [3.0, 12.0])
        made = derivative(transform, scaled, Scaled(np.array([1.0, 2.0])))
        assert (made.by, made.times) == (36.0, None)
        np.testing.assert_allclose(made.w, [8.0, 8.0])


@each_backend
def test_a_copy_of_a_setting_is_no_tangent(backend: str) -> None:
    p = WithOrder(np.array([1.0, 2.0]), 3)
    for order in (3, 0, None):
        moved = dataclasses.replace(p, w=np.ones(2), order=order)
        assert tg.jvp(lambda p: np.sum(p.w**p.order), (p,), (moved,), backend=backend)[1] == 15.0


@pytest.mark.parametrize("backend", ["numpy", "c"])
def test_an_int_as_a_result(backend: str) -> None:
    def total(p: Any, data: Any) -> Any:
        return sum(np.sum(p * d) for d in data)

    p, none = np.array([1.0, 2.0]), np.zeros((0, 2))
    np.testing.assert_array_equal(tg.grad(total, backend=backend)(p, []), [0.0, 0.0])
    np.testing.assert_array_equal(tg.grad(total, backend=backend)(p, [2.0, 3.0]), [5.0, 5.0])
    np.testing.assert_array_equal(tg.grad(total, argnums=1, backend=backend)(p, none), none)
    value, gradient = tg.value_and_grad(total, backend=backend)(p, [])
    assert (value, type(value), gradient.tolist()) == (0, int, [0.0, 0.0])
    np.testing.assert_array_equal(tg.hessian(total, backend=backend)(p, []), np.zeros((2, 2)))
    np.testing.assert_array_equal(tg.hvp(lambda p: 0, (p,), (p,), backend=backend)[0], [0.0, 0.0])
    gradient, aux = tg.grad(lambda p: (0, p * 2), has_aux=True, backend=backend)(p)
    assert (gradient.tolist(), aux.tolist()) == ([0.0, 0.0], [2.0, 4.0])
    with pytest.raises(TypeError, match="TG202"):
        tg.grad(np.argmax, backend=backend)(p)


@pytest.mark.parametrize("transform", [tg.grad, tg.jacobian, tg.hessian])
def test_an_int_in_an_argument_is_named(transform: Any) -> None:
    at = transform(lambda p: np.sum(p["w"] ** p["order"]))
    of = transform(lambda p: np.sum(p.w) * p.by)
    for path, call in (
        ("p['order']", lambda: at({"w": np.ones(2), "order": 2})),
        ("p['order']", lambda: tg.function(lambda w: at({"w": w, "order": 2}))(np.ones(2))),
        ("p.by", lambda: of(Scaled(np.ones(2), 2))),  # declared float
        ("p.by", lambda: tg.function(lambda w: of(Scaled(w, 2)))(np.ones(2))),
    ):
        with pytest.raises(tg.errors.ArgumentTypeError) as caught:
            call()
        assert f"with respect to {path} is not defined" in str(caught.value)
        assert f"pass {path} as an argument of its own" in caught.value.help


@each_backend
def test_other_byte_orders(backend: str) -> None:
    gradient = tg.grad(lambda x: np.sum(x**2), backend=backend)(np.array([1.0, 2.0], ">f4"))
    assert gradient.dtype == np.float32 and gradient.dtype.isnative
    np.testing.assert_array_equal(gradient, [2.0, 4.0])
