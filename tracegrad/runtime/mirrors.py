"""Conjugate views: memory that holds the conjugates of what lies in other memory, and is kept equal to them.

Reads and makes arrays. Previous: layout.py; next: often.py.

Memory of complex numbers gets a mirror when a conjugate view of it is made: memory of the same form, byte for byte,
with the conjugate of each number. A conjugate view and its views are NumPy's views of the mirror, so that whatever
reads them reads the right numbers. A write into either memory is carried over to the other. The mirror is there as long
as a view of it.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple, cast

import numpy as np

from tracegrad.runtime.layout import strided

Array = np.ndarray[Any, Any]


class Pair(NamedTuple):
    """Memory and its mirror.

    Attributes:
        plain: an array over all of the memory.
        mirror: one over all of its mirror, which dies with the last view of that.
        phase: bytes before the first number.
    """

    plain: Array
    mirror: weakref.ref[Array]
    dtype: np.dtype[Any]
    phase: int


#: by the ids of both arrays
_pairs: dict[int, Pair] = {}


def owner_of(array: Array) -> Array:
    """Return the array to which the memory of a view belongs."""
    owner = below = cast(Any, array)
    while below is not None:  # between arrays there can be an object that stands for one
        owner = below if isinstance(below, np.ndarray) else owner
        below = getattr(below, "base", None)
    return cast(Array, owner)


def address_of(array: Array) -> int:
    """Return the address of the first element."""
    return int(array.__array_interface__["data"][0])


def bytes_of(owner: Array) -> Array:
    """Return all bytes of an array from the first to the last, as a view."""
    if not owner.size:
        return owner.reshape(-1).view(np.uint8)
    turns: Any = [slice(None, None, -1 if s < 0 else 1) for s in owner.strides]
    upwards = owner[(*turns, ...)]
    begin: Any = [slice(1)] * owner.ndim
    first = upwards[(*begin, ...)].reshape(1).view(np.uint8)
    steps = zip(upwards.shape, upwards.strides, strict=True)
    return strided(first, (owner.itemsize + sum((n - 1) * s for n, s in steps),), (1,))


def _offset_in(owner: Array, array: Array) -> int:
    """Return how many bytes of its owner lie before the first element of an array."""
    return address_of(array) - address_of(bytes_of(owner))


def mirrored(array: Array) -> Array:
    """Return the conjugates of complex numbers: a view of the mirror of their memory, or back from there.

    Raises:
        RuntimeError: the memory has a mirror that reads it as complex numbers of another precision.
    """
    owner = owner_of(array)
    pair = _pairs.get(id(owner))
    pair, other = _reflect(owner, array) if pair is None else (pair, _other(pair, owner))
    if pair.dtype != array.dtype:
        raise RuntimeError(
            f"the memory of this tensor has a conjugate view that reads it as {pair.dtype}, not as {array.dtype}\n"
            "  help: conj_physical() makes a new tensor"
        )
    offset = _offset_in(owner, array) if array.size else 0
    made: Array = np.ndarray(array.shape, array.dtype, bytes_of(other), offset, array.strides)
    if owner is pair.plain:
        np.conj(array, out=made)  # NumPy may have written the memory since
    made.flags.writeable = array.flags.writeable
    return made


def _reflect(owner: Array, array: Array) -> tuple[Pair, Array]:
    """Make the mirror of memory in which complex numbers lie; return it, too."""
    here = bytes_of(owner)
    mirror = np.zeros(here.size, np.uint8)
    keys = id(owner), id(mirror)
    phase = _offset_in(owner, array) % array.itemsize if here.size else 0
    pair = Pair(owner, weakref.ref(mirror, lambda _: _forget(keys)), array.dtype, phase)
    _pairs.update(dict.fromkeys(keys, pair))
    _carry(pair, owner, 0, here.size)
    return pair, mirror


def _forget(keys: tuple[int, int]) -> None:
    for key in keys:
        del _pairs[key]


def _other(pair: Pair, owner: Array) -> Array:
    """Return the memory that is not `owner`."""
    return cast(Array, pair.mirror()) if owner is pair.plain else pair.plain


def _carry(pair: Pair, owner: Array, begin: int, end: int) -> None:
    """Write the conjugates of the numbers that lie in some bytes of one memory into the other one."""
    size = pair.dtype.itemsize
    here, there = (
        memory[pair.phase : memory.size - (memory.size - pair.phase) % size].view(pair.dtype)
        for memory in (bytes_of(owner), bytes_of(_other(pair, owner)))
    )
    place = slice(max((begin - pair.phase) // size, 0), max(-((pair.phase - end) // size), 0))
    np.conj(here[place], out=there[place])


def carry_over(array: Array) -> None:
    """Make the other memory, if there is one, follow a write into an array."""
    if not _pairs or not array.size:
        return
    owner = owner_of(array)
    pair = _pairs.get(id(owner))
    if pair is not None:
        written = bytes_of(array)
        begin = _offset_in(owner, written)
        _carry(pair, owner, begin, begin + written.size)


def _mirror_of(array: Array) -> tuple[Pair, Array] | None:
    """Return the mirror that an array lies in, with its pair, or None."""
    if not _pairs:
        return None
    owner = owner_of(array)
    pair = _pairs.get(id(owner))
    return None if pair is None or owner is pair.plain else (pair, owner)


def is_mirrored(array: Array) -> bool:
    """Return whether an array lies in a mirror."""
    return _mirror_of(array) is not None


def plain_owner(array: Array) -> Array:
    """Return the array to which the memory belongs that an array reads, be it through a mirror."""
    owner = owner_of(array)
    pair = _pairs.get(id(owner))
    return owner if pair is None else pair.plain


def plain_address(array: Array) -> int:
    """Return where the first element lies, or in a mirror that of which it is the image."""
    found = _mirror_of(array)
    if found is None:
        return address_of(array)
    pair, mirror = found
    return address_of(bytes_of(pair.plain)) + _offset_in(mirror, array)


def is_negated(array: Array) -> bool:
    """Return whether real numbers are imaginary parts in a mirror."""
    found = _mirror_of(array)
    if found is None:
        return False
    pair, mirror = found
    return (_offset_in(mirror, array) - pair.phase) // array.itemsize % 2 == 1
