"""The distinct values of arrays: np.unique, and the functions of NumPy that take arrays as sets.

Previous: sorting.py; next: products.py.

The values are sorted, and a mask selects the first of each kind: how many there are is found when the program runs. The
derivative of a value goes to the element that is the first of its equals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracegrad.capture.contents import iota
from tracegrad.capture.masked import Selection, extreme
from tracegrad.capture.numpy_api.common import as_known, covers, known_scalar, wrap_known
from tracegrad.capture.numpy_api.indexing import getitem
from tracegrad.capture.ragged import leading
from tracegrad.capture.tracer import Tracer, asarray, call_handler, resolve_content, unsupported


@covers(np.unique, native=False, masked=True)
def unique(
    ar: Any,
    return_index: Any = False,
    return_inverse: Any = False,
    return_counts: Any = False,
    axis: Any = None,
    *,
    equal_nan: Any = True,
    sorted: Any = True,
) -> Any:
    """Return the sorted distinct values; and on request the place of the first of each in `ar`, the place of each
    element of `ar` among them, and how often each occurs."""
    content = None if isinstance(ar, Selection) else resolve_content(asarray(ar))
    if content is not None:
        options = {"axis": axis, "equal_nan": equal_nan}
        return wrap_known(np.unique(content, return_index, return_inverse, return_counts, **as_known(options)))
    array = ar if isinstance(ar, Selection) else asarray(ar)
    if axis is not None and array.ndim != 1:
        raise unsupported("np.unique of the rows or columns of traced values", "take np.unique of one column at a time")
    values, count = leading(call_handler(np.ravel, array))
    (size,) = values.shape
    place = iota(values.type.shape, 0)
    inside = call_handler(np.less, place, count)
    if isinstance(array, Selection):  # what does not belong to the array comes last, after its equals
        last = np.nan if values.dtype.kind in "fc" else extreme(values.dtype, "highest")
        values = call_handler(np.where, inside, values, last)
    order = call_handler(np.argsort, values, kind="stable")
    ordered = values[order]
    first = call_handler(np.logical_and, _changes(ordered, equal_nan), inside)
    results = [getitem(ordered, first)]
    if return_index:
        results.append(getitem(order, first))
    group = call_handler(np.maximum, call_handler(np.cumsum, first) - 1, 0)
    if return_inverse:
        inverse = call_handler(np.zeros, size, np.int64)
        inverse[order] = group
        results.append(
            inverse[:count] if isinstance(array, Selection) else call_handler(np.reshape, inverse, array.shape)
        )
    if return_counts:
        counts = call_handler(np.bincount, group, inside, minlength=size + 1).astype(np.int64)
        results.append(getitem(counts[group], first))
    return results[0] if len(results) == 1 else tuple(results)


def _changes(ordered: Tracer, equal_nan: Any) -> Tracer:
    """Return where an element of a sorted array differs from the one before it; the first one does."""
    changes = call_handler(np.not_equal, ordered[1:], ordered[:-1])
    if ordered.dtype.kind in "fc" and known_scalar(equal_nan):
        both = call_handler(np.logical_and, call_handler(np.isnan, ordered[1:]), call_handler(np.isnan, ordered[:-1]))
        changes = call_handler(np.logical_and, changes, call_handler(np.logical_not, both))
    result = call_handler(np.ones, ordered.shape, np.bool_)
    result[1:] = changes
    return result  # type: ignore[no-any-return]


def _set_function(function: Any) -> Callable[[Any], Callable[..., Any]]:
    """Register what a function of two sets of values does with traced ones; NumPy computes it of known ones."""

    def decorate(compute: Any) -> Callable[..., Any]:
        @covers(function, native=False, masked=True)
        def of_sets(ar1: Any, ar2: Any, assume_unique: Any = False, return_indices: Any = False) -> Any:
            arrays = [a if isinstance(a, Selection) else asarray(a) for a in (ar1, ar2)]
            options = {"assume_unique": True} if assume_unique else {}
            contents = [None if isinstance(a, Selection) else resolve_content(a) for a in arrays]
            if all(content is not None for content in contents):
                return wrap_known(
                    function(*contents, **options, **({"return_indices": True} if return_indices else {}))
                )
            if return_indices:
                raise unsupported(
                    f"np.{function.__name__} of traced values with return_indices",
                    "np.unique(x, return_index=True) gives the places of the values in one array",
                )
            return compute(*arrays, **options)

        return of_sets

    return decorate


@_set_function(np.union1d)
def _union(left: Any, right: Any) -> Any:
    return call_handler(np.unique, call_handler(np.concatenate, [_flat(left), _flat(right)]))


@_set_function(np.setdiff1d)
def _difference(left: Any, right: Any, assume_unique: bool = False) -> Any:
    return _those_in(_flat(left) if assume_unique else call_handler(np.unique, left), right, invert=True)


@_set_function(np.intersect1d)
def _intersection(left: Any, right: Any, assume_unique: bool = False) -> Any:
    return _those_in(call_handler(np.sort, _flat(left)) if assume_unique else call_handler(np.unique, left), right)


@_set_function(np.setxor1d)
def _in_one_only(left: Any, right: Any, assume_unique: bool = False) -> Any:
    return _union(_difference(left, right, assume_unique), _difference(right, left, assume_unique))


def _those_in(values: Any, others: Any, *, invert: bool = False) -> Any:
    """Return the values that are among the others, or are not."""
    content, count = leading(values)
    table, table_count = leading(_flat(others))
    same = call_handler(np.equal, call_handler(np.expand_dims, content, 1), table)
    same = call_handler(np.logical_and, same, call_handler(np.less, iota(table.type.shape, 0), table_count))
    found = call_handler(np.any, same, axis=1)
    if invert:
        found = call_handler(np.logical_not, found)
    inside = call_handler(np.less, iota(content.type.shape, 0), count)
    return getitem(content, call_handler(np.logical_and, found, inside))


def _flat(array: Any) -> Any:
    return call_handler(np.ravel, array)
