"""What a function changes in Python objects outside of it, where its code stays a call or is captured by itself: it
happens as in Python, or is refused with the line of the store."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import tracegrad as tg
from tracegrad.errors import CaptureError, NeedsPythonValue

each_backend = pytest.mark.parametrize("backend", ["numpy", "c"])

HEAD = """
import functools, heapq, itertools
import numpy as np
import tracegrad as tg
from collections import Counter, defaultdict, deque

class Counts:
    total = 0
    def __init__(self):
        self.n = 0
    @property
    def next(self):
        self.n += 1
        return self.n

TOTAL = 0
"""


class Store(NamedTuple):
    """Statements: what makes the state, what the function that changes it declares, the change, and what is read."""

    start: str
    declaration: str
    change: str
    read: str


#: numbers in variables, items, attributes and arrays
NUMBERS = {
    "nonlocal": Store("n = 0", "nonlocal n", "n += 1", "n"),
    "nonlocal_float": Store("n = 0.0", "nonlocal n", "n = n + 1.5", "n"),
    "nonlocal_traced": Store("n = 0.0", "nonlocal n", "n = n + y", "n"),
    "two_names": Store("n = m = 1", "nonlocal n, m", "n, m = n + m, n", "n * m"),
    "assignment_expression": Store("n = 0", "nonlocal n", "(n := n + 1)", "n"),
    "by_another_function": Store("n = 0\n    def bump():\n        nonlocal n\n        n += 1", "", "bump()", "n"),
    "global": Store("global TOTAL\n    TOTAL = 0", "global TOTAL", "TOTAL += 1", "TOTAL"),
    "attribute": Store("s = Counts()", "", "s.n += 1", "s.n"),
    "setattr": Store("s = Counts()", "", "setattr(s, 'n', s.n + 1)", "s.n"),
    "property": Store("s = Counts()", "", "s.next", "s.n"),
    "class": Store("Counts.total = 0", "", "Counts.total += 1", "Counts.total"),
    "function": Store("def h(): pass\n    h.n = 0", "", "h.n += 1", "h.n"),
    "vars": Store("s = Counts()", "", "vars(s)['n'] += 1", "s.n"),
    "list_item": Store("s = [0, 0]", "", "s[1] += 1", "s[1]"),
    "dict_item": Store("s = {'n': 0}", "", "s['n'] += 1", "s['n']"),
    "defaultdict": Store("s = defaultdict(int)", "", "s['n'] += 1", "s['n']"),
}
ARRAYS = {
    "array_item": Store("s = np.zeros(2)", "", "s[0] += y", "np.sum(s ** 2)"),
    "array": Store("s = np.zeros(2)", "nonlocal s", "s += y", "np.sum(s ** 2)"),
    "out": Store("s = np.zeros(2)", "", "np.add(s, y, out=s)", "np.sum(s ** 2)"),
}
#: the length and order of containers, and iterators
CONTAINERS = {
    "append": Store("s = []", "", "s.append(1.5)", "len(s)"),
    "append_by_another_function": Store("s = []\n    put = lambda v: s.append(v)", "", "put(1.5)", "len(s)"),
    "append_in_a_list": Store("s = [[], []]", "", "s[0].append(1)", "len(s[0])"),
    "partial": Store("s = []\n    put = functools.partial(list.append, s)", "", "put(1.5)", "len(s)"),
    "extend": Store("s = []", "", "s.extend([1, 2])", "len(s)"),
    "list_iadd": Store("s = []", "nonlocal s", "s += [1]", "len(s)"),
    "list_imul": Store("s = [1]", "nonlocal s", "s *= 2", "len(s)"),
    "pop": Store("s = [1] * 20", "", "s.pop()", "len(s)"),
    "insert": Store("s = []", "", "s.insert(0, 1)", "len(s)"),
    "clear": Store("s = [1]", "", "s.clear()", "len(s)"),
    "sort": Store("s = [3, 1]", "", "s.sort()", "s[0]"),
    "slice": Store("s = [3, 1]", "", "s[:] = [9]", "s[0]"),
    "del_item": Store("s = [3, 1] * 9", "", "del s[0]", "len(s)"),
    "heap": Store("s = []", "", "heapq.heappush(s, 1)", "len(s)"),
    "deque": Store("s = deque()", "", "s.append(1)", "len(s)"),
    "deque_iadd": Store("s = deque()", "nonlocal s", "s += [1]", "len(s)"),
    "popleft": Store("s = deque([1] * 20)", "", "s.popleft()", "len(s)"),
    "set": Store("s = set()", "", "s.add(len(s))", "len(s)"),
    "set_ior": Store("s = set()", "nonlocal s", "s |= {len(s)}", "len(s)"),
    "new_key": Store("s = {}", "", "s[len(s)] = 1", "len(s)"),
    "setdefault": Store("s = {}", "", "s.setdefault(len(s), 1)", "len(s)"),
    "dict_ior": Store("s = {}", "nonlocal s", "s |= {len(s): 1}", "len(s)"),
    "popitem": Store("s = dict.fromkeys(range(20))", "", "s.popitem()", "len(s)"),
    "counter_update": Store("s = Counter()", "", "s.update(['a'])", "s['a']"),
    "bytearray": Store("s = bytearray()", "", "s.append(1)", "len(s)"),
    "next": Store("s = iter(range(99))", "", "next(s)", "next(s)"),
    "for": Store("s = iter(range(99))", "", "for _ in s: break", "next(s)"),
    "islice": Store("s = iter(range(99))", "", "list(itertools.islice(s, 2))", "next(s)"),
    "list": Store("s = iter(range(3))", "", "list(s)", "next(s, 7)"),
    "sum": Store("s = iter(range(3))", "", "sum(s)", "next(s, 7)"),
    "in": Store("s = iter(range(99))", "", "5 in s", "next(s, 7)"),
    "unpack": Store("s = iter(range(2))", "", "list((lambda *a: a)(*s))", "next(s, 7)"),
    "generator": Store("s = (i for i in range(99))", "", "s.send(None)", "next(s)"),
}

FORMS = {
    "recursion": """
    def step(y):
        {declaration}
        {change}
        return y if y < 1.0 else step(y / 2)
    result = step(x)
""",
    "checkpoint": """
    @tg.checkpoint
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    result = step(step(x))
""",
    "custom_jvp": """
    @tg.custom_jvp
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    step.defjvp(lambda primals, tangents: (np.sin(primals[0]), tangents[0] * np.cos(primals[0])))
    result = step(step(x))
""",
    "custom_vjp": """
    @tg.custom_vjp
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    step.defvjp(lambda y: (np.sin(y), y), lambda y, ct: (ct * np.cos(y),))
    result = step(step(x))
""",
    "rule": """
    @tg.custom_jvp
    def step(y):
        return np.sin(y)
    @step.defjvp
    def rule(primals, tangents):
        {declaration}
        y = primals[0]
        {change}
        return np.sin(primals[0]), tangents[0] * np.cos(primals[0])
    result = step(step(x))
""",
    "vmap": """
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    result = np.sum(tg.vmap(step)(x * np.ones(3)))
""",
    "loop": """
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    def run(y):
        k = 0
        while y > 0.4 and k < 5:
            y = step(y)
            k += 1
        return y
    result = run(x)
""",
    "branch": """
    def step(y):
        {declaration}
        {change}
        return np.sin(y)
    def run(y):
        if y > 1.0:
            y = step(y)
        return y
    result = run(x) * run(-x)
""",
}


def build(form: str, store: Store) -> tuple[Callable[[Any], Any], int]:
    """Return a function that changes something from outside, and the line on which it does."""
    parts = {"declaration": store.declaration or "pass", "change": store.change}
    text = (
        f"{HEAD}def f(x):\n    {store.start}\n{FORMS[form].format(**parts)}    return result * (1 + ({store.read}))\n"
    )
    name = f"<stores-{form}-{abs(hash(text))}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    space: dict[str, Any] = {"__name__": "stores"}
    exec(compile(text, name, "exec"), space)
    first = HEAD.count("\n") + 3 + store.start.count("\n")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if number >= first and store.change in line]
    return space["f"], lines[0]


def assert_as_python(f: Callable[[Any], Any], x: float, backend: str) -> None:
    plain = f(x)
    value, gradient = tg.value_and_grad(f, backend=backend)(x)
    assert value == pytest.approx(plain, rel=1e-12)
    assert gradient == pytest.approx((f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rel=1e-6)


def assert_refused(f: Callable[[Any], Any], x: float, lines: set[int], backend: str = "numpy") -> str:
    with pytest.raises((CaptureError, NeedsPythonValue)) as caught:
        tg.grad(f, backend=backend)(x)
    error = caught.value
    while isinstance(error.__cause__, CaptureError | NeedsPythonValue):
        error = error.__cause__
    place = re.search(r"--> .*?:(\d+):\d+ in", str(error))
    assert place is not None
    assert int(place[1]) in lines, str(error)
    return str(error)


@each_backend
@pytest.mark.parametrize("name", [*NUMBERS, *ARRAYS])
@pytest.mark.parametrize("form", ["recursion", "loop", "branch"])
def test_numbers_and_arrays_are_followed(form: str, name: str, backend: str) -> None:
    f, _ = build(form, {**NUMBERS, **ARRAYS}[name])
    assert_as_python(f, 9.1 if form == "recursion" else 2.1, backend)


@pytest.mark.parametrize("name", [*NUMBERS, *CONTAINERS])
@pytest.mark.parametrize("form", ["checkpoint", "custom_jvp", "custom_vjp"])
def test_what_is_called_once_stores_as_in_python(form: str, name: str) -> None:
    f, line = build(form, {**NUMBERS, **CONTAINERS}[name])
    if name == "nonlocal_traced" and form != "checkpoint":
        assert_refused(f, 2.1, {line})
    else:
        assert_as_python(f, 2.1, "numpy")


@each_backend
def test_numbers_stored_by_a_checkpoint_carry_derivatives(backend: str) -> None:
    def f(x: Any) -> Any:
        log: list[Any] = []
        last = 0.0

        @tg.checkpoint
        def step(y: Any) -> Any:
            nonlocal last
            log.append(y * 2)
            last = (y, np.cos(y))
            return np.sin(y)

        result = step(step(x))
        return result * sum(log) * last[0] + last[1]

    assert_as_python(f, 2.0, backend)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("form", ["checkpoint", "custom_jvp", "custom_vjp", "rule", "vmap"])
def test_writes_into_arrays_from_outside_are_refused(form: str, name: str) -> None:
    f, line = build(form, ARRAYS[name])
    assert_refused(f, 2.1, {line})


@pytest.mark.parametrize("name", [*NUMBERS, *CONTAINERS])
@pytest.mark.parametrize("form", ["rule", "vmap"])
def test_what_runs_any_number_of_times_does_not_store(form: str, name: str) -> None:
    store = {**NUMBERS, **CONTAINERS}[name]
    f, line = build(form, store)
    helpers = {number for number, text in enumerate(HEAD.splitlines(), 1) if "self.n += 1" in text}
    start = HEAD.count("\n") + 2
    assert_refused(f, 2.1, {line, *helpers, *range(start, start + store.start.count("\n") + 1)})


@pytest.mark.parametrize("name", ["clear", "sort"])
def test_recursion_may_clear_or_sort_a_list(name: str) -> None:
    f, _ = build("recursion", CONTAINERS[name])
    for x in (0.5, 9.1):
        assert_as_python(f, x, "numpy")


@pytest.mark.parametrize("name", [name for name in CONTAINERS if name not in ("clear", "sort")])
def test_recursion_changes_no_container(name: str) -> None:
    store = CONTAINERS[name]
    f, line = build("recursion", store)
    start = HEAD.count("\n") + 2
    assert_refused(f, 9.1, {line, *range(start, start + store.start.count("\n") + 1)})


# ---- recursion with a state


def simpson(w: Any) -> Any:
    evaluations = level = deepest = 0

    def f(t: Any) -> Any:
        nonlocal evaluations
        evaluations += 1
        return np.exp(-w * t * t)

    def area(a: Any, fa: Any, b: Any, fb: Any, m: Any, fm: Any, whole: Any, tolerance: Any) -> Any:
        nonlocal level, deepest
        level += 1
        deepest = max(deepest, level)
        left_middle, right_middle = (a + m) / 2, (m + b) / 2
        f_left, f_right = f(left_middle), f(right_middle)
        left = (m - a) / 6 * (fa + 4 * f_left + fm)
        right = (b - m) / 6 * (fm + 4 * f_right + fb)
        total = left + right + (left + right - whole) / 15
        if abs(left + right - whole) > 15 * tolerance:
            total = area(a, fa, m, fm, left_middle, f_left, left, tolerance / 2)
            total += area(m, fm, b, fb, right_middle, f_right, right, tolerance / 2)
        level -= 1
        return total

    fa, fm, fb = f(0.0), f(1.5), f(3.0)
    total = area(0.0, fa, 3.0, fb, 1.5, fm, 0.5 * (fa + 4 * fm + fb), 1e-7)
    return total * (1 + 0.001 * evaluations + 0.01 * deepest + level)


def table_as_argument(x: Any) -> Any:
    def fill(table: Any, k: int, y: Any) -> Any:
        table[k] = y * y
        if y < 0.1 or k >= 7:
            return y
        return fill(table, k + 1, y / 2) + table[k] * 0.5

    table = np.zeros(8)
    return fill(table, 0, x) + np.sum(np.sin(table))


def part_as_argument(x: Any) -> Any:
    def grow(part: Any, y: Any) -> Any:
        part[0] = part[0] * y
        return part[1] if y < 1 else grow(part, y / 2) + grow(part, y / 3)

    a = np.ones(8) * x
    return grow(a[2:5], x) + np.sum(a**2)


def marks_in_an_array(x: Any) -> Any:
    children = np.array([[1, 2], [3, 3], [3, 4], [5, 5], [5, 5], [5, 5]])
    visited, order = np.zeros(6, bool), np.zeros(6)
    count = 0

    def visit(node: Any, depth: Any) -> Any:
        nonlocal count
        if visited[node]:
            return 0.0
        visited[node] = True
        order[node] = count * x
        count += 1
        if node >= 5:
            return x * depth
        return x + visit(children[node, 0], depth + 1.0) + visit(children[node, 1], depth + 1.0) * 0.5

    return visit(np.argmin(np.abs(x - np.arange(3.0) - 1.0)), 1.0) * count + np.sum(order**2)


def one_calls_the_other(x: Any) -> Any:
    n = 0

    def even(y: Any) -> Any:
        nonlocal n
        n += 1
        return y if y < 1 else odd(y / 2)

    def odd(y: Any) -> Any:
        nonlocal n
        n += 10
        return 2 * y if y < 1 else even(y / 3)

    return even(x) * n


def found_in_the_depth(x: Any) -> Any:
    found, best = False, 0.0

    def search(y: Any) -> Any:
        nonlocal found, best
        if y < 0.3:
            found, best = True, y * 3
            return y
        return search(y / 2) * y

    result = search(x)
    return result * 2 + best if found else result


def ends_by_its_counter(x: Any) -> Any:
    n = 0

    def step(y: Any) -> Any:
        nonlocal n
        n += 1
        if n > 3 or y < 1:
            return y
        return step(y / 2) + 1

    return step(x) * n


def in_a_loop_of_its_own(x: Any) -> Any:
    n = 0

    def step(y: Any) -> Any:
        nonlocal n
        n += 1
        while n < 5 and y > 0.5:
            y = step(y / 2)
        return y

    return step(x) * n


def several_calls(x: Any) -> Any:
    sums = np.zeros(3)

    def halve(y: Any, i: int) -> Any:
        sums[i] += y
        return y if y < 1 else halve(y / 2, i)

    total = 0.0
    for i in range(3):
        total = total + halve(x + i, i)
    return total * np.sum(sums**2)


class Search:
    def __init__(self) -> None:
        self.n, self.deepest, self.worst, self.part = 0, 0, 0.0, {"n": 0}

    def once(self, y: Any) -> Any:
        self.n += 1
        return y if y < 1 else self.once(y * 0.5) * y

    def twice(self, y: Any, depth: int) -> Any:
        self.n += 1
        self.deepest = max(self.deepest, depth)
        error = y * y
        if error > self.worst:
            self.worst = error
        if y < 1:
            return y
        return self.twice(y * 0.5, depth + 1) * y + self.twice(y * 0.3, depth + 1)

    def with_part(self, y: Any, part: Any) -> Any:
        self.part["n"] += 1
        return y * part["n"] if y < 1 else self.with_part(y / 2, part) * y


def counter_of_self(x: Any) -> Any:
    search = Search()
    return search.once(x) + search.n


def several_of_self(x: Any) -> Any:
    search = Search()
    return search.twice(x, 0) + search.n + search.worst * x + search.deepest


def part_of_self(x: Any) -> Any:
    search = Search()
    return search.with_part(x, search.part) * search.part["n"]


def passed_dict(x: Any) -> Any:
    def step(counts: Any, y: Any) -> Any:
        counts["n"] += 1
        return y if y < 1 else step(counts, y * 0.5) * y + step(counts, y * 0.3)

    counts = {"n": 0}
    return step(counts, x) * counts["n"]


def passed_list(x: Any) -> Any:
    def step(y: Any, *, counts: Any) -> Any:
        counts[0] += 1
        return y if y < 1 else step(y * 0.5, counts=counts) * y + step(y * 0.3, counts=counts)

    counts = [0]
    return step(x, counts=counts) * counts[0]


def closed_over_and_passed(x: Any) -> Any:
    search = Search()

    def step(y: Any, other: Any) -> Any:
        search.n += 1
        return y * other.n if y < 1 else step(y * 0.5, other) * y + step(y * 0.3, other)

    return step(x, search) * search.n


def passed_twice(x: Any) -> Any:
    def step(y: Any, one: Any, other: Any) -> Any:
        one.n += 1
        return y * other.n if y < 1 else step(y * 0.5, one, other) * y

    search = Search()
    return step(x, search, search) * search.n


def passed_between_two(x: Any) -> Any:
    def even(y: Any, counts: Any) -> Any:
        return y if y < 1 else odd(y / 2, counts)

    def odd(y: Any, counts: Any) -> Any:
        counts["n"] += 2
        if y > 5:
            return odd(y - 1, counts) * 1.1
        return 2 * y if y < 1 else even(y / 3, counts)

    counts = {"n": 0}
    return even(x, counts) * counts["n"]


def passed_and_returned(x: Any) -> Any:
    def step(counts: Any, y: Any) -> Any:
        counts["n"] += 1
        if y < 1:
            return counts, y
        same, result = step(counts, y / 2)
        same["n"] += 1
        return same, result * y

    counts = {"n": 0}
    same, result = step(counts, x)
    same["n"] += 5
    return counts["n"] * result


def changed_part_is_returned(x: Any) -> Any:
    def step(search: Any, y: Any) -> Any:
        search.part["n"] += 1
        return search.part if y < 1 else step(search, y / 2)

    search = Search()
    part = step(search, x)
    part["n"] += 5
    return search.part["n"] * x


def closed_over_and_returned(x: Any) -> Any:
    search = Search()

    def step(y: Any) -> Any:
        search.n += 1
        return search if y < 1 else step(y / 2)

    same = step(x)
    same.n += 5
    return search.n * x


def marks_in_a_list(x: Any) -> Any:
    def step(free: Any, y: Any) -> Any:
        if y < 1:
            return y * (1 + sum(free))
        total = 0.0
        for k in range(3):
            if free[k]:
                free[k] = False
                total = total + step(free, y / 2) * (k + 1)
                free[k] = True
        return total + y

    return step([True] * 3, x)


STATES = [
    (counter_of_self, 5.0),
    (several_of_self, 5.0),
    (part_of_self, 5.0),
    (passed_dict, 5.0),
    (passed_list, 5.0),
    (closed_over_and_passed, 5.0),
    (passed_twice, 5.0),
    (passed_between_two, 9.0),
    (passed_and_returned, 5.0),
    (changed_part_is_returned, 5.0),
    (closed_over_and_returned, 5.0),
    (marks_in_a_list, 3.0),
    (simpson, 2.0),
    (table_as_argument, 1.7),
    (part_as_argument, 5.0),
    (marks_in_an_array, 1.2),
    (one_calls_the_other, 7.0),
    (found_in_the_depth, 3.0),
    (ends_by_its_counter, 100.0),
    (in_a_loop_of_its_own, 3.3),
    (several_calls, 2.3),
]


@each_backend
@pytest.mark.parametrize(("f", "x"), STATES, ids=[f.__name__ for f, _ in STATES])
def test_recursion_carries_what_it_changes(f: Callable[[Any], Any], x: float, backend: str) -> None:
    assert_as_python(f, x, backend)
    second = (f(x + 1e-4) - 2 * f(x) + f(x - 1e-4)) / 1e-8
    assert tg.hessian(f, backend=backend)(x) == pytest.approx(second, rel=1e-4, abs=1e-4)


@each_backend
@pytest.mark.parametrize(("f", "x"), STATES, ids=[f.__name__ for f, _ in STATES])
def test_recursion_with_a_state_under_vmap(f: Callable[[Any], Any], x: float, backend: str) -> None:
    xs = np.array([x, x * 0.9])
    expected = [tg.grad(f)(float(each)) for each in xs]
    np.testing.assert_allclose(tg.vmap(tg.grad(f), backend=backend)(xs), expected, rtol=1e-12)


@each_backend
def test_the_store_is_named_where_recursion_then_has_no_end(backend: str) -> None:
    def f(x: Any) -> Any:
        log = []

        def step(y: Any, depth: int) -> Any:
            log.append(y)
            return y if y < 1.0 else step(y / 2, depth + 1)

        return step(x, 0) * len(log)

    message = assert_refused(f, 9.0, {f.__code__.co_firstlineno + 4}, backend)
    assert "the length or order of a list" in message


@each_backend
def test_the_store_into_an_argument_is_named_where_the_calls_get_others(backend: str) -> None:
    def step(counts: Any, y: Any) -> Any:
        counts[0] += 1
        return y if y < 1 else step(list(counts), y / 2) * y

    def f(x: Any) -> Any:
        return step([0], x)

    message = assert_refused(f, 5.0, {step.__code__.co_firstlineno + 1}, backend)
    assert "calls itself with another object in its place" in message
    assert "very same object" in message


@each_backend
def test_arrays_that_swap_places_in_a_recursion_are_refused(backend: str) -> None:
    def f(x: Any) -> Any:
        a, b = np.ones(2), np.ones(2)

        def step(p: Any, q: Any, y: Any) -> Any:
            p[0] = p[0] * y + q[1]
            return y if y < 1 else step(q, p, y / 2)

        return step(a, b, x) + a[0]

    with pytest.raises(CaptureError, match="writes into an array"):
        tg.grad(f, backend=backend)(5.0)


# ---- functions that are differentiated inside


class Model:
    def __init__(self) -> None:
        self.calls, self.last = 0, 0.0

    def loss(self, w: Any) -> Any:
        self.calls += 1
        self.last = np.sum(w)
        return np.sum(w**3)


@each_backend
@pytest.mark.parametrize("kind", ["jacobian", "hessian", "nested"])
def test_methods_store_once_under_nested_transforms(kind: str, backend: str) -> None:
    model, w = Model(), np.array([1.0, 2.0])
    if kind == "jacobian":
        found: Any = tg.jacobian(tg.grad(model.loss), backend=backend)(w)
        expected: Any = np.diag(6 * w)
    elif kind == "hessian":
        found, expected = tg.hessian(model.loss, backend=backend)(w), np.diag(6 * w)
    else:
        found = tg.grad(lambda w: np.sum(tg.grad(model.loss)(w) ** 2), backend=backend)(w)
        expected = 36 * w**3
    np.testing.assert_allclose(found, expected)
    assert (model.calls, model.last) == (1, 3.0)


@each_backend
def test_numbers_stored_by_a_differentiated_function_carry_derivatives(backend: str) -> None:
    def f(x: Any) -> Any:
        log: list[Any] = []

        def inner(y: Any) -> Any:
            log.append(y**2)
            return np.sin(y)

        _, pullback = tg.vjp(inner, x)
        return tg.grad(inner)(x) * len(log) + sum(log) + pullback(1.0)[0] + pullback(2.0)[0]

    value, gradient = tg.value_and_grad(f, backend=backend)(0.7)
    assert value == pytest.approx(5 * np.cos(0.7) + 2 * 0.49)
    assert gradient == pytest.approx(-5 * np.sin(0.7) + 4 * 0.7)


def test_vmap_of_a_method_that_counts_names_the_store() -> None:
    with pytest.raises(CaptureError, match=r"(?s)self.calls \+= 1.*the attribute calls of a Model"):
        tg.vmap(tg.grad(Model().loss))(np.eye(2))


# ---- arrays of the caller as results


@each_backend
@pytest.mark.parametrize("kind", ["checkpoint", "custom_jvp", "outside"])
def test_a_result_that_is_an_array_of_the_caller_is_not_written_for_itself(kind: str, backend: str) -> None:
    def f(x: Any) -> Any:
        u = x * 1.0
        if kind == "custom_jvp":
            g: Any = tg.custom_jvp(lambda v: v)
            g.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
        else:
            g = tg.checkpoint(lambda v: u if kind == "outside" else v)
        y = g(u)
        y[1] = 5.0
        return np.sum(u * u) + np.sum(y)

    with pytest.raises(NeedsPythonValue, match="another name may share"):
        tg.grad(f, backend=backend)(np.array([3.0, 2.0]))
