"""Types of the IR: dtypes, dimensions that may be symbolic, array types and residual stacks.

Lowest file of the walk; next: core.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

#: short name in IR text -> dtype
DTYPES: dict[str, np.dtype[Any]] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
_SHORT = {dtype: name for name, dtype in DTYPES.items()}

BOOL, I64, F32, F64 = DTYPES["bool"], DTYPES["i64"], DTYPES["f32"], DTYPES["f64"]


def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return the short name of a dtype: `f64` for float64."""
    return _SHORT[dtype]


def is_float(dtype: np.dtype[Any]) -> bool:
    """Return whether the dtype is real floating point (bfloat16 included)."""
    return dtype.kind == "f" or dtype == DTYPES["bf16"]


def is_complex(dtype: np.dtype[Any]) -> bool:
    return dtype.kind == "c"


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of a complex dtype; real dtypes stay."""
    return {DTYPES["c64"]: DTYPES["f32"], DTYPES["c128"]: DTYPES["f64"]}.get(dtype, dtype)


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype whose parts have the given dtype; complex dtypes stay."""
    return {DTYPES["f32"]: DTYPES["c64"], DTYPES["f64"]: DTYPES["c128"]}.get(dtype, dtype)


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Return whether values of this dtype can carry a derivative."""
    return is_float(dtype) or is_complex(dtype)


def is_integer(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu"


Atom: TypeAlias = "str | tuple[str, Dim, Dim]"


@dataclass(frozen=True, slots=True)
class SymbolicDim:
    """A polynomial with integer coefficients in size symbols: `n`, `n + 1`, `2*n*m`.

    `terms` maps a sorted tuple of atoms to its coefficient and is itself a sorted tuple, so equal polynomials are
    equal objects. An atom is a symbol, or a floor division `("//", a, b)`.
    Build with `symbol`, then use `+ - * //`; a result that is constant is a plain int.
    """

    terms: tuple[tuple[tuple[Atom, ...], int], ...]

    def __add__(self, other: Dim) -> Dim:
        return _from_terms([*self.terms, *_terms(other)])

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return self * -1

    def __sub__(self, other: Dim) -> Dim:
        return self + -1 * other

    def __rsub__(self, other: Dim) -> Dim:
        return other + -1 * self

    def __mul__(self, other: Dim) -> Dim:
        return _from_terms(
            [(tuple(sorted(a + b, key=_atom_text)), i * j) for a, i in self.terms for b, j in _terms(other)]
        )

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        if isinstance(other, int) and all(c % other == 0 for _, c in self.terms):
            return _from_terms([(m, c // other) for m, c in self.terms])
        quotient = self._divide_exactly(other)
        return quotient if quotient is not None else _from_terms([((("//", self, other),), 1)])

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _from_terms([((("//", other, self),), 1)])

    def _divide_exactly(self, other: Dim) -> Dim | None:
        divisor = _terms(other)
        if len(divisor) != 1:
            return None
        (atoms, coefficient), result = divisor[0], []
        for monomial, c in self.terms:
            rest = list(monomial)
            for atom in atoms:
                if atom not in rest:
                    return None
                rest.remove(atom)
            if c % coefficient:
                return None
            result.append((tuple(rest), c // coefficient))
        return _from_terms(result)

    def symbols(self) -> frozenset[str]:
        """Return the size symbols that occur."""
        names: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    names.add(atom)
                else:
                    names |= dim_symbols(atom[1]) | dim_symbols(atom[2])
        return frozenset(names)

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """Return the value for given sizes of the symbols."""
        total = 0
        for monomial, coefficient in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    coefficient *= sizes[atom]
                else:
                    coefficient *= dim_evaluate(atom[1], sizes) // dim_evaluate(atom[2], sizes)
            total += coefficient
        return total

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in sorted(self.terms, key=lambda t: (-len(t[0]), [_atom_text(a) for a in t[0]])):
            factors = [_atom_text(a) for a in monomial]
            if abs(coefficient) != 1 or not factors:
                factors.insert(0, str(abs(coefficient)))
            sign = "-" if coefficient < 0 else "+" if text else ""
            text += sign + "*".join(factors)
        return text

    __repr__ = __str__


Dim: TypeAlias = int | SymbolicDim
Shape: TypeAlias = tuple[Dim, ...]


def _atom_text(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"(({atom[1]})//({atom[2]}))"


def _terms(dim: Dim) -> list[tuple[tuple[Atom, ...], int]]:
    if isinstance(dim, SymbolicDim):
        return list(dim.terms)
    return [((), int(dim))] if dim else []


def _from_terms(terms: list[tuple[tuple[Atom, ...], int]]) -> Dim:
    total: dict[tuple[Atom, ...], int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = {m: c for m, c in total.items() if c}
    if not kept:
        return 0
    if set(kept) == {()}:
        return kept[()]
    return SymbolicDim(tuple(sorted(kept.items(), key=lambda t: [_atom_text(a) for a in t[0]])))


def symbol(name: str) -> SymbolicDim:
    """Return the dimension that is the size symbol `name`."""
    return SymbolicDim((((name,), 1),))


def dim_symbols(dim: Dim) -> frozenset[str]:
    return dim.symbols() if isinstance(dim, SymbolicDim) else frozenset()


def dim_evaluate(dim: Dim, sizes: Mapping[str, int]) -> int:
    return dim.evaluate(sizes) if isinstance(dim, SymbolicDim) else dim


def is_static(shape: Shape) -> bool:
    """Return whether all dimensions are plain ints."""
    return all(isinstance(d, int) for d in shape)


@dataclass(frozen=True, slots=True)
class ArrayType:
    """An array of a dtype and a shape; a scalar has shape ()."""

    dtype: np.dtype[Any]
    shape: Shape = ()

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Dim:
        return math.prod(self.shape)

    def with_shape(self, shape: Shape) -> ArrayType:
        return ArrayType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: np.dtype[Any]) -> ArrayType:
        return ArrayType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(str(d) for d in self.shape)}]"


@dataclass(frozen=True, slots=True)
class StackType:
    """A growable last-in first-out store of equal arrays; holds the residuals of a loop."""

    element: ArrayType

    def __str__(self) -> str:
        return f"stack<{self.element}>"


Type: TypeAlias = ArrayType | StackType


def array_type(text: str) -> ArrayType:
    """Parse `f64[n,3]`, `i64[]`, `f32[2*n+1]`.

    >>> array_type("f64[n,3]")
    ArrayType(dtype=dtype('float64'), shape=(n, 3))
    """
    name, bracket, rest = text.strip().partition("[")
    if name not in DTYPES or not bracket or not rest.endswith("]"):
        raise ValueError(f"not a type: {text!r}; write a dtype and a shape, such as f64[n,3] or i64[]")
    dims = rest[:-1].strip()
    return ArrayType(DTYPES[name], tuple(parse_dim(d) for d in dims.split(",")) if dims else ())


def parse_dim(text: str) -> Dim:
    """Parse a dimension expression: ints, names, `+ - * //` and parentheses."""
    import_free = compile(text.strip(), "<dim>", "eval")
    if not all(name.isidentifier() for name in import_free.co_names):
        raise ValueError(f"not a dimension: {text!r}")
    value = eval(import_free, {"__builtins__": {}}, {name: symbol(name) for name in import_free.co_names})
    if not isinstance(value, (int, SymbolicDim)):
        raise ValueError(f"not a dimension: {text!r}")
    return value
