"""Executables: what they accept, what they refuse, what they give. Each test runs with launcher.c and with ctypes."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from tests.driver.kernels import COPIES, FAILING, TWICE, WORKSPACE
from tracegrad.config import Options
from tracegrad.driver.cache import open_cache
from tracegrad.driver.launch import ExecutableSpec, Source, build_dispatcher, build_forward, source_of
from tracegrad.ir.types import DTYPES, ArrayType, array_type
from tracegrad.runtime.call import call_flat
from tracegrad.runtime.signature import Identity, Leaf, Tree, flatten, result_tree, signature_of, unflatten

Build = Callable[..., Any]
FIRST = Tree("leaf", 0, ())
VECTOR = Leaf(array_type("f64[n]"))


def twice_spec(**changes: Any) -> ExecutableSpec:
    settings = dict(names=("x",), arguments=(FIRST,), inputs=(VECTOR,), results=(VECTOR.type,), result=FIRST)
    return ExecutableSpec(**{**settings, **changes})


def copies(build: Build, *values: Any, spec_changes: dict[str, Any] | None = None) -> tuple[Any, tuple[Any, ...]]:
    """An Executable that returns a tuple of copies of its array leaves, all of which have the same size in bytes."""
    names = tuple(map(sys.intern, "abcdefgh"[: len(values)]))
    signature, leaves = signature_of(names, values)
    count = len(leaves)
    bytes_each = leaves[0].nbytes if isinstance(leaves[0], np.ndarray | np.generic) else 8
    result = Tree("tuple", None, tuple(Tree("leaf", i, ()) for i in range(count)))
    results = tuple(leaf.type for leaf in signature.leaves)
    spec = ExecutableSpec(names, signature.arguments, signature.leaves, results, result, **(spec_changes or {}))
    text = COPIES.replace("COUNT", str(count)).replace("BYTES", str(bytes_each))
    return build(spec, text, "copies"), values


def test_computes_for_every_size(build: Build) -> None:
    twice = build(twice_spec(), TWICE, "twice")
    for n in (0, 1, 2, 10, 100_000):
        x = np.arange(n, dtype=float)
        y = twice(x)
        assert type(y) is np.ndarray and y.dtype == np.float64 and y.flags.owndata
        np.testing.assert_array_equal(y, 2 * x)
    np.testing.assert_array_equal(twice(x=np.ones(3)), [2.0, 2.0, 2.0])


def test_results_are_fresh(build: Build) -> None:
    twice = build(twice_spec(), TWICE, "twice")
    x = np.ones(4)
    first, second = twice(x), twice(x)
    assert not np.shares_memory(first, second) and not np.shares_memory(first, x)
    first[:] = 0
    np.testing.assert_array_equal(x, np.ones(4))


@pytest.mark.parametrize(
    "value",
    [
        np.ones(6)[::2],
        np.ones(3, np.float32),
        np.ones(3, ">f8"),
        np.ones((3, 1)),
        np.ones(()),
        np.ones(25, np.uint8)[1:].view(np.float64),
        np.ones(3).view(np.recarray),
        np.ones(3, object),
        [1.0, 2.0],
        1.0,
        None,
        "x",
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}-{getattr(v, 'shape', '')}",
)
def test_refuses_what_does_not_fit_exactly(build: Build, value: Any) -> None:
    assert build(twice_spec(), TWICE, "twice")(value) is NotImplemented


def test_refuses_wrong_numbers_and_names_of_arguments(build: Build) -> None:
    twice = build(twice_spec(), TWICE, "twice")
    assert twice() is NotImplemented
    assert twice(np.ones(2), np.ones(2)) is NotImplemented
    assert twice(y=np.ones(2)) is NotImplemented
    assert twice(np.ones(2), x=np.ones(2)) is NotImplemented


def test_defaults_fill_in_what_a_call_leaves_out(build: Build) -> None:
    def f(a, b, c=None):
        raise AssertionError("only its defaults are read")

    f.__defaults__ = (np.arange(3.0),)
    x, y, z = np.ones(3), np.full(3, 2.0), np.full(3, 3.0)
    call, _ = copies(build, x, y, z, spec_changes={"owner": f})
    np.testing.assert_array_equal(call(x, y), [x, y, [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(call(b=y, a=x), [x, y, [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(call(x, c=z, b=y), [x, y, z])
    f.__defaults__ = (y, z)
    np.testing.assert_array_equal(call(x), [x, y, z])
    np.testing.assert_array_equal(call(x, c=x), [x, y, x])
    for arguments, keywords in [((), {}), ((x, y, z, x), {}), ((x,), {"d": x}), ((x,), {"a": x})]:
        assert call(*arguments, **keywords) is NotImplemented
    f.__defaults__ = None
    assert call(x, y) is NotImplemented
    np.testing.assert_array_equal(call(x, y, z), [x, y, z])


def test_sizes_bind_and_must_agree(build: Build) -> None:
    pair = twice_spec(
        names=("x", "y"),
        arguments=(FIRST, Tree("leaf", 1, ())),
        inputs=(VECTOR, Leaf(array_type("f64[2*n+1]"))),
        minimums={"n": 2},
    )
    text = TWICE.replace("pointers[1]", "pointers[2]")
    call = build(pair, text, "twice")
    np.testing.assert_array_equal(call(np.ones(3), np.ones(7)), [2, 2, 2])
    assert call(np.ones(3), np.ones(6)) is NotImplemented
    assert call(np.ones(1), np.ones(3)) is NotImplemented, "below the minimum"
    square = twice_spec(inputs=(Leaf(array_type("f64[n,n]")),), results=(array_type("f64[n]"),))
    call = build(square, TWICE, "twice")
    assert call(np.ones((3, 3))).shape == (3,)
    assert call(np.ones((3, 2))) is NotImplemented


def test_result_sizes_are_expressions(build: Build) -> None:
    results = tuple(
        array_type(text) for text in ("f64[n]", "f64[n-1,2]", "f64[(n*m+3)//2]", "f64[n*n-m]", "f64[(n-9)//4+9]")
    )
    spec = ExecutableSpec(
        ("x", "y"),
        (FIRST, Tree("leaf", 1, ())),
        (Leaf(array_type("f64[n]")), Leaf(array_type("f64[m]"))),
        results,
        Tree("list", None, tuple(Tree("leaf", i, ()) for i in range(5))),
    )
    call = build(spec, TWICE.replace("sizes[0]", "0"), "twice")
    for n, m in ((3, 4), (6, 1), (5, 0)):
        assert [r.shape for r in call(np.ones(n), np.ones(m))] == [
            (n,), (n - 1, 2), ((n * m + 3) // 2,), (n * n - m,), ((n - 9) // 4 + 9,)
        ]  # fmt: skip
    assert call(np.ones(0), np.ones(1)) is NotImplemented, "n - 1 is negative"


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass(frozen=True)
class State:
    position: Any
    name: str


def test_walks_trees(build: Build) -> None:
    def make(v: float, name: str = "s", order: tuple[str, ...] = ("w", "b")) -> tuple[Any, ...]:
        x = np.full(2, v)
        return {k: x + i for i, k in enumerate(order)}, [x, (x, None)], Point(x, 3), State(x, name)

    call, values = copies(build, *make(1.0))
    assert [list(r) for r in call(*make(5.0))] == [[5, 5], [6, 6], [5, 5], [5, 5], [5, 5], [5, 5]]
    params, nested, point, state = make(5.0)
    x = np.ones(2)
    refused = [
        make(1.0, name="t"),
        make(1.0, order=("b", "w")),
        make(1.0, order=("w", "c")),
        ({**params, "c": x}, nested, point, state),
        ({"w": x}, nested, point, state),
        (params, [x, (x, 1)], point, state),
        (params, (x, (x, None)), point, state),
        (params, [x], point, state),
        (params, [x, (x,)], point, state),
        (params, nested, (x, 3), state),
        (params, nested, Point(x, 3.0), state),
        (params, nested, Point(x, True), state),
        (params, nested, point, point),
        (None, nested, point, state),
    ]
    for arguments in refused:
        assert call(*arguments) is NotImplemented, arguments
    assert call(*values) is not NotImplemented


def test_statics_are_compared_by_type_and_value(build: Build) -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

    odd = Unhashable()
    x = np.ones(1)
    call, values = copies(build, x, 1, "mode", None, np.tanh, odd)
    assert call(*values) is not NotImplemented
    assert call(x, 1, "".join(["mo", "de"]), None, np.tanh, odd) is not NotImplemented
    for changed in [(1, True), (1, 1.0), (1, 2), (2, "other"), (3, 0), (4, np.sin), (5, Unhashable())]:
        arguments = list(values)
        arguments[changed[0]] = changed[1]
        assert call(*arguments) is NotImplemented, changed


def test_a_comparison_that_raises_is_a_mismatch(build: Build) -> None:
    class Odd:
        def __init__(self, bad: bool = False) -> None:
            self.bad = bad

        def __eq__(self, other: object) -> bool:
            raise RuntimeError("no")

        def __hash__(self) -> int:
            return 1

    x = np.ones(1)
    call, _ = copies(build, x, Odd())
    assert call(x, Odd()) is NotImplemented


@pytest.mark.parametrize("name", list(DTYPES))
def test_dtypes_as_arrays_and_scalars(build: Build, name: str) -> None:
    dtype = DTYPES[name]
    value = np.array([3, 1], dtype=dtype)
    call, _ = copies(build, value)
    (result,) = call(value)
    assert result.dtype == dtype and list(result) == list(value)
    kinds = [value[0], np.array(value[0])]
    for given, other in (kinds, kinds[::-1]):
        call, _ = copies(build, given)
        (result,) = call(given)
        assert type(result) is type(value[0]) and result == value[0]
        assert call(other) is NotImplemented


def test_array_results_of_rank_0(build: Build) -> None:
    call, values = copies(build, np.float64(2.0), spec_changes={"array_results": frozenset({0})})
    (result,) = call(*values)
    assert type(result) is np.ndarray and result.shape == () and result == 2.0


def test_python_results(build: Build) -> None:
    call, values = copies(build, np.float64(2.5), spec_changes={"python_results": frozenset({0})})
    assert type(call(*values)[0]) is float
    value = np.complex64(1 + 2j)
    call, values = copies(build, value, spec_changes={"python_results": frozenset({0})})
    assert call(*values) == (1 + 2j,) and type(call(*values)[0]) is complex


def test_an_input_reached_twice_must_be_one_object(build: Build) -> None:
    names = {"w": np.ones(2)}
    source = Source(FIRST, base=names, steps=(("item", "w"),))
    call = build(twice_spec(sources=(source,)), TWICE, "twice")
    assert list(call(names["w"])) == [2, 2]
    assert call(names["w"].copy()) is NotImplemented


def test_python_scalars_are_weak(build: Build) -> None:
    call, _ = copies(build, 2.5)
    assert call(3.5) == (3.5,)
    for other in (np.float64(3.5), np.array(3.5), 3, True, 1j):
        assert call(other) is NotImplemented
    call, _ = copies(build, np.float64(2.5))
    assert call(np.float64(3.5)) == (3.5,)
    assert call(3.5) is NotImplemented
    spec = twice_spec(inputs=(Leaf(ArrayType(DTYPES["c128"]), "complex"),), results=(ArrayType(DTYPES["c128"]),))
    call = build(spec, COPIES.replace("COUNT", "1").replace("BYTES", "16"), "copies")
    assert call(1 + 2j) == 1 + 2j and call(1.0) is NotImplemented


def test_c_types_of_equal_layout_are_one_dtype(build: Build) -> None:
    call, _ = copies(build, np.ones(2, np.int64))
    (result,) = call(np.array([4, 5], np.longlong))
    assert list(result) == [4, 5] and result.dtype == np.int64


def test_result_trees(build: Build) -> None:
    value = {"s": State(np.ones(2), "n"), "p": Point(np.ones(2), None), "l": [np.ones(2), 4]}
    tree, leaves, arrays = flatten(value)
    signature, _ = signature_of(("v",), (value,))
    spec = ExecutableSpec(("v",), signature.arguments, tuple(leaves), tuple(leaf.type for leaf in leaves), tree)
    result = build(spec, COPIES.replace("COUNT", "3").replace("BYTES", "16"), "copies")(value)
    assert list(result) == ["s", "p", "l"]
    assert type(result["s"]) is State and result["s"].name == "n" and type(result["p"]) is Point
    assert result["p"].y is None and result["l"][1] == 4
    np.testing.assert_array_equal(result["s"].position, arrays[0])
    assert repr(unflatten(tree, arrays)) == repr(value)
    assert result_tree(tree).children[0].kind == "call"


def test_a_result_may_stand_twice(build: Build) -> None:
    spec = twice_spec(result=Tree("tuple", None, (FIRST, FIRST)))
    first, second = build(spec, TWICE, "twice")(np.ones(2))
    assert first is second


def test_kernel_errors_become_python_errors(build: Build) -> None:
    failing = build(twice_spec(), FAILING, "failing")
    for kind, error in [(1, IndexError), (2, ZeroDivisionError), (4, np.linalg.LinAlgError), (7, TypeError)]:
        with pytest.raises(error, match=r"index -9 is out of bounds for size 4\n  --> model.py:7:3"):
            failing(np.array([float(kind)]))


@pytest.mark.parametrize("many", [1, 60], ids=["on the stack", "on the heap"])
def test_no_reference_leaks(build: Build, many: int) -> None:
    parts = [np.ones(2) for _ in range(many)]
    hidden, table, key, flag = np.ones(2), {"k": parts[0]}, "mode", ("a", 1)
    names, wrong = {"hidden": hidden}, np.ones(3)  # np.ones itself keeps references to the dtype
    signature, _ = signature_of(("parts", "table", "flag"), (parts, table, flag))
    count = many + 2
    inputs = (*signature.leaves, Leaf(array_type("f64[2]")))
    result = Tree("dict", ("r", key), (FIRST, Tree("tuple", None, tuple(Tree("leaf", i, ()) for i in range(count)))))
    source = Source(Tree("leaf", count - 1, ()), base=names, steps=(("item", "hidden"),))
    spec = ExecutableSpec(
        signature.names, signature.arguments, inputs, tuple(leaf.type for leaf in inputs), result, (source,)
    )
    call = build(spec, COPIES.replace("COUNT", str(count)).replace("BYTES", "16"), "copies")
    watched = [*parts, hidden, table, parts, key, flag, np.dtype(np.float64), None, NotImplemented, source]

    def counts() -> list[int]:
        return [sys.getrefcount(value) for value in watched]

    def run() -> None:
        for _ in range(100):
            assert list(call(parts, table, flag)) == ["r", "mode"]
            assert call(parts, {"k": wrong}, flag) is NotImplemented
            assert call(parts, table, ("a", 2)) is NotImplemented
            assert call([*parts, 1], table, flag) is NotImplemented

    run()
    gc.collect()
    before = counts()
    run()
    gc.collect()
    changes = [after - old for after, old in zip(counts(), before, strict=True)]
    assert max(map(abs, changes)) < 10, f"100 calls of each kind: {changes}"
    reference = weakref.ref(call(parts, table, flag)["r"])
    assert reference() is None


def test_an_executable_in_a_cycle_is_collected(build: Build, options: Options) -> None:
    class Owner:
        pass

    owner = Owner()
    source = Source(Tree("identity", Identity(owner), ()), base=owner)
    owner.call = build(twice_spec(sources=(source,)), TWICE, "twice")  # type: ignore[attr-defined]
    assert owner.call(np.ones(1)) == 2.0  # type: ignore[attr-defined]
    reference = weakref.ref(owner)
    del owner, source
    gc.collect()
    assert reference() is None


# ---- captured values ------------------------------------------------------------------------------------------------


def test_sources_are_read_at_every_call(build: Build) -> None:
    class Model:
        def __init__(self) -> None:
            self.scale = np.ones(1)

    model, names = Model(), {"w": np.ones(1), "flag": True}
    variable = np.ones(1)

    def read() -> Any:
        return variable

    leaves = [Tree("leaf", i, ()) for i in range(5)]
    assert read.__closure__ is not None
    sources = (
        Source(leaves[1], base=names, steps=(("item", "w"),)),
        Source(Tree("static", (bool, True), ()), base=names, steps=(("item", "flag"),)),
        source_of(lambda: variable, leaves[2]),
        Source(leaves[3], argument=1, steps=(("attribute", "scale"),)),
        source_of(lambda: model.scale[:1], leaves[4]),
        source_of(lambda: twice_spec, Tree("identity", Identity(twice_spec), ())),
    )
    assert [s.steps[0][0] for s in sources] == ["item", "item", "cell", "attribute", "call", "item"]
    one = Leaf(array_type("f64[1]"))
    spec = ExecutableSpec(
        ("x", "model"),
        (leaves[0], Tree("static", (Model, model), ())),
        (one,) * 5,
        (one.type,) * 5,
        Tree("tuple", None, tuple(leaves)),
        sources,
    )
    call = build(spec, COPIES.replace("COUNT", "5").replace("BYTES", "8"), "copies")
    assert call(np.zeros(1), model) == (0, 1, 1, 1, 1)
    names["w"], variable, model.scale = np.full(1, 2.0), np.full(1, 3.0), np.full(1, 4.0)
    assert call(np.zeros(1), model) == (0, 2, 3, 4, 4)
    names["flag"] = False
    assert call(np.zeros(1), model) is NotImplemented
    names["flag"] = 1
    assert call(np.zeros(1), model) is NotImplemented
    names["flag"] = True
    model.scale = np.ones(2)
    assert call(np.zeros(1), model) is NotImplemented
    del model.scale
    assert call(np.zeros(1), model) is NotImplemented
    model.scale = np.ones(1)
    assert call(np.zeros(1), model) is not NotImplemented
    del names["w"]
    assert call(np.zeros(1), model) is NotImplemented


def test_python_targets_get_arguments_and_passed_sources(build: Build) -> None:
    names = {"w": np.ones(3), "k": 2}
    sources = (
        Source(Tree("leaf", 1, ()), base=names, steps=(("item", "w"),), passed=True),
        Source(Tree("static", (int, 2), ()), base=names, steps=(("item", "k"),)),
    )
    spec = twice_spec(inputs=(VECTOR, VECTOR), sources=sources, results=())
    call = build(spec, target=lambda x, w: (x, w))
    x = np.ones(6)[::2]  # layout does not matter here
    given = call(x)
    assert given[0] is x and given[1] is names["w"]
    assert call(np.ones(2)) is NotImplemented, "both have n elements"
    assert call(np.ones(3, np.float32)) is NotImplemented

    def fail(x: Any, w: Any) -> None:
        raise KeyError("from the target")

    with pytest.raises(KeyError, match="from the target"):
        build(spec, target=fail)(x)


# ---- writing to arguments -------------------------------------------------------------------------------------------


def test_writes_go_into_arguments(build: Build) -> None:
    spec = twice_spec(write_back={0: 0}, result=Tree("none", None, ()))
    call = build(spec, TWICE, "twice")
    x = np.ones(3)
    assert call(x) is None
    np.testing.assert_array_equal(x, [2, 2, 2])
    x.flags.writeable = False
    assert call(x) is NotImplemented


def test_a_written_argument_must_not_be_shared(build: Build) -> None:
    spec = twice_spec(
        names=("x", "y"), arguments=(FIRST, Tree("leaf", 1, ())), inputs=(VECTOR, VECTOR), write_back={0: 0}
    )
    call = build(spec, TWICE.replace("pointers[1]", "pointers[2]"), "twice")
    data = np.ones(6)
    assert call(data[:3], data[2:5]) is NotImplemented
    assert call(data, data) is NotImplemented
    np.testing.assert_array_equal(data, np.ones(6))
    assert call(data[:3], data[3:]) is not NotImplemented
    np.testing.assert_array_equal(data, [2, 2, 2, 1, 1, 1])


def test_the_flat_form_takes_leaves_of_any_layout(build: Build) -> None:
    spec = twice_spec(write_back={0: 0}).flat()
    call = build(spec, TWICE, "twice")
    for original in (np.ones((4, 2))[:, 0], np.ones(4, ">f8"), np.ones(33, np.uint8)[1:].view(np.float64)):
        original[...] = 1.5
        result = call_flat(call, [original], [VECTOR], ["x"], {0: 0})
        np.testing.assert_array_equal(result, [3] * 4)
        np.testing.assert_array_equal(original, [3] * 4)


# ---- workspace, threads, fork --------------------------------------------------------------------------------


def counter(build: Build, **options: Any) -> Any:
    results = (VECTOR.type, ArrayType(DTYPES["f64"]))
    return build(
        twice_spec(
            results=results, result=Tree("tuple", None, (FIRST, Tree("leaf", 1, ()))), release_gil=True, **options
        ),
        WORKSPACE,
        "counter",
    )


def test_a_workspace_is_kept_and_grows(build: Build) -> None:
    call = counter(build)
    assert [call(np.ones(n))[1] for n in (4, 4, 2, 1000, 1000, 3)] == [1, 2, 3, 1, 2, 3]
    assert call.workspace_bytes == 8016


def test_a_large_workspace_is_not_kept(build: Build) -> None:
    call = counter(build, kept_bytes=1000)
    assert [call(np.ones(n))[1] for n in (4, 1000, 1000, 4)] == [1, 1, 1, 2]
    assert call.workspace_bytes < 1000


def test_concurrent_calls_have_workspaces_of_their_own(build: Build) -> None:
    call = counter(build)
    call(np.ones(500))
    wrong = []

    def work(k: int) -> None:
        for i in range(20):
            x = np.full(400 + k, -1e-4 * ((i + k) % 3 + 1))
            result, _ = call(x)
            if not np.array_equal(result, 3 * x):
                wrong.append((k, i))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_workspaces_are_released(build: Build, options: Options) -> None:
    call = counter(build)
    slow = threading.Thread(target=call, args=(np.full(2, -0.2),))
    slow.start()
    threading.Event().wait(0.05)
    assert call(np.ones(2))[1] == 1, "the other call has the kept workspace, so this one has a new one"
    slow.join()
    assert call(np.ones(2))[1] == 2
    del call
    gc.collect()


def test_works_in_a_forked_child(build: Build) -> None:
    call = counter(build)
    call(np.ones(3))
    child = os.fork()
    if child == 0:
        ok = np.array_equal(call(np.ones(3))[0], [3, 3, 3])
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ---- Dispatcher -----------------------------------------------------------------------------------------------------


def test_a_forward_calls_an_attribute(build: Build, options: Options) -> None:
    class Function:
        """Calls what stands in `dispatch`."""

        def __init__(self, dispatch: Any) -> None:
            self.dispatch = dispatch

    forward = build_forward("dispatch", cache=open_cache(options), options=options)
    Function.__call__ = forward  # type: ignore[attr-defined]
    function: Any = Function(lambda *args, **kwargs: (args, kwargs))
    assert function() == ((), {}) and function(1, 2, k=3) == ((1, 2), {"k": 3})
    assert function.__call__(1) == ((1,), {}) and Function.__call__(function, k=1) == ((), {"k": 1})
    dispatch = build_dispatcher(lambda *args, **kwargs: "slow", cache=open_cache(options), options=options)
    dispatch.add(build(twice_spec(), TWICE, "twice"))
    function.dispatch = dispatch
    assert list(function(np.ones(2))) == [2, 2] and list(function(x=np.ones(1))) == [2] and function(1) == "slow"
    del function.dispatch
    with pytest.raises(AttributeError, match="dispatch"):
        function()
    with pytest.raises(TypeError):
        forward()


def test_a_dispatcher_tries_executables_then_the_slow_path(build: Build, options: Options) -> None:
    slow: list[Any] = []

    def fallback(*args: Any, **kwargs: Any) -> str:
        slow.append((args, kwargs))
        return "slow"

    dispatch = build_dispatcher(fallback, cache=open_cache(options), options=options)
    assert dispatch(1, a=2) == "slow" and slow == [((1,), {"a": 2})]
    single = build(twice_spec(inputs=(Leaf(array_type("f64[2]")),), results=()), target=lambda x: "two")
    double = build(twice_spec(inputs=(Leaf(array_type("f64[3]")),), results=()), target=lambda x: "three")
    dispatch.add(single)
    dispatch.add(double)
    for _ in range(3):
        assert [dispatch(np.ones(n)) for n in (2, 3, 2, 4)] == ["two", "three", "two", "slow"]
    assert dispatch(x=np.ones(3)) == "three"
    dispatch.discard(single)
    assert [dispatch(np.ones(n)) for n in (2, 3)] == ["slow", "three"]
