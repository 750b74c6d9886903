"""Programs that use every statement of Python, with arguments to call them with. Their style is the users' own."""

# ruff: noqa

import contextlib
from typing import Any

import numpy as np

PROGRAMS: list[tuple[Any, list[tuple[Any, ...]]]] = []


def program(*calls: Any) -> Any:
    """Register a function with the arguments of several calls; a single argument needs no tuple."""
    arguments = [call if isinstance(call, tuple) else (call,) for call in calls]

    def register(function: Any) -> Any:
        PROGRAMS.append((function, arguments))
        return function

    return register


@program(0, 5, 10)
def loop_with_else(n):
    s = 0
    for i in range(n):
        if i == 3:
            continue
        if i > 7:
            break
        s += i
    else:
        s = -s
    return s


@program(0, 3, 5, 10)
def return_from_nested_loops(n):
    for i in range(n):
        for j in range(i):
            if i * j == 6:
                return i, j
    return None


@program(*((a, b) for a in range(-2, 5) for b in range(3)))
def partial_returns(a, b):
    if a > 0:
        if b > 1:
            return "one"
        a += 10
    elif a == 0:
        return "zero"
    else:
        b -= 1
        if b:
            return "two", b
    x = a * b
    if x > 10:
        return x
    while x < 100:
        x += 7
        if x % 5 == 0:
            return "five", x
    return a, b, x


@program(*range(12))
def everything_in_one_loop(n):
    log = []
    i = 0
    while True:
        i += 1
        if i > n:
            break
        if i % 2:
            if i % 3 == 0:
                continue
            log.append(i)
            if i == 7:
                return "seven", log
        else:
            for k in range(i):
                if k == 3:
                    break
                if k == 1:
                    continue
                log.append((i, k))
                if i == 10 and k == 2:
                    return log
            else:
                log.append("else")
                continue
            log.append("after")
        log.append("end")
    else:
        log.append("never")
    return log, i


@program(0, 1, 4)
def while_else(n):
    out = []
    while n > 0:
        n -= 1
        out.append(n)
        if n == 2:
            break
    else:
        out.append("else")
    return out


@program((0, 0), (1, 0), (1, 1), (3, 2), (4, 9))
def loop_else_returns(n, k):
    for i in range(n):
        if i == k:
            return "found", i
        if i == 2:
            break
    else:
        return "exhausted"
    n += 1
    return n, i


@program((0, 0), (1, 0), (1, 1), (3, 2), (4, 9))
def loop_else_may_return(n, k):
    for i in range(n):
        if i == k:
            return "found", i
        if i == 2:
            break
    else:
        if k:
            return "exhausted"
        k = 7
    n += 1
    return n, k


@program(0, 1, 2, 3)
def unbound_names(n):
    if n > 1:
        x = 1
    for i in range(n - 1):
        y = i
    if n == 3:
        return x, y, i
    if n == 0:
        return i
    if n == 1:
        return x
    del x
    return x


@program(0, 1, 2)
def deleted_in_loop(n):
    x = 0
    for i in range(n):
        y = x
        del x
        if i == 0:
            x = y + 1
    return x


@program(0, 1, 5)
def never_bound(n):
    if n:
        return 1
    return z
    z = 1


@program(0, 1, 2, 3)
def closures_share_cells(n):
    total = 0

    def bump(by):
        nonlocal total
        total += by
        return total

    def read():
        return total

    seen = []
    for i in range(n):
        if i % 2:
            bump(i)
        else:
            total = total * 2 + 1
        seen.append(read())
    return seen, total, read()


@program(3)
def late_binding(n):
    fs = []
    for i in range(n):
        k = i * 10
        fs.append(lambda: (i, k))
        fs.append(lambda i=i: (i, k))
    gs = [lambda: i for i in range(n)]
    return [f() for f in fs], [g() for g in gs]


@program(0, 1, 7)
def recursion(n):
    if n <= 1:
        return 1
    return n * recursion(n - 1)


@program(0, 6)
def inner_recursion(n):
    def fib(k):
        if k < 2:
            return k
        return fib(k - 1) + fib(k - 2)

    return fib(n)


@program((1,), (1, 2), (1, 2, 3, 4))
def signature(a, b=2, *args, c=[], d=None, **kwargs):
    c.append(a)
    if args:
        b = args[0]
    kwargs["z"] = len(c)
    return a, b, args, d, sorted(kwargs)


def takes_all(*args, **kwargs):
    return args, sorted(kwargs.items())


@program(([1, 2], {"a": 3}))
def star_calls(xs, kw):
    return takes_all(0, *xs, 9, **kw, b=4), takes_all(*xs, *xs), takes_all(self=1, f=2)


@program(([1, 2, 3, 4],), ([1, 2],), ([1],), ((5, 6, 7),), ("abc",))
def unpacking(xs):
    a, *b = xs
    *c, d = xs
    e, *f, g = xs
    (h, i), j = (a, d), g
    [k, (l, *m)] = a, xs
    n = o = p, q = a, e
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q


@program(([1, 2, 3],), ([1],), ([],))
def unpack_errors(xs):
    a, b = xs
    return a + b


@program([1, 2, 3])
def swaps(xs):
    a, b = 1, 2
    a, b = b, a + b
    xs[0], xs[2] = xs[2], xs[0]
    i = 0
    i, xs[i] = 1, 50
    xs[i], i = 60, 2
    for xs[i] in range(3):
        pass
    for i, (x, *y) in enumerate([(1, 2, 3), (4,)]):
        xs.append((i, x, y))
    return a, b, xs, i


@program(*range(6))
def walrus(n):
    out = []
    if (m := n * 2) > 4:
        out.append(m)
    while (n := n - 1) > 0 and (k := n + 1):
        out.append((n, k))
    out.append([y := 1, y**2])
    out.append([last := i for i in range(3)])
    out.append(last)
    ok = m and (r := m + 1)
    if n and (s := 3):
        out.append(s)
    v = (t := 1) if m > 2 else (u := 2)
    chain = 0 < (w := m) < (x := 9)
    out.append([q for i in range(4) if i and (q := i * i)])
    assert m < 100, (message := "too large")
    z = lambda a: (b := a + 1) and (b * 2)
    return out, m, n, ok, v, chain, w, z(3)


@program(*range(4))
def walrus_unbound(n):
    n > 1 and (a := n)
    0 < n < (b := 2)
    if n == 1:
        return b
    if n == 0:
        return b
    return a


@program(([3, -1, 2],), ([],))
def comprehensions(xs):
    pairs = [(x if x > 0 else -x) for x in xs if x != 2 if not x == 7]
    squares = {x: y for x in xs for y in range(x) if x > y or y == 0}
    total = sum(x * 2 for x in xs if x and x > 0)
    nested = [[i * j for j in range(2)] for i in range(3)]
    names = {str(x) for x in xs}
    flag = any(x < 0 for x in xs) and all(x < 5 for x in xs)
    matrix = [row[::-1] for row in nested]
    functions = [lambda y, x=x: x + y for x in xs]
    return pairs, squares, total, nested, sorted(names), flag, matrix, [f(1) for f in functions]


@program(*range(-1, 4))
def logic(n):
    a = n and 1 / n
    b = n > 0 or n / 0
    c = not n
    d = 0 <= n < 3 != 4
    e = 1 if n > 1 else 2 if n > 0 else 3
    f = n in (1, 2) and n is not None
    g = 0 < n in [1, 2] != True
    return a, b, c, d, e, f, g


COUNTER = NEW = 0


@program(0, 3)
def global_names(n):
    global COUNTER, NEW
    COUNTER = 0
    for i in range(n):
        if i:
            COUNTER += i
        NEW = i
    return COUNTER, NEW if n else None


@program(0, 3)
def formatted(n):
    w = 8
    names = [f"{i:>{w}}|{i + 0.5!r}" for i in range(n)]
    return f"{n=} {'yes' if n else 'no'} {names[-1] if names else None:>10}"


@program(0, 1, 2, 3, "a")
def attempts(n):
    log = []
    for i in range(4):
        try:
            if i == n:
                raise KeyError(i)
            if i == 2:
                continue
            log.append(1 / (i - n))
        except ZeroDivisionError:
            break
        except KeyError as e:
            log.append(e.args)
            if n == 1:
                return "one", log
            continue
        else:
            log.append("else")
            if i == 1:
                break
        finally:
            log.append("finally")
        log.append("end")
    return log


@program(0, 1, 2)
def attempt_returns(n):
    try:
        if n == 1:
            return "one"
        x = 1 / n
    except ZeroDivisionError as e:
        return str(e)
    finally:
        n += 1
    return x, n


@program(0, 1, 2)
def handler_names(n):
    e = "before"
    for i in range(n):
        try:
            [][i]
        except IndexError as e:
            last = str(e)
            if i:
                e = 3
        if n == 3:
            return e
    try:
        return e, last
    except NameError:
        return "unbound"


@program(0, 1)
def reraises(n):
    try:
        try:
            {}[n]
        except KeyError:
            if n:
                raise
            raise ValueError(n) from None
        finally:
            n += 5
    except LookupError as error:
        return "lookup", n, error.args
    except ValueError as error:
        return "value", n, error.args


class Context:
    log = []

    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        self.log.append(("enter", self.name))
        return [self.name, 1]

    def __exit__(self, *error):
        self.log.append(("exit", self.name, error[0] is None))
        return self.swallow


@program(0, 1, 2, 3, 4)
def contexts(n):
    Context.log = log = []
    box = {}
    for i in range(3):
        with Context("a"), Context("b") as (x, y), Context(x + "c") as box[i]:
            if i == n:
                return "early", log
            if i == n - 1:
                break
            if n == 3:
                continue
            log.append((x, y))
        log.append("end")
    with Context("s", True) as s:
        log.append(s)
        if n == 1:
            return log
        z = 1 / (n - 2)
    with Context("t"):
        if n == 3:
            return log, z
        return box, log


@program(0, 1, (1, 2), [1, 2, 3], {"k": 5, "r": 6}, "text", None)
def matches(value):
    for _ in range(2):
        match value:
            case 0:
                r = "zero"
            case int(n) if n > 0 and n < 9:
                r = "int", n
                break
            case (a, b):
                return a + b
            case [first, *rest]:
                r = first, rest
                continue
            case {"k": k, **others}:
                r = k, others
            case str() as s:
                r = s
            case _:
                r = None
        value = 0
    return r, value


@program(0, 1, 2)
def match_returns(value):
    match value:
        case 0:
            return "zero"
        case 1:
            value += 1
        case _:
            if value:
                return "many"
            return "none"
    return value


class Base:
    scale = 2

    def __init__(self, x):
        self.x = x
        self.__hidden = x + 1

    def value(self, k=1):
        return self.x * k

    def hidden(self):
        self.__hidden += 1
        self.__hidden = self.__hidden * 1
        return self.__hidden

    @property
    def double(self):
        return self.x * 2

    @classmethod
    def make(cls, x):
        return cls(x) if x else None

    @staticmethod
    def twice(x):
        return 2 * x


class Derived(Base):
    def __init__(self, x):
        super().__init__(x)
        if x:
            super().__init__(x + 1)
        self.items = [super().value(), *(self.value() for _ in range(2))]

    def value(self, k=3):
        if k > 2:
            return super().value(k) + self.double
        return __class__.__name__, super().value(k)


@program(0, 2)
def classes(x):
    b = Base(x)
    d = Derived(x)
    b.x += 3
    b.y = b.z = 4
    b.x, b.y = b.y, b.x
    b.double, Base.make(x), Derived.make(x)
    return (
        b.value(),
        b.value(k=2),
        b.hidden(),
        d.value(),
        d.value(1),
        d.items,
        Base.twice(x),
        sorted(b.__dict__.items()),
    )


@program(1, 3)
def local_class(n):
    class Local(Base):
        size = n if n > 2 else -n
        table = [i for i in range(n)]

        def value(self, k=size):
            r = 0
            for i in range(n):
                if i > k:
                    break
                r += super().value(i)
            return r

        class Inner:
            def go(self):
                return n or 5

    return Local(n).value(), Local.table, Local.Inner().go(), Local.value.__qualname__, Local.Inner.__qualname__


def doubling(f):
    def wrapper(*args):
        return 2 * f(*args)

    return wrapper


@program(1, 2)
def decorated_inside(x):
    @doubling
    @doubling
    def g(y):
        if y > 1:
            return y
        return 10

    return g(x), g.__name__


@program(4)
def generators(n):
    def numbers(m):
        for i in range(m):
            if i % 2:
                yield i

    squares = (x * x for x in numbers(n))
    out = []
    for x in squares:
        out.append(x)
        if x > 0:
            break
    return out, list(squares)


@program(3)
def lambdas(n):
    f, g = lambda x: x + n, lambda x, *y, z=n: x * z if x > 1 else (x, y)
    h = lambda: lambda k: k and n
    return f(1), g(1, 2), g(2), h()(3), (lambda *a, **k: (a, k))(1, b=2)


@program([5, 6, 7, 8])
def subscripts(xs):
    xs[1] += xs[0]
    xs[-1:] = [1, 2]
    xs[::2] = xs[1::2] + [0] * (len(xs[::2]) - len(xs[1::2]))
    d = {}
    d["a", 1] = xs[0]
    d[(1, 2)] = d["a", 1]
    d["n"] = {"m": 1}
    d["n"]["m"] -= 3
    del d["a", 1], xs[:1]
    a = np.arange(12.0).reshape(3, 4)
    a[1, 1:3] *= 2
    a[..., 0] = a[:, -1]
    a[a > 8] **= 2
    b = a[None, 1, ::-1]
    b @= np.eye(4)
    return xs, d, a.tolist(), b.tolist()


@program(0)
def order_of_evaluation(_):
    log = []

    def note(x, value=None):
        log.append(x)
        return x if value is None else value

    d = {}
    note("x", d)[note("k")] = note("v")
    note("x", d)[note("k")] += note("w")
    a = note("x", d)[note("j")] = note("v")
    note(1) < note(2) < note(0) < note(3)
    note(0) or (note(1) and note(2))
    note("f", note)(note("a"), *[note("b")], value=note("c"))
    counts = [0, 0]

    def touch():
        counts[0] = 10
        return 1

    counts[0] += touch()
    i = 0

    def move():
        nonlocal i
        i = 1
        return 5

    counts[i] = move()
    note("t", d)["p"], q = note("u"), note("v")
    return log, d, a, counts, q


@program((1, 2), (2, 2), (3, "a"))
def assertions(a, b):
    assert a > 1
    assert b != "a", f"b is {b}"
    return a


@program(0, 2)
def imports(n):
    import math
    from os import path as p
    from os import sep

    if n:
        import os.path

        q = os.path.basename("a/b")
    else:
        import collections as os

        q = os.__name__
    return math.floor(2.5), p.join("a", "b"), sep, q


@program((0.0,), (2.0,))
def annotated(x: float) -> float:
    """A docstring."""
    y: float = x + 1
    z: int
    if y > 2:
        z = 1
    else:
        z = 2
    w: list[undefined_name] = []
    w.append(z)
    return y, z, w


@program(0, 3)
def nothing_returned(n):
    if n:
        return
    n = 1


@program(2, 9)
def loops_in_branches(n):
    if n > 3:
        for i in range(n):
            if i == 5:
                break
        else:
            return "none"
        j = i
    else:
        while n:
            n -= 1
            if n == 1:
                return "one"
        j = 0
    return j, n


@program(*range(7))
def endless(n):
    while True:
        n += 1
        if n > 3:
            if n % 2:
                return n
            if n > 8:
                raise ValueError(n)


@program([1, 2, 3], [4], [])
def consumes_iterator(xs):
    it = iter(xs)
    for x in it:
        if x == 2:
            break
    return list(it)


@program(0, 1, 2, 3, 4)
def tangled(n):
    out = []
    for a in range(3):
        try:
            for b in range(3):
                try:
                    if a == n:
                        break
                    if b == n - 1:
                        continue
                    if a + b == n + 1:
                        return out, a, b
                    out.append((a, b))
                finally:
                    out.append("f")
            else:
                out.append("e")
                continue
            if n == 2:
                break
        finally:
            out.append("F")
        out.append("n")
    else:
        return out, "else"
    return out


@program(0, 1)
def overruled_return(n):
    for i in range(2):
        try:
            try:
                return "lost"
            finally:
                if n:
                    raise KeyError(i)
        except KeyError:
            n = 0
        n += 1
    return n


@program(0, 3)
def temporaries(n):
    total = 0.0
    previous = 1.0
    for i in range(n):
        t = i * 2.0
        if t > 1:
            u = t + previous
            total += u
        else:
            u = -t
        previous = u
        for j in range(i):
            t = t + j
            v = t
        w = lambda: t + 1
        total += w()
    return total, previous


@program(0, 1, 4)
def definitions_in_branches(n):
    made = []
    for i in range(n):
        if i % 2:

            class Item:
                index = i

                def get(self):
                    if self.index > 2:
                        return "big", i
                    return self.index

        else:

            def Item(i=i):
                class Other:
                    def get(self):
                        return -i if i else "zero"

                return Other()

        made.append(Item().get())
    return made, Item().get() if n else None


@program(0, 1, 3)
def helper_rebinds(n):
    count, best = 0, None

    def visit(k):
        nonlocal count, best
        count += 1
        if best is None or k > best:
            best = k

        def deeper():
            nonlocal count
            count += 10

        if k == 2:
            deeper()

    for i in range(n):
        if i != 1:
            visit(i)
        else:
            [visit(j) for j in range(2)]
    while count < 5 and n:
        visit(count)
    return count, best


@program(*range(5))
def retries(n):
    attempts = 0
    while True:
        try:
            attempts += 1
            if attempts < n:
                raise ValueError("again")
            result = attempts * 10
        except ValueError:
            if attempts > 2:
                return "gave up", attempts
            continue
        break
    return result, attempts


@program(*range(5))
def finally_with_loops(n):
    log = []
    try:
        for i in range(n):
            if i == 2:
                return log
            log.append(i)
    finally:
        for j in range(3):
            if j == 1:
                continue
            if j == n:
                break
            log.append(("f", j))
        else:
            log.append("all")
    log.append("end")
    return log


@program(*range(4))
def suppressed(n):
    import contextlib

    for i in range(3):
        with contextlib.suppress(ZeroDivisionError):
            x = 1 / (i - n)
            if i == 1:
                continue
            if x > 0:
                return "positive", x
        if i == 2:
            break
    else:
        return "never"
    try:
        return x, i
    except UnboundLocalError:
        return "unbound"


@program((1, 2, 3), (0, 0, 0), (3, 2, 1))
def dispatch(a, b, c):
    kind = "x" if a > b else "y" if b > c else "z"
    if kind == "x":
        if c:
            r = 1
        else:
            return "x0"
    elif kind == "y":
        return "y"
    else:
        r = 2
        if a:
            r += 1
        if b:
            return r, "z"
        r += 5
    for k in range(r):
        if k == c:
            r = -k
    return r


@program(5)
def starred_everywhere(n):
    xs = [*range(n), *"ab"]
    t = 0, *xs
    d = {**{"a": 1}, "b": 2}
    (*head, (last, *rest)) = *xs, (1, 2, 3)
    first, *_ = xs[:2], *xs
    print(*xs, sep="-", end="\n", file=type("F", (), {"write": lambda self, s: None})())
    return xs, t, d, head, last, rest, first, _, {*xs, 9} >= {9}


@program((3, [1, 2, 3, 4, 5, 6]))
def numeric_kernels(n, xs):
    a = np.array(xs, dtype=float)
    b = a.reshape(2, -1)
    out = np.zeros_like(b)
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            if (i + j) % 2 == 0:
                continue
            out[i, j] = b[i, j] * 2 if b[i, j] > 2 else -b[i, j]
            out[i] += a[: b.shape[1]] / n
            if out[i, j] > 8:
                break
    out[..., -1] -= np.mean(a)
    out.T[0] *= 2
    k, s = 0, 0.0
    while k < len(a) and (s := s + a[k]) < 9:
        k += 1
    return out.tolist(), k, s, (lambda v, *, w=2: v**w)(a)[-1]


@program("abc", "", [1, 2, 2, 3])
def sets_and_dicts(xs):
    counts = {}
    for x in xs:
        counts[x] = counts.get(x, 0) + 1
        counts[x] += 0
        if counts[x] > 1:
            counts.setdefault("many", []).append(x)
    for key in list(counts):
        if key == "b":
            del counts[key]
    return {k: v for k, v in sorted(counts.items(), key=lambda kv: str(kv[0])) if v}, len(counts) or None


@program(0, 1, 2)
def raises_in_branches(n):
    if n == 0:
        x = "fine"
    elif n == 1:
        raise ValueError("one") from KeyError("cause")
    else:
        raise RuntimeError
    return x


@program(0, 1, 2, 3, 4, 5)
def collatz(n):
    steps, seen = 0, set()
    while n not in (0, 1):
        if n in seen:
            return "cycle"
        seen.add(n)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
        if steps > 100:
            break
    else:
        return steps, sorted(seen)
    return "long"


class Stack:
    def __init__(self, *items):
        self.items = list(items)
        self.limit: int = 3
        self.last = self.size = None

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]

    def __call__(self, *values, strict=False):
        for self.last in values:
            if len(self) >= self.limit:
                if strict:
                    raise OverflowError(self.last)
                break
            self.items += [self.last]
        else:
            return self
        self.size = len(self.items)
        return None

    def __bool__(self):
        return not self.items or self[0] is not None


@program((), (1,), (1, 2, 3, 4), (None,))
def objects(*values):
    s = Stack()
    r = s(*values)
    if s and not r:
        s.limit += 2
        s.items[0:1] = []
    try:
        s(7, 8, 9, 10, strict=True)
    except OverflowError as e:
        r = e.args
    else:
        r = "fits"
    return s.items, s.last, s.size, s.limit, len(s), r is None, s[-1] if len(s) else None


@program(*range(4))
def overruled_in_with(n):
    from contextlib import suppress

    log = []
    for i in range(3):
        with suppress(ValueError):
            try:
                if i == n:
                    return "lost"
                if i == 1:
                    break
            finally:
                if i != 2:
                    raise ValueError(i)
        log.append(i)
    return log


@program(0, 1, 5)
def endless_then_more(n):
    while True:
        n += 1
        if n > 3:
            break
    n *= 10
    while 1:
        if n > 50:
            return "large"
        if n:
            break
    return n


@program(5)
def suspended(n):
    def walk(m):
        total = 0
        for i in range(m):
            if i == 1:
                continue
            while total < i:
                got = yield total, i
                total += 2 if got is None else got
                if total > 7:
                    return "done"
            else:
                total += 1
        yield from (total, -total)
        return total

    def around(m):
        result = yield from walk(m)
        yield result

    def never():
        return
        yield

    steps, sent = around(n), []
    sent.append(next(steps))
    sent.append(steps.send(1))
    return sent + list(steps), list(around(2)), list(never()), list(walk(30))


@program([3, 1, 2])
def suspended_in_try(xs):
    log = []

    def numbers(m):
        try:
            for x in m:
                with contextlib.suppress(ValueError):
                    yield (x if x > 1 else -x) + (yield x)
                if x == 1:
                    raise KeyError(x)
        except KeyError as error:
            yield str(error)
        finally:
            log.append("end")

    found = []
    steps = numbers(xs)
    value = next(steps)
    while value is not None:
        found.append(value)
        try:
            value = steps.send(10)
        except StopIteration:
            value = None
    return found, log, *(x for x in numbers(xs[:1]) if x), *(yield_ for yield_ in [1])
