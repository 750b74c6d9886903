"""What a call costs beside the kernel.

The best of many short runs, each shorter than a time slice, so that other work on the machine does not matter.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.driver.kernels import TWICE
from tracegrad.config import Options
from tracegrad.driver.cache import open_cache
from tracegrad.driver.launch import ExecutableSpec, build_dispatcher, build_executable
from tracegrad.driver.load_c import compile_c
from tracegrad.runtime.signature import Tree, renumber, signature_of


def best_ns(call: Callable[..., Any], *arguments: Any) -> float:
    number = 100
    runs = timeit.repeat("call(*a)", globals={"call": call, "a": arguments}, number=number, repeat=3000)
    return min(runs) / number * 1e9


def build(options: Options, names: tuple[str, ...], values: tuple[Any, ...], results: int) -> Callable[..., Any]:
    """A dispatcher around a kernel that doubles its first input into result 0; returns the first argument's tree."""
    cache = open_cache(options)
    signature, leaves = signature_of(names, values)
    kernel = TWICE.replace("pointers[1]", f"pointers[{len(leaves)}]").replace("sizes[0]", str(leaves[0].size))
    library = compile_c(kernel, "twice", cache=cache, options=options)
    types = tuple(leaf.type for leaf in signature.leaves[:results])
    tree = renumber(signature.arguments[0], range(results))
    spec = ExecutableSpec(names, signature.arguments, signature.leaves, types, tree)
    dispatch = build_dispatcher(lambda *a: Tree("none", None, ()), cache=cache, options=options)
    dispatch.add(build_executable(spec, library, cache=cache, options=options))
    return dispatch


def test_one_array_of_ten_elements(options: Options) -> None:
    x = np.ones(10)
    call = build(options, ("x",), (x,), 1)
    assert list(call(x)) == [2.0] * 10
    assert best_ns(call, x) < 500


def test_a_dict_of_four_arrays_and_two_more(options: Options) -> None:
    params = {name: np.ones((3, 4)) for name in ("w1", "b1", "w2", "b2")}
    x, y = np.ones((8, 3)), np.ones(8)
    call = build(options, ("params", "x", "y"), (params, x, y), 4)
    assert list(call(params, x, y)) == list(params)
    assert best_ns(call, params, x, y) < 1000
