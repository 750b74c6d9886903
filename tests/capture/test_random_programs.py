"""Random programs, full of jumps, must do after conversion what they do before."""

from __future__ import annotations

import itertools
import linecache
import types
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.capture.hooks import check

NUMBERS = itertools.count()
NAMES = st.sampled_from("abccxyyz")  # a, b and c are parameters, x, y and z may be unbound


def define(text: str) -> types.FunctionType:
    """Return the function `program` that `text` defines, in a file of its own."""
    file = f"<random program {next(NUMBERS)}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope)
    return scope["program"]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 2) -> str:
    if depth == 0:
        return draw(NAMES | st.integers(-2, 3).map(str))
    part = expressions(depth - 1)
    kind = draw(st.integers(0, 13))
    if kind < 5:
        return draw(expressions(0))
    if kind < 7:
        return f"({draw(part)} {draw(st.sampled_from(['+', '-', '*', '<', '==', 'and', 'or']))} {draw(part)})"
    return (
        f"(not {draw(part)})",
        f"({draw(part)} if {draw(part)} else {draw(part)})",
        f"({draw(part)} < {draw(part)} <= {draw(part)})",
        f"({draw(NAMES)} := {draw(part)})",
        f"sum([{draw(part)} for k in range(2) if {draw(part)}])",
        f"call(lambda: {draw(part)})",
        f"log[{draw(part)}]",
    )[kind - 7]


@st.composite
def blocks(draw: st.DrawFn, depth: int, loop: bool, final: bool = False) -> list[str]:
    lines: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        lines += draw(statements(depth, loop, final))
    return lines


@st.composite
def statements(draw: st.DrawFn, depth: int, loop: bool, final: bool) -> list[str]:
    value = draw(expressions())
    simple = [
        f"log.append({value})",
        f"{draw(NAMES)} = {value}",
        f"{draw(NAMES)} += {value}",
        f"log.append({value})",
        f"{draw(NAMES)}, {draw(NAMES)} = {value}, {draw(NAMES)}",
        f"del {draw(NAMES)}",
        f"assert {value}, {draw(NAMES)}",
        f"raise ValueError({value})",
    ]
    if not final:
        simple += [f"return {value}"] * 2 + ["break", "continue"] * (2 if loop else 0)
    if depth == 0 or draw(st.booleans()):
        return [draw(st.sampled_from(simple[:4]) | st.sampled_from(simple))]

    def body(loop: bool = loop, final: bool = final) -> list[str]:
        return ["    " + line for line in draw(blocks(depth - 1, loop, final))]

    kind = draw(st.integers(0, 9))
    if kind < 4:
        return [f"if {value}:", *body(), *(["else:", *body()] if draw(st.booleans()) else [])]
    if kind < 6:
        orelse = ["else:", *body()] if draw(st.booleans()) else []
        return [f"for {draw(NAMES)} in range({draw(st.integers(0, 3))}):", *body(True, False), *orelse]
    if kind == 6:
        fuel = f"fuel{next(NUMBERS)}"
        test = draw(st.sampled_from([f"{fuel} > 0", f"{fuel} > 0 and {value}"]))
        orelse = ["else:", *body()] if draw(st.booleans()) else []
        return [f"{fuel} = 4", f"while {test}:", f"    {fuel} -= 1", *body(True, False), *orelse]
    if kind == 7:
        name = f"f{next(NUMBERS)}"
        shared = draw(NAMES.filter(lambda name: name not in "abc"))
        inner = ["    " + line for line in draw(blocks(depth - 1, False))]
        nonlocal_ = [f"    nonlocal {shared}"]
        return [f"def {name}(b):", *nonlocal_, *inner, f"log.append({name}({value}))"]
    if kind == 8:
        name = draw(NAMES)
        handler = draw(st.sampled_from(["except NameError:", f"except (ValueError, NameError) as {name}:"]))
        note = [f"    log.append(str({name})[:5])"] if " as " in handler else []
        orelse = ["else:", *body()] if draw(st.booleans()) else []
        finalbody = ["finally:", *body(False, True)] if draw(st.booleans()) else []
        return ["try:", *body(), handler, *note, *body(), *orelse, *finalbody]
    return [
        f"match {value}:",
        *("    " + line for line in ("case 0:", *body())),
        *("    " + line for line in (f"case int({draw(NAMES)}) if {draw(NAMES)}:", *body())),
        *("    " + line for line in ("case _:", *body())),
    ]


@st.composite
def programs(draw: st.DrawFn) -> str:
    lines = draw(blocks(3, False))
    declared = [f"    if {draw(st.sampled_from(['not log', 'not log', 'not log', 'a']))}: x = y = z = 0"]
    return "\n".join(
        [
            "def call(f): return f()",
            "def program(a, b, c, out):",
            "    log = []",
            *declared,
            "    try:",
            *("        " + line for line in lines),
            "    finally:",
            "        out.append(log)",
            "    return log",
        ]
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(text: str) -> None:
    function = define(text)
    check(function, (0, 1, 2, []), (2, -1, 1, []), (3, 3, 0, []))
