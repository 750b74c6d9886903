"""C expressions as text: precedence, templates, literals, and index arithmetic.

Reads templates of op records and dimensions, writes C expressions with no parentheses that are not needed (apart from
those that compilers or readers ask for, such as around shifts). Previous: numpy_source.py; next: c_elements.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tracegrad.ir.types import DTYPES, Atom, Dim, is_complex

#: dtype -> C type of an element in memory
CTYPES: dict[np.dtype[Any], str] = {
    DTYPES["bool"]: "uint8_t",
    DTYPES["i8"]: "int8_t",
    DTYPES["i16"]: "int16_t",
    DTYPES["i32"]: "int32_t",
    DTYPES["i64"]: "int64_t",
    DTYPES["u8"]: "uint8_t",
    DTYPES["u16"]: "uint16_t",
    DTYPES["u32"]: "uint32_t",
    DTYPES["u64"]: "uint64_t",
    DTYPES["f32"]: "float",
    DTYPES["f64"]: "double",
    DTYPES["c64"]: "float complex",
    DTYPES["c128"]: "double complex",
}

# Binding strength, weakest first.
COMMA, CONDITIONAL, OR, AND, BIT_OR, BIT_XOR, BIT_AND = 1, 3, 4, 5, 6, 7, 8
EQUALITY, RELATION, SHIFT, SUM, PRODUCT, UNARY, PRIMARY = 9, 10, 11, 12, 13, 14, 16
_BINARY = {
    "||": OR, "&&": AND, "|": BIT_OR, "^": BIT_XOR, "&": BIT_AND, "==": EQUALITY, "!=": EQUALITY, "<": RELATION,
    ">": RELATION, "<=": RELATION, ">=": RELATION, "<<": SHIFT, ">>": SHIFT, "+": SUM, "-": SUM, "*": PRODUCT,
    "/": PRODUCT, "%": PRODUCT, "?": CONDITIONAL, ":": CONDITIONAL, ",": COMMA,
}  # fmt: skip
_TYPE_WORD = r"(?:const|unsigned|signed|char|short|int|long|float|double|complex|bool|size_t|u?int\d+_t)"
_TOKEN = re.compile(
    rf"\s*(?:(?P<cast>\(\s*{_TYPE_WORD}(?:\s+{_TYPE_WORD})*[\s*]*\)(?=\s*[\w({{\-+!~.]))"
    r"|(?P<operand>\{\w+\}|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\w*|[A-Za-z_]\w*(?:\{f\})?|\"[^\"]*\")"
    r"|(?P<operator>->|<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|[-+*/%<>&|^!~?:,.])"
    r"|(?P<open>[(\[])|(?P<close>[)\]]))"
)


@dataclass(frozen=True, slots=True)
class _Slot:
    name: str
    start: int
    end: int
    strength: int  # weakest operand that needs no parentheses
    after_operator: bool


@lru_cache(maxsize=4096)
def _scan(text: str) -> tuple[int, tuple[_Slot, ...]]:
    """Return the strength of the outermost operator of an expression, and its slots `{name}`."""
    tokens: list[tuple[str, str, int, int]] = []  # kind, text, start, end
    position, before = 0, "start"
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        assert match is not None and match.lastgroup is not None, f"not a C expression: {text!r} at {position}"
        kind, position = match.lastgroup, match.end()
        token = match.group(kind)
        if kind == "operator" and token not in (".", "->"):
            is_prefix = before in ("start", "operator", "open", "prefix", "cast") and token not in ("?", ":", ",")
            kind = "prefix" if is_prefix else "operator"
        elif kind == "operator":
            kind = "member"
        tokens.append((kind, token, match.start(kind) if match.lastgroup == kind else position - len(token), position))
        before = kind
    depth, strength = 0, PRIMARY
    slots: list[_Slot] = []
    for number, (kind, token, start, end) in enumerate(tokens):
        if kind == "open":
            depth += 1
        elif kind == "close":
            depth -= 1
        elif depth == 0 and kind == "operator":
            strength = min(strength, _BINARY[token])
        elif depth == 0 and kind in ("prefix", "cast"):
            strength = min(strength, UNARY)
        elif kind == "operand" and token.startswith("{"):
            left = tokens[number - 1] if number else ("open", "(", 0, 0)
            right = tokens[number + 1] if number + 1 < len(tokens) else ("close", ")", 0, 0)
            need = max(_need_right_of(left[0], left[1]), _need_left_of(right[0], right[1]))
            slots.append(_Slot(token[1:-1], start, end, need, left[1] in ("-", "+", "*", "/", "%")))
    return strength, tuple(slots)


def _tight(strength: int) -> int:
    """Return the operand strength that readers and -Wparentheses want around an operator."""
    if strength in (BIT_OR, BIT_XOR, BIT_AND, SHIFT):
        return UNARY
    if strength in (EQUALITY, RELATION):
        return SUM
    if strength in (OR, AND):
        return EQUALITY
    return strength


def _need_right_of(kind: str, token: str) -> int:
    if kind in ("prefix", "cast"):
        return UNARY
    if kind != "operator":
        return 0
    strength = _BINARY[token]
    if strength == CONDITIONAL:
        return OR
    return max(_tight(strength), strength + 1)


def _need_left_of(kind: str, token: str) -> int:
    if kind in ("member", "open"):
        return PRIMARY
    if kind != "operator":
        return 0
    strength = _BINARY[token]
    if strength == CONDITIONAL:
        return OR
    return max(_tight(strength), strength)


def strength(text: str) -> int:
    """Return how tightly the outermost operator of a C expression binds; PRIMARY for a name, a call or a subscript.

    >>> strength("a*b") == PRODUCT, strength("-x") == UNARY, strength("f(a + b)") == PRIMARY
    (True, True, True)
    """
    return _scan(text)[0]


def wrap(text: str, least: int) -> str:
    """Return the expression, in parentheses when it binds weaker than `least`."""
    return text if strength(text) >= least else f"({text})"


@lru_cache(maxsize=4096)
def normalize_template(template: str, suffix: str) -> str:
    """Return a template with `{f}` filled in and without parentheses around the whole."""
    text = template.replace("{f}", suffix).strip()
    while text.startswith("(") and _closing(text) == len(text) - 1:
        text = text[1:-1].strip()
    return text


def _closing(text: str) -> int:
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return position
    return -1


def slot_counts(template: str) -> dict[str, int]:
    """Return how often each slot of a template occurs."""
    counts: dict[str, int] = {}
    for slot in _scan(template)[1]:
        counts[slot.name] = counts.get(slot.name, 0) + 1
    return counts


def fill(template: str, operands: Mapping[str, str]) -> str:
    """Return a template with its slots filled, with parentheses only where they are needed.

    >>> fill("{x}*{y}", {"x": "a + b", "y": "-c"})
    '(a + b)*(-c)'
    """
    text, position = "", 0
    for slot in _scan(template)[1]:
        operand = operands[slot.name]
        inner = strength(operand)
        bare = inner >= slot.strength
        if operand.startswith(("-", "+")) and slot.after_operator:
            bare = False
        text += template[position : slot.start] + (operand if bare else f"({operand})")
        position = slot.end
    return text + template[position:]


def sum_of(x: str, y: str, *, minus: bool = False) -> str:
    """Return `x + y`, or `x - y`, with the sign of an operand merged into the operator (which is exact).

    >>> sum_of("a", "-b"), sum_of("-a*b", "c"), sum_of("a", "-b", minus=True)
    ('a - b', 'c - a*b', 'a + b')
    """
    positive = _without_sign(y)
    if positive is not None:
        return fill("{x} + {y}" if minus else "{x} - {y}", {"x": x, "y": positive})
    first = _without_sign(x)
    if first is not None and not minus:
        return fill("{x} - {y}", {"x": y, "y": first})
    return fill("{x} - {y}" if minus else "{x} + {y}", {"x": x, "y": y})


def negation(text: str) -> str:
    """Return the C expression for `not`, without a comparison with 0 where there is one."""
    positive = text.removesuffix(" != 0")
    return fill("!{x}", {"x": positive if strength(positive) >= UNARY else text})


def _without_sign(text: str) -> str | None:
    """Return the negated expression for one that begins with a minus sign that goes for the whole, else None."""
    if not text.startswith("-") or strength(text) < PRODUCT:
        return None
    return normalize_template(text[1:], "")


def literal(value: Any, dtype: np.dtype[Any]) -> str:
    """Return a C literal for one number of a dtype.

    >>> literal(0.1, np.dtype("f4")), literal(2, np.dtype("f8")), literal(True, np.dtype("?"))
    ('0.1f', '2.0', '1')
    >>> literal(2 - 1j, np.dtype("c16"))
    'tg_complex(2.0, -1.0)'
    """
    if dtype.kind == "b":
        return "1" if value else "0"
    if dtype.kind == "u":
        return f"{int(value)}u" if int(value) < 2**32 else f"UINT64_C({int(value)})"
    if dtype.kind == "i":
        number = int(value)
        if number == -(2**63):
            return "INT64_MIN"
        if number == -(2**31):
            return "INT32_MIN"
        return str(number) if abs(number) < 2**31 else f"{'-' if number < 0 else ''}INT64_C({abs(number)})"
    scalar = dtype.type(value)
    if is_complex(dtype):
        parts = ", ".join(literal(part, part.dtype) for part in (scalar.real, scalar.imag))
        return f"tg_complex{'f' if dtype == DTYPES['c64'] else ''}({parts})"
    if np.isnan(scalar):
        return "NAN"
    if np.isinf(scalar):
        return "INFINITY" if scalar > 0 else "-INFINITY"
    text = repr(float(scalar)) if dtype == DTYPES["f64"] else np.format_float_scientific(scalar, unique=True, trim="0")
    if dtype != DTYPES["f64"]:
        plain = repr(float(np.format_float_positional(scalar, unique=True, trim="0")))
        text = plain if np.float32(plain) == scalar else text
        return text + "f"
    return text


def zero(dtype: np.dtype[Any]) -> str:
    """Return the literal 0 of a dtype."""
    return literal(0, dtype)


_LOOP_LETTERS = frozenset("ijklpqrs")


def index_text(dim: Dim) -> str:
    """Return a C expression (int64_t) for an index or a dimension; atoms may be any C expressions.

    >>> from tracegrad.ir.types import symbol
    >>> index_text(symbol("i") * 3 + symbol("j") - 1)
    '3*i + j - 1'
    """
    if isinstance(dim, int):
        return literal(dim, DTYPES["i64"])

    if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        return atom_text(dim.terms[0][0][0])

    def order(term: tuple[tuple[Atom, ...], int]) -> tuple[Any, ...]:
        monomial, coefficient = term
        return (not monomial, coefficient < 0, -len(monomial), -abs(coefficient), [atom_text(a) for a in monomial])

    text = ""
    for monomial, coefficient in sorted(dim.terms, key=order):
        least = PRODUCT if len(monomial) == 1 and abs(coefficient) == 1 else UNARY
        factors = [wrap(a, least) for a in sorted(map(atom_text, monomial), key=lambda a: a in _LOOP_LETTERS)]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, literal(abs(coefficient), DTYPES["i64"]))
        product = "*".join(factors)
        if not text:
            text = f"-{product}" if coefficient < 0 else product
        else:
            text += f" {'-' if coefficient < 0 else '+'} {product}"
    return text


def atom_text(atom: Atom) -> str:
    """Return an atom of a dimension as C text; a floor division of what may be negative calls the prelude."""
    if isinstance(atom, str):
        return atom
    _, above, below = atom
    if _is_nonnegative(above) and _is_nonnegative(below):
        return f"{wrap(index_text(above), PRODUCT)}/{wrap(index_text(below), UNARY)}"
    return f"tg_floor_divide_i64({index_text(above)}, {index_text(below)})"


def _is_nonnegative(dim: Dim) -> bool:
    return dim >= 0 if isinstance(dim, int) else all(c >= 0 for _, c in dim.terms)


#: names that a C identifier for a user's value must not take
RESERVED = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long register
    restrict return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false
    int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t ptrdiff_t intptr_t uintptr_t
    INT32_MIN INT64_MIN INT64_MAX
    asm typeof main errno NULL NAN INFINITY HUGE_VAL
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim floor fma fmax
    fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint
    nextafter
    nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc isnan isinf isfinite
    complex imaginary cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog conj cpow cproj creal
    csin csinh csqrt ctan ctanh
    j0 j1 jn y0 y1 yn gamma signgam signbit significand drem finite pow10 exp10 abs labs llabs div rand exit abort free
    malloc calloc realloc memcpy memset memmove index workspace pointers sizes error""".split()
)
_NOT_WORD = re.compile(r"\W+")


def identifier(hint: str) -> str:
    """Return a C identifier near a name of an IR value: `z.1` becomes `z_1`."""
    name = _NOT_WORD.sub("_", hint).strip("_") or "t"
    if name[0].isdigit() or name.startswith("tg_"):
        name = f"v{name}"
    if not name.isascii():
        name = name.encode("ascii", "replace").decode().replace("?", "u")
    return f"{name}_" if name in RESERVED or name.rstrip("f") in RESERVED else name
