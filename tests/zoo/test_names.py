"""Names in generated gradients of the zoo: what has one name in both halves of the text is one value."""

from __future__ import annotations

import ast
import inspect
import re
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import tracegrad as tg
from tests.zoo.numerics import float_leaves
from tests.zoo.registry import Program
from tests.zoo.selfcheck import load_all

HEADING = "# cotangents, from the result back to the arguments"


def is_scalar(program: Program) -> bool:
    outputs = program.function(*program.inputs())
    leaves = float_leaves(outputs)
    return len(leaves) == 1 and leaves[0].ndim == 0 and not isinstance(outputs, dict | list | tuple)


PROGRAMS = [p for p in load_all() if is_scalar(p)]
each_program = pytest.mark.parametrize("program", [pytest.param(p, id=p.name) for p in PROGRAMS])


def source_of(program: Program, backend: str) -> str:
    return tg.value_and_grad(program.function, argnums=program.wrt).source(*program.inputs(), backend=backend)


class Watched(ast.NodeTransformer):
    """Adds, after each statement that binds or changes variables, a call that notes their values."""

    def __init__(self, heading: int) -> None:
        self.heading = heading

    def noted(self, node: Any) -> list[Any]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)} - {"np"}
        places = {n.id for t in targets for s in ast.walk(t) if isinstance(s, ast.Subscript) for n in ast.walk(s.slice)
                  if isinstance(n, ast.Name)}  # fmt: skip
        half = int(node.lineno > self.heading)
        calls = [ast.parse(f"note({half}, {name!r}, {name})").body[0] for name in sorted(names - places)]
        return [node, *calls]

    visit_Assign = visit_AugAssign = noted


def values_of(text: str, name: str, arguments: tuple[Any, ...]) -> list[dict[str, list[Any]]]:
    """Run a generated gradient; return the values that each variable had, in each half."""
    heading = text[: text.index(HEADING)].count("\n")
    tree = ast.fix_missing_locations(Watched(heading).visit(ast.parse(text)))
    halves: list[dict[str, list[Any]]] = [defaultdict(list), defaultdict(list)]

    def note(half: int, variable: str, value: Any) -> None:
        if not isinstance(value, list):
            halves[half][variable].append(np.array(value, copy=True))

    variables: dict[str, Any] = {"note": note}
    exec(compile(tree, "<generated>", "exec"), variables)
    function = variables[name]
    for parameter, argument in zip(inspect.signature(function).parameters, arguments, strict=True):
        if isinstance(argument, np.ndarray | float):
            note(0, parameter, argument)
    with np.errstate(all="ignore"):
        function(*arguments)
    return halves


def is_among(value: np.ndarray, others: list[np.ndarray]) -> bool:
    same = (o for o in others if o.shape == value.shape)
    return any(np.allclose(value, o, rtol=1e-9, atol=1e-12, equal_nan=True) for o in same)


@each_program
def test_a_name_of_the_first_half_means_the_same_in_the_second(program: Program) -> None:
    text = source_of(program, "numpy")
    definition = text.count("\ndef ")
    bound = inspect.signature(program.function).bind(*program.inputs())
    bound.apply_defaults()
    arguments = tuple(bound.arguments.values())
    if HEADING not in text or "# after the arguments:" in text or "args_" in text or definition > 1:
        return  # no sweep, other arguments, or more than one function: their variables are not one another's
    halves = values_of(text, f"{program.function.__name__}_value_and_grad", arguments)
    assert not [name for name in halves[0] if re.match("(t_)?ct_", name)]
    for name, values in halves[1].items():
        if name in halves[0] and not re.match("(t_)?ct_", name):
            wrong = [v for v in values if not is_among(v, halves[0][name])]
            assert not wrong, f"{name} is {wrong[0]} in the second half\n{text}"


@each_program
def test_what_is_popped_has_the_name_of_what_was_pushed(program: Program) -> None:
    text = source_of(program, "numpy")
    popped = dict(re.findall(r"^ *(\w+) = (\w+)\.pop\(\)$", text, re.MULTILINE))
    pushed = re.findall(r"^ *(\w+)\.append\((\w+)\)$", text, re.MULTILINE)
    of = {stack: name for name, stack in popped.items()}
    for stack, name in of.items():
        assert stack == f"{name}_stack", text
    for stack, name in pushed:
        if stack in of:
            assert of[stack] in (name, f"{name}_before"), text


@each_program
def test_what_is_popped_in_c_has_the_name_of_what_was_pushed(program: Program) -> None:
    text = source_of(program, "c")
    popped = re.findall(r"(\w+) = (\w+_stack\d*)\[--\w+\];", text)
    pushed = re.findall(r"(\w+_stack\d*)\[\w+(?:\+\+)?\] = (\w+);", text)
    of = {stack: name for name, stack in popped}
    for stack, name in of.items():
        assert stack == f"{re.sub('_again$', '', name)}_stack", text
    for stack, name in pushed:
        if stack in of:
            assert of[stack] in (f"{name}_again", f"{name}_before"), text


def test_cotangents_belong_to_the_variable_of_their_name() -> None:
    """Three objects that pass their fields on to one another, and two arrays of one name."""

    class Ball:
        def __init__(self, x: Any) -> None:
            self.x = x

    def three(x: Any) -> Any:
        balls = [Ball(x[i]) for i in range(3)]
        for _ in range(4):
            old = [b.x for b in balls]
            for ball, o in zip(balls, old, strict=True):
                ball.x = ball.x + 0.1 * np.sin(ball.x * old[0]) + o * 0.0
        return balls[0].x + 2 * balls[1].x + 3 * balls[2].x

    text = tg.grad(three).source(np.ones(3))
    first, second = text.split(HEADING)
    names = re.findall(r"^ +(x_?\d?)_stack\.append\(\1\)$", first, re.MULTILINE)
    assert len(names) == 3
    for weight, name in zip((1.0, 2.0, 3.0), names, strict=True):
        assert f"    ct_{name} = np.float64({weight})\n" in second
        assert f"        {name} = {name}_stack.pop()\n" in second


def test_a_cotangent_of_a_value_without_a_variable_has_no_name_of_another() -> None:
    """`product_1` is kept, so `ct_product_1` is its cotangent and not that of the product beside it."""

    def loss(gain: Any, P: Any, noise: Any) -> Any:
        for _ in range(3):
            A = np.eye(2) - np.outer(gain, gain)
            P = A @ P @ A.T + np.outer(gain, gain) * noise
        return np.sum(P)

    text = tg.grad(loss, argnums=(0, 1, 2)).source(np.ones(2), np.eye(2), 0.5)
    first, second = text.split(HEADING)
    of_cotangents = set(re.findall(r"\bct_(\w+) = ", second))
    made = re.findall(r"^ *(\w+) = (\w+) @ P$", first, re.MULTILINE)
    assert len(made) == 1, text
    name, factor = made[0]
    assert name in of_cotangents
    assert re.findall(rf"^ *ct_{name} = .*", second, re.MULTILINE) == [f"        ct_{name} = ct_P @ {factor}"], text


def test_what_a_branch_keeps_is_called_after_what_it_is() -> None:
    def loss(x: Any, y: Any) -> Any:
        total = 0.0
        for t in range(len(y)):
            if np.isnan(y[t]):
                continue
            total += np.sqrt(x * x + y[t]) * np.exp(x - y[t])
        return total

    text = tg.grad(loss).source(1.5, np.array([1.0, np.nan, 2.0]))
    assert "chosen" not in text
    for name in ("sqrt", "exp"):
        assert re.search(rf"^ *{name} = 0\.0$", text, re.MULTILINE), text
        assert f"{name}_stack.append({name})" in text and f"{name} = {name}_stack.pop()" in text
