"""Explanations name the right lines and reasons, and non-finite results are traced to where they begin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import TracegradError

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])
ROOT = Path(__file__).parents[2]
SCALE = 3.0
MODE = 2


def line_of(text: str) -> int:
    return next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


def model(x, y, n, unused):
    s = 0.0
    for i in range(n):  # a staged loop
        s = s + x[i] * SCALE
    if MODE > 1:  # decided
        s = s * 2
    for name in ("a", "b"):  # native
        s = s + len(name)
    k = int(y)  # an integer cast
    while s < 30:  # a staged while
        s = s * 1.5
    return s + np.sum(np.floor(x)) + k * 2.0  # a rounding


def test_control_flow() -> None:
    found = tg.explain(model)(np.ones(5), 2.5, 5, 1.0)
    events = {(e.span.line, e.text.split(":")[0], e.text.split(":")[1].strip().split(" ")[0]) for e in found.staged}
    assert (line_of("# a staged loop"), "for", "staged") in events
    assert (line_of("# decided"), "if", "decided") in events
    assert (line_of("# native"), "for", "run") in events
    assert (line_of("# a staged while"), "while", "staged") in events


def test_cuts_and_zero_gradients() -> None:
    found = tg.explain(tg.grad(model))(np.ones(5), 2.5, 5, 1.0)
    assert set(found.zero) == {"y", "unused"}
    assert "integer cast" in found.zero["y"]
    assert "not used" in found.zero["unused"]
    cuts = {(c.span.line, c.reason, c.inputs) for c in found.cuts}
    assert (line_of("# an integer cast"), "integer cast", ("y",)) in cuts
    assert (line_of("# a rounding"), "rounding", ("x",)) in cuts
    # the explanation and the gradient say the same
    for position, name in enumerate(("x", "y")):
        gradient = tg.grad(model, argnums=position)(np.ones(5), 2.5, 5, 1.0)
        assert bool(np.all(gradient == 0)) == (name in found.zero)


def test_other_cuts() -> None:
    def f(a, b, c, d):
        chosen = np.argmax(a)
        above = np.sum((b > 0.0) * 1.0)
        return c[chosen] * above * tg.stop_gradient(d)

    found = tg.explain(f)(np.ones(3), np.ones(3), np.ones(3), 2.0)
    reasons = {name: {c.reason for c in found.cuts if name in c.inputs} for name in "abcd"}
    assert reasons == {"a": {"argmax"}, "b": {"comparison"}, "c": set(), "d": {"stop_gradient"}}
    assert set(found.zero) == {"a", "b", "d"}


def factorial(n, x, a):
    return x if n < 1 else x * factorial(n - 1, x, a)  # what ends the recursion


def even(n, x, k):
    return x if n < 1 else np.sin(odd(n - 1, x, k)) * np.floor(k)  # a rounding in a recursion


def odd(n, x, k):
    return 2 * x if n < 1 else np.cos(even(n - 1, x, k))


def counted(n, x):
    y = x
    while n >= 1:  # what ends the loop
        y = y * x
        n = n - 1
    return y


@tg.custom_vjp
def rounded(x, y):
    return np.round(x) * y


rounded.defvjp(lambda x, y: (rounded(x, y), x), lambda x, ct: (ct, None))


@tg.custom_jvp
def stepped(x, y):
    return np.floor(x) * y


@stepped.defjvp
def _(primals, tangents):
    return stepped(*primals), tangents[0] * primals[1]


def straight_through(x, y):
    return rounded(x, 3.0) * stepped(x, 2.0) + np.sum(rounded(1.0, y)) * stepped(1.0, y)  # the rules leave out y


@pytest.mark.parametrize(
    ("function", "arguments", "zero"),
    [
        (factorial, (3.0, 2.0, 1.0), {"n": ("comparison", "# what ends the recursion"), "a": None}),
        (even, (4.0, 0.3, 2.5), {"n": ("comparison", "# a rounding in a"), "k": ("rounding", "# a rounding in a")}),
        (counted, (3.0, 2.0), {"n": ("comparison", "# what ends the loop")}),
        (straight_through, (1.5, 2.0), {"y": ("custom rule", "# the rules leave out y")}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_zero_gradients_in_recursion_loops_and_rules(function, arguments, zero) -> None:
    found = tg.explain(function)(*arguments)
    gradients = tg.grad(function, argnums=tuple(range(len(arguments))))(*arguments)
    names = function.__code__.co_varnames
    assert {name for name, gradient in zip(names, gradients, strict=False) if gradient == 0} == set(found.zero)
    for name, cut in zero.items():
        expected = f"is cut: {cut[0]} at {line_of(cut[1])}" if cut else "it is not used"
        assert expected in found.zero[name]
    assert {name for cut in found.cuts for name in cut.inputs} == {name for name, cut in zero.items() if cut}


def test_unrolled_loop() -> None:
    def f(x):
        layers = [np.sin, np.cos, np.tanh]
        for i in range(3):
            x = layers[i](x)
        return x

    (event,) = [e for e in tg.explain(f)(1.0).staged if e.text.startswith("for")]
    assert "unrolled 3 times" in event.text


def test_a_key_that_unrolls_a_loop_is_said_in_the_source() -> None:
    def logged(p, n):
        log = {}
        for t in range(n):  # unrolled for its key
            p = p * 0.9 + 0.1
            log[t % 3] = p  # the traced key
        return p * log[1]

    compiled = tg.grad(logged)
    for backend in ("numpy", "c"):
        header = " ".join(line.strip("#/* ") for line in compiled.source(1.5, 5, backend=backend).splitlines())
        expected = f"test_explain.py:{line_of('# unrolled for its key')}: the loop is unrolled 5 times: "
        assert expected in header
        assert "a dict key is known only when" in header
        assert f"the compiled function runs, at line {line_of('# the traced key')}" in header


def test_guards_and_recaptures() -> None:
    scale, weights = 2, np.ones(3)

    def f(x):
        return np.sum(x * weights) * scale

    g = tg.grad(f)
    found = tg.explain(f)(np.ones(3))
    assert found.guards == ("scale is 2",)
    assert found.hidden == ("weights: f64[3]",)
    assert found.recaptures == {}
    g(np.ones(3))
    assert tg.explain(g)(np.ones(3)).recaptures == {"grad": "first call"}
    scale = 3
    g(np.ones(3))
    assert tg.explain(f)(np.ones(3)).recaptures == {"grad": "changed since the last capture: scale"}
    weights = np.ones(4)
    g(np.ones(4))
    assert "x: f64[3], now x: f64[4]" in tg.explain(f)(np.ones(4)).recaptures["grad"]
    assert "recaptured when" in str(found)


def test_command(tmp_path: Path) -> None:
    module = tmp_path / "explained.py"
    module.write_text("import numpy as np\n\ndef f(x, k):\n    return np.sum(np.round(x)) + k\n")
    command = [sys.executable, "-m", "tracegrad", "explain", f"{module}:f", "--arg", "x=f64[n]", "--arg", "k=2.0"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "x: every path to the result is cut: rounding at 4" in done.stdout


def test_a_body_captured_again_is_explained_once() -> None:
    def f(x):
        total = 0  # becomes a float
        for i in range(3):
            if x[i] > 0:
                total += x[i]
        return total

    text = str(tg.explain(f)(np.ones(3)))
    assert text.count("for: staged") == 1 and text.count("if: staged") == 1


def root_sum(x):
    r = np.sqrt(np.sum(x))  # infinite slope at zero
    return np.log(r + 1.0) * 2


@each_backend
def test_debug_nans_names_the_line_of_a_cotangent(backend: str) -> None:
    g = tg.grad(root_sum, backend=backend)
    with tg.debug_nans():
        np.testing.assert_array_equal(g(np.ones(4)), 1 / 6)
        with pytest.raises(FloatingPointError) as raised:
            g(np.zeros(4))
    assert raised.value.span.line == line_of("# infinite slope at zero")
    assert "a factor in the derivative of this line becomes inf: divide of 0.5, r = 0.0" in str(raised.value)
    with np.errstate(all="ignore"):
        assert not np.all(np.isfinite(g(np.zeros(4))))


def test_debug_nans_names_the_line_of_a_value() -> None:
    def f(x):
        total = 0.0
        for i in range(3):
            total = total + np.where(x[i] > 0, np.log(x[i]), 0.0)  # harmless: not chosen
        return total * np.log(x[2] - 5.0)  # the culprit

    with tg.debug_nans():
        for call in (lambda x: tg.function(f)(x), lambda x: tg.jvp(f, (x,), (x,)), lambda x: tg.vjp(f, x)):
            with pytest.raises(FloatingPointError, match="nan") as raised:
                call(np.array([0.0, 1.0, 2.0]))
            assert raised.value.span.line == line_of("# the culprit")
        assert np.isfinite(tg.function(f)(np.array([0.0, 1.0, 7.0])))


def test_debug_nans_names_the_argument() -> None:
    with tg.debug_nans(), pytest.raises(FloatingPointError, match=r"argument x is nan at \[1\]"):
        tg.function(lambda x: x * 2)(np.array([1.0, np.nan]))


def falling(x, n):
    if n <= 0:
        return np.log(x)  # out of its domain
    return falling(x - 0.25, n - 1) * x


def rising(x, n):
    if n <= 0:
        return 2.0 * x
    return rising(3.0 * x, n - 1) + x


@each_backend
def test_debug_nans_looks_into_recursion(backend: str) -> None:
    def started(x, n):
        return rising(np.log(x), n)  # not finite before the call

    calls = {
        "# out of its domain": (tg.grad(falling, backend=backend), 0.5, "log of x = -0.25"),
        "# not finite before": (tg.function(started, backend=backend), -1.0, "log of x = -1.0"),
    }
    for mark, (function, x, text) in calls.items():
        with pytest.raises(FloatingPointError) as raised, tg.debug_nans():
            function(x, np.array(3))
        assert raised.value.span.line == line_of(mark)
        assert text in str(raised.value)


def test_each_statement_is_explained_once() -> None:
    def promoted(x):
        s = 0  # becomes a float: the loop is captured twice
        for i in range(3):
            if x[i] > 0:
                s = s + x[i]
        return s

    def unrolled(x):
        names = ["a", "b", "c"]
        p = {"a": 1.0, "b": 2.0, "c": 3.0}
        for i in range(3):
            for _ in range(2):
                if x[i] > 0:
                    x = x * p[names[i]]
        return x.sum()

    for f, outer in ((promoted, "for: staged"), (unrolled, "for: unrolled 3 times")):
        texts = [(e.span.line, e.text) for e in tg.explain(f)(np.ones(3)).staged]
        assert len(texts) == len(set(texts))
        assert texts[0][1].startswith(outer)
        assert not any("unrolled" in text for _, text in texts[1:])


def test_rules_are_told_by_name() -> None:
    @tg.custom_vjp
    def root(a):
        return np.sqrt(a)

    root.defvjp(lambda a: (np.sqrt(a), a), lambda a, ct: (0.5 * ct / np.sqrt(a),))
    names = [1.0, "a"]
    explanation = tg.explain(lambda x: np.sum(root(x)) * names[0])(np.ones(3))
    assert "the rule of root has not changed" in explanation.guards
    assert not any("the same tuple" in text or "the same list" in text for text in explanation.guards)


@tg.custom_vjp
def halved(x):
    return x / 2.0


halved.defvjp(
    lambda x: (x / 2.0, None),
    lambda _, ct: (ct / 2.0,),  # the rule of halved
)


@tg.checkpoint
def again(x, w):
    return np.sin(halved(x) * w)  # inside a checkpoint


def calls(x, w):
    for _ in range(3):
        x = again(x, w)  # a checkpoint
    y = tg.pure_callback(np.sin, x, x, rule="finite-difference")  # numeric
    y = y + tg.pure_callback(np.cos, x, x, rule=lambda p, t: (np.cos(p[0]), -np.sin(p[0]) * t[0]))  # with a rule
    return np.sum(y + tg.pure_callback(np.tan, x, x))  # without one


def test_calls_that_say_their_derivative() -> None:
    found = tg.explain(calls)(np.ones(3), 2.0)
    file = Path(__file__).name
    rules = {
        what: f"its derivative is what its rule says, {file}:{line_of(what)}"
        for what in ("# the rule of halved", "# with a rule")
    }
    assert [(e.span.line, e.text) for e in found.staged if not e.text.startswith("for")] == [
        (line_of("# inside a checkpoint"), f"halved: {rules['# the rule of halved']}"),
        (line_of("# a checkpoint"), "again: reverse mode keeps x, w and runs it again"),
        (line_of("# numeric"), "sin: run by Python, its derivative by finite-difference"),
        (line_of("# with a rule"), f"cos: run by Python, {rules['# with a rule']}"),
        (line_of("# without one"), "tan: run by Python, without a derivative"),
    ]
    assert "control flow and calls" in str(found)


def logarithms(x):
    total = 0.0
    for i in range(3):
        total += np.log(x[i] - i)
    return total


@each_backend
@pytest.mark.parametrize(
    "call",
    [
        lambda f, x, backend: tg.jacfwd(f, backend=backend)(x),
        lambda f, x, backend: tg.hessian(f, backend=backend)(x),
        lambda f, x, backend: tg.vmap(tg.grad(f), backend=backend)(np.stack([x + 9.0, x])),
    ],
    ids=["jacfwd", "hessian", "vmap of grad"],
)
def test_memory_that_is_not_written_yet_is_not_blamed(call, backend):
    with pytest.raises(TracegradError, match="becomes inf") as caught, tg.debug_nans():
        call(logarithms, np.array([1.0, 2.0, 2.0]), backend)
    assert caught.value.span.text().strip() == "total += np.log(x[i] - i)"


def test_only_what_is_written_is_listed() -> None:
    def positive(v):
        if v < 0:
            raise ValueError
        return np.sqrt(v)

    def f(x):
        try:
            total = positive(x[0])
        except ValueError:
            total = 0.0
        for v in x:
            if v > 9:
                break
            total += v if v > 1 else 0.0
        else:
            total *= 2
        return total

    listed = [event.text for event in tg.explain(f)(np.ones(3)).staged]
    assert listed == ["try: staged", "for: staged", "if: staged", "conditional expression: staged"]
