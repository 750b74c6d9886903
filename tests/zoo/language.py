"""Python itself: recursion, closures, early returns, odd loops, unpacking, defaults, comprehensions."""

import functools
import math

import numpy as np

from tests.zoo.registry import program

GRAVITY = 9.81
TABLE = np.array([0.5, 1.5, -1.0, 2.0])


@program(lambda rng: (1.3,))
def power_by_squaring(x, n=13):
    if n == 0:
        return 1.0
    half = power_by_squaring(x, n // 2)
    return half * half * x if n % 2 else half * half


@program(lambda rng: (rng.normal(size=7),))
def recursive_sum_of_squares(x):
    if len(x) == 1:
        return x[0] ** 2
    mid = len(x) // 2
    return recursive_sum_of_squares(x[:mid]) + recursive_sum_of_squares(x[mid:])


@program(lambda rng: (0.4,))
def activation_with_returns(x):
    if x < -1:
        return 0.1 * x
    if x < 0:
        return math.exp(x) - 1
    elif x < 0.5:
        return x + 0.5 * x**2
    return 2 * x - 0.3


@program(lambda rng: (rng.normal(size=10), 1.5), wrt=(0, 1))
def sum_until_budget(x, budget):
    total = 0.0
    for v in x:
        if v < -0.8:
            continue
        if total + v * v > budget:
            total = total + 0.1 * budget
            break
        total += v * v
    return total


@program(lambda rng: (rng.normal(size=8),))
def first_match_with_else(x):
    for i in range(len(x)):
        if x[i] > 0.5:
            found = x[i] * 3
            break
    else:
        found = x.mean()
    return found**2


@program(lambda rng: (2.7, 0.3), wrt=(0, 1))
def nested_while(x, y):
    outer = 0
    while x > 0.5:
        inner = 0
        while y < x:
            y = y * 1.5 + 0.05
            inner += 1
            if inner > 4:
                break
        x = x * 0.6 - 0.01 * y
        outer += 1
    return x + y * outer


@program(lambda rng: ([1.0, 2.5, -0.5], [0.3, 0.2, 0.9]), wrt=(0, 1))
def zip_of_lists(a, b):
    return sum(x * math.sin(y) for x, y in zip(a, b))


@program(lambda rng: (rng.normal(size=5),))
def enumerate_and_reverse(x):
    total = 0.0
    for i, v in enumerate(x):
        total += (i + 1) * v
    for i, v in enumerate(reversed(x), 2):
        total *= 1 + 0.1 * v / i
    return total


@program(lambda rng: (0.7, 1.2, 0.4), wrt=(0, 1, 2))
def star_arguments(*args):
    def combine(first, *rest, scale=1.0, **options):
        out = first * scale
        for r in rest:
            out = out + r ** options.get("power", 1)
        return out

    return combine(*args, scale=2.0, power=3) * combine(args[1], args[2])


@program(lambda rng: ((0.5, (1.5, np.array([0.2, 0.4]))),))
def nested_unpacking(tree):
    a, (b, (c, d)) = tree
    (a, b), *rest = (b, a), c, d
    return a * b + rest[0] ** 2 - rest[1] * a


@program(lambda rng: (0.6, 1.4), wrt=(0, 1))
def chained_comparisons(x, y):
    value = x * y
    if 0 < x < y < 2:
        value += x**2
    if not (x > 1 or y < 1) and value > 0:
        value *= 1.5
    return value if 0.1 <= value else -value


@program(lambda rng: (0.9, 0.2), wrt=(0, 1))
def python_operators(x, y):
    q = (7.3 * x) // 2.0
    r = (7.3 * x) % 2.0
    a, b = divmod(5.1 * y, 0.7)
    return q * y + r**2 + a * x + b + abs(-x) + pow(y, 3) + max(x, y) * min(x, y) + float(x)


@program(lambda rng: (12.0, 0.7), wrt=(0, 1))
def uses_globals(speed, angle):
    return speed**2 * math.sin(2 * angle) / GRAVITY + TABLE @ np.array([speed, angle, speed * angle, 1.0])


@program(lambda rng: (rng.normal(size=4),))
def comprehension_to_array(x):
    squares = [v**2 for v in x]
    table = {f"k{i}": math.cos(v) for i, v in enumerate(x)}
    return np.array(squares).sum() * table["k0"] + sum(table.values())


@program(lambda rng: (0.3,))
def reduce_and_partial(x):
    layers = [functools.partial(np.multiply, 1.5), np.sin, lambda v: v + 0.5]
    return functools.reduce(lambda value, layer: layer(value), layers, x)


@program(lambda rng: (rng.normal(size=3),))
def counter_with_nonlocal(x):
    total = 0.0

    def add(value):
        nonlocal total
        total = total + value * (1 + total)

    for v in x:
        add(v)
    add(x[0])
    return total


@program(lambda rng: (0.8, "quartic"), wrt=0)
def dispatch_on_string(x, kind):
    match kind:
        case "linear":
            return 2 * x
        case "quartic":
            y = x**2
            return y**2 + x
        case _:
            raise ValueError(kind)


@program(lambda rng: (rng.normal(size=6),))
def growing_lists(x):
    positive, rest = [], []
    for i in range(6):
        if i % 2:
            positive.append(np.exp(x[i]))
        else:
            rest.append(x[i] ** 2)
    return np.stack(positive) @ np.array(rest)


@program(lambda rng: (0.35,))
def assertion_and_try(x):
    assert x > 0, "positive"
    options = {"shift": 2.0}
    try:
        scale = options["scale"]
    except KeyError:
        scale = options["shift"] / x
    return scale + math.log(x)


@program(lambda rng: (2.0, None), wrt=0)
def optional_argument(x, offset=None):
    if offset is None:
        offset = x / 2
    return x * offset + (offset or 1.0)


@program(lambda rng: (rng.normal(size=5), rng.normal(size=5)), wrt=(0, 1))
def swap_and_sort_by_bubbles(keys, payload):
    keys, payload = keys.copy(), payload.copy()
    n = len(keys)
    for i in range(n):
        for j in range(n - 1 - i):
            if keys[j] > keys[j + 1]:
                keys[j], keys[j + 1] = keys[j + 1], keys[j]
                payload[j], payload[j + 1] = payload[j + 1], payload[j]
    return np.sum(np.arange(n) * keys) + payload[0] * payload[-1]


@program(lambda rng: (0.5, 3), wrt=0)
def while_with_flag(x, limit):
    done, count = False, 0
    while not done:
        x = x + 0.5 * np.cos(x)
        count += 1
        if count >= limit or x > 5:
            done = True
    return x


@program(lambda rng: (1.1,))
def continued_while(x):
    i, total = 0, 0.0
    while i < 10:
        i += 1
        if i % 3 == 0:
            continue
        total += x / i
        if total > 3.0:
            return total * 2
    return total


@program(lambda rng: ({"a": 1.0, "b": {"c": 2.0, "d": 0.5}},))
def dict_in_dict_out(params):
    out = {}
    for key, value in params.items():
        if isinstance(value, dict):
            out[key] = {k: v**2 for k, v in value.items()}
        else:
            out[key] = math.exp(value)
    out["all"] = out["a"] * out["b"]["c"]
    return out


class Account:
    def __init__(self, balance):
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        self.balance = self.balance + amount
        self.history.append(self.balance)

    def accrue(self, rate):
        self.balance *= 1 + rate


@program(lambda rng: (100.0, 0.05), wrt=(0, 1))
def object_with_state(start, rate):
    account = Account(start)
    for year in range(4):
        account.accrue(rate)
        account.deposit(10.0 + year)
    return account.balance + 0.01 * account.history[0]


class Vector2:
    def __init__(self, x, y):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector2(self.x + other.x, self.y + other.y)

    def __mul__(self, k):
        return Vector2(self.x * k, self.y * k)

    @property
    def length(self):
        return math.hypot(self.x, self.y)


@program(lambda rng: (0.6, -1.1), wrt=(0, 1))
def operator_overloading(x, y):
    p = Vector2(x, y) + Vector2(1.0, 0.5) * x
    return (p * 2.0).length
