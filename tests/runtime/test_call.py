"""The slow path: arguments of any layout, and writes that reach the user's arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tracegrad.driver.load_python import load_python
from tracegrad.errors import ArgumentError, InternalError, Span
from tracegrad.ir.types import array_type
from tracegrad.runtime.call import Places, call_flat, normalize, raise_kernel_error, with_user_lines
from tracegrad.runtime.signature import Leaf

VECTOR = Leaf(array_type("f64[3]"))


def unaligned() -> np.ndarray:
    return np.zeros(25, np.uint8)[1:].view(np.float64)


@pytest.mark.parametrize(
    "value",
    [
        np.ones(6)[::2],
        np.ones(3)[::-1],
        np.ones(3, ">f8"),
        unaligned(),
        np.ones(3).view(np.recarray),
        np.broadcast_to(1.0, 3),
    ],
    ids=["strided", "reversed", "swapped", "unaligned", "subclass", "broadcast"],
)
def test_normalize_copies_when_needed(value: np.ndarray) -> None:
    result = normalize(value, VECTOR)
    assert type(result) is np.ndarray and result.dtype == np.float64 and result.dtype.isnative
    assert result.flags.c_contiguous and result.flags.aligned
    np.testing.assert_array_equal(result, np.asarray(value))


def test_normalize_copies_nothing_else() -> None:
    value = np.ones(3)
    assert normalize(value, VECTOR) is value
    fortran = np.ones((3, 2), order="F")
    assert normalize(fortran, Leaf(array_type("f64[3,2]"))).flags.c_contiguous
    assert normalize(2.5, Leaf(array_type("f64[]"), "float")) == 2.5
    scalar = normalize(np.float64(2.5), Leaf(array_type("f64[]")))
    assert type(scalar) is np.ndarray and scalar.shape == ()


def writer(x: np.ndarray, y: Any = None) -> str:
    """Stands for an Executable that writes to its first input."""
    assert x.flags.c_contiguous and x.flags.aligned and x.dtype.isnative
    x += 1
    return "done"


@pytest.mark.parametrize("make", [lambda: np.zeros(6)[::2], lambda: np.zeros(3, ">f8"), unaligned, lambda: np.zeros(3)])
def test_writes_reach_the_argument(make: Any) -> None:
    value = make()
    assert call_flat(writer, [value], [VECTOR], ["x"], {0: 0}) == "done"
    np.testing.assert_array_equal(value, np.ones(3))


def test_arguments_that_are_not_written_stay() -> None:
    value, other = np.zeros(3), np.zeros(6)[::2]
    call_flat(writer, [value, other], [VECTOR, VECTOR], ["x", "y"], {0: 0})
    np.testing.assert_array_equal(other, np.zeros(3))


def test_read_only_arguments() -> None:
    value = np.zeros(3)
    value.flags.writeable = False
    with pytest.raises(ValueError, match=r'assignment destination is read-only: params\["w"\]'):
        call_flat(writer, [value], [VECTOR], ['params["w"]'], {0: 0})
    with pytest.raises(TypeError, match="'float64' object does not support item assignment: x"):
        call_flat(writer, [np.float64(1)], [Leaf(array_type("f64[]"))], ["x"], {0: 0})


def test_shared_arguments() -> None:
    data = np.zeros(8)
    for x, y in [(data[:3], data[2:5]), (data[:3], data[:3]), (data[:6:2], data[4:7])]:
        with pytest.raises(ArgumentError, match="the function writes to x, which shares memory with y"):
            call_flat(writer, [x, y], [VECTOR, VECTOR], ["x", "y"], {0: 0})
    np.testing.assert_array_equal(data, np.zeros(8))
    call_flat(writer, [data[0:6:2], data[1:6:2]], [VECTOR, VECTOR], ["x", "y"], {0: 0})
    np.testing.assert_array_equal(data, [1, 0, 1, 0, 1, 0, 0, 0])


def test_a_refusal_is_a_fault_of_tracegrad() -> None:
    with pytest.raises(InternalError, match="TG904"):
        call_flat(lambda x: NotImplemented, [np.zeros(3)], [VECTOR], ["x"])


def test_kernel_errors() -> None:
    with pytest.raises(IndexError, match=r"^index 5 is out of bounds for size 3$"):
        raise_kernel_error(1, "", 0, 0, "index %lld is out of bounds for size %lld", 5, 3)
    with pytest.raises(ValueError, match="100 % wrong"):
        raise_kernel_error(3, "", 0, 0, "100 % wrong", 0, 0)
    with pytest.raises(RuntimeError, match="odd"):
        raise_kernel_error(99, "", 0, 0, "odd", 0, 0)
    spans = [(Span(__file__, 1, 4, 7), "IndexError"), (Span(__file__, 1, 8, 12), "ZeroDivisionError")]
    places = Places(lambda: spans)
    with pytest.raises(ZeroDivisionError) as raised:
        raise_kernel_error(2, Path(__file__).name, 1, 8, "division by zero", 0, 0, places)
    shown = str(raised.value).splitlines()
    assert shown[1] == f"  --> {__file__}:1:8"
    assert shown[2].startswith('1 | """The slow path') and shown[3] == "  |        ^^^^"
    with pytest.raises(ZeroDivisionError, match=r"^division by zero\n  --> other.py:1:8$"):
        raise_kernel_error(2, "other.py", 1, 8, "division by zero", 0, 0, places)


def test_places() -> None:
    index, division, other = (Span("/a/model.py", 3, c, c + 4, "f") for c in (5, 15, 25))
    places = Places(lambda: [(index, "IndexError"), (division, "ZeroDivisionError"), (other, "")])
    assert places.find("model.py", 3, 15) == division
    assert places.find("model.py", 3, error=IndexError()) == index
    assert places.find("model.py", 3, error=ArithmeticError()) == Span("/a/model.py", 3, 5, 29, "f")
    assert places.find("model.py", 4, error=IndexError()) == index  # the only one in the program
    assert places.find("model.py", 4, error=KeyError()) is None
    assert places.find("else.py", 3, 15) is None


def test_a_generated_function_is_loaded_at_its_first_call() -> None:
    loaded = []

    def load() -> tuple[Callable[[int], int], str]:
        loaded.append(1)
        return load_python("def twice(x):\n    return 2 * x\n", "twice"), ""

    run = with_user_lines(load, Places(lambda: ()))
    assert not loaded
    assert [run(1), run(2)] == [2, 4] and loaded == [1]
