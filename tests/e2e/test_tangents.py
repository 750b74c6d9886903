"""The tuples of tangents of forward mode: what is no tuple, or moves what is no float, is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])


def scaled(x: Any, by: Any) -> Any:
    return x * by


@each_backend
@pytest.mark.parametrize("by", [3, np.array(3)])
def test_tangent_of_an_integer_must_be_zero(by: Any, backend: str) -> None:
    for zero in (0, 0.0, None, np.zeros(())):
        assert tg.jvp(scaled, (2.0, by), (1.0, zero), backend=backend) == (6.0, 3.0)
    for run in (
        lambda: tg.jvp(scaled, (2.0, by), (0.0, 1.0), backend=backend),
        lambda: tg.hvp(scaled, (2.0, by), (0.0, 1.0), backend=backend),
        lambda: tg.function(lambda x: tg.jvp(scaled, (x, by), (0.0, 1.0))[1], backend=backend)(2.0),
        lambda: tg.function(lambda x: tg.linearize(scaled, x, by)[1](0.0, 1.0), backend=backend)(2.0),
    ):
        with pytest.raises(tg.errors.ArgumentTypeError, match="TG201") as caught:
            run()
        assert "the tangent of by" in str(caught.value)


@each_backend
def test_tangent_of_an_integer_in_a_dict_must_be_zero(backend: str) -> None:
    def f(p: Any) -> Any:
        return p["x"] * p["n"]

    p = {"x": 2.0, "n": 3}
    assert tg.jvp(f, (p,), ({"x": 1.0, "n": 0},), backend=backend) == (6.0, 3.0)
    with pytest.raises(tg.errors.ArgumentTypeError, match="TG201"):
        tg.jvp(f, (p,), ({"x": 1.0, "n": 1.0},), backend=backend)


CALLS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "jvp": (lambda x, v: tg.jvp(np.sum, x, v), "primals"),
    "jvp, tangents": (lambda x, v: tg.jvp(np.sum, (x,), v), "tangents"),
    "hvp": (lambda x, v: tg.hvp(np.sum, x, v), "primals"),
    "hvp, vectors": (lambda x, v: tg.hvp(np.sum, (x,), v), "vectors"),
    "vhp": (lambda x, v: tg.vhp(np.sum, v, x), "primals"),
}


@pytest.mark.parametrize("call", CALLS)
def test_arguments_are_given_as_tuples(call: str) -> None:
    run, name = CALLS[call]
    for x, v in ((np.ones(3), np.ones(3)), (np.ones(1), np.ones(1)), (2.0, 1.0)):
        for f in (lambda x, v: run(x, v), tg.function(lambda x, v: run(x, v))):
            with pytest.raises(tg.errors.ArgumentTypeError, match=f"^{name} is a tuple with one entry per argument"):
                f(x, v)
