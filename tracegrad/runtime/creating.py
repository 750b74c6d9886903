"""Making eager tensors from Python and NumPy values, turning them into such, and random numbers.

Reads Python values; gives tensors. Previous: gradients.py; next: printing.py.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from typing import cast as typed

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.layout import LIKE_OPERANDS, arrange, strided
from tracegrad.runtime.operate import Number, broadcast_shape, cast, require_one_dtype
from tracegrad.runtime.shaping import sizes_of, warn_of_discarded
from tracegrad.runtime.tape import mode, needs_grad, record_flat
from tracegrad.runtime.tensor import (
    NAMES,
    Array,
    Device,
    Size,
    Tensor,
    integer,
    is_differentiable,
    method,
    public,
    refused,
    require_bool,
    type_name,
    wrap,
)
from tracegrad.runtime.views import mark_written

F = TypeVar("F", bound=Callable[..., Any])


class Generator:
    """A source of random numbers; they are NumPy's, not torch's."""

    def __init__(self, device: Any = None) -> None:
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Begin the numbers that belong to a seed."""
        self._seed = int(seed)
        self.source = np.random.default_rng(self._seed % 2**64)
        return self

    def seed(self) -> int:
        """Begin the numbers of a seed that is drawn at random; return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed in force."""
        return self._seed

    def get_state(self) -> Tensor:
        """Return the state as bytes, for `set_state`."""
        return wrap(np.frombuffer(json.dumps(self.source.bit_generator.state).encode(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> Generator:
        """Go back to a state."""
        self.source.bit_generator.state = json.loads(new_state._a.tobytes())
        return self


default_generator = Generator()
default_generator.seed()


def _source(generator: Generator | None) -> np.random.Generator:
    if mode.drawing_refused is not None:
        raise RuntimeError(mode.drawing_refused)
    return (default_generator if generator is None else generator).source


def _on_cpu(function: F) -> F:
    """Have a function that makes tensors refuse devices that there are not."""

    @functools.wraps(function)
    def call(*args: Any, device: Any = None, **keywords: Any) -> Any:
        if device is not None:
            require_cpu(device)
        return function(*args, **keywords)

    return typed(F, call)


def require_cpu(device: Any) -> None:
    """Check a device.

    Raises:
        RuntimeError: it is another than the CPU.
    """
    if Device(device).type != "cpu":
        raise RuntimeError(f"there is no device '{device}': tensors are on the CPU")


def _finished(array: Array, requires_grad: bool) -> Tensor:
    tensor = wrap(array)
    require_bool(requires_grad)
    if requires_grad:
        if not is_differentiable(array.dtype):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        tensor._requires_grad = True
    if mode.inference:
        tensor._inference = True
    return tensor


def _array_of(data: Any, dtype: Any) -> Array:
    """Return a new array for nested lists, numbers, arrays or tensors."""
    if isinstance(data, Tensor):
        data = data._a
    data = _in_lists(data)
    found = _dtype_of(data) if dtype is None else dtypes.numpy_dtype(dtype)
    if isinstance(data, list | tuple):
        if _holds_tensors(data):
            data = _untensored(data)
        _check_regular(data, 0)
    if found.kind in "iub" and isinstance(data, int) and not -(2**63) <= data < 2**63:
        raise ValueError("Overflow when unpacking long long")
    if isinstance(data, int):
        return dtypes.number_array(data, found)
    try:
        with np.errstate(over="ignore"):  # it is infinite then, as in torch
            return np.array(data, found)
    except OverflowError:
        wide = np.array(data, np.int64)
        return np.array([dtypes.number_array(value, found) for value in wide.ravel().tolist()]).reshape(wide.shape)


def _in_lists(data: Any) -> Any:
    """Return nested sequences, a range or an array.array among them, as lists and tuples; anything else as it is."""
    if not isinstance(data, Sequence) or isinstance(data, str | bytes):
        return data
    if set(map(type, data)) <= _PLAIN.keys():
        return data if isinstance(data, list | tuple) else list(data)
    return [_in_lists(row) for row in data]


def _dtype_of(data: Any) -> np.dtype[Any]:
    """Return the dtype that a tensor of nested lists, numbers, arrays and tensors has.

    Raises:
        TypeError: there is a text, or an array of another kind.
        ValueError: a list begins with a text.
        RuntimeError: there is something else.
    """
    if isinstance(data, list | tuple):
        if data and isinstance(data[0], str):
            raise ValueError("too many dimensions 'str'")
        kinds = set(map(type, data))
        if kinds <= _PLAIN.keys():
            return dtypes.default_of(max((_PLAIN[kind] for kind in kinds), default=2))
        return functools.reduce(dtypes.join, map(_dtype_of, data))
    if isinstance(data, np.ndarray | np.generic):
        dtypes.of(data.dtype)
        own: np.dtype[Any] = data.dtype
        return own
    if isinstance(data, Tensor):
        return _dtype_of(data._a)
    if isinstance(data, Number):
        return dtypes.default_of(dtypes.number_category(data))
    if isinstance(data, str | bytes):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if hasattr(data, "__array__"):
        return _dtype_of(np.asarray(data))
    raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")


_PLAIN = {kind: level for level, kind in enumerate((bool, int, float, complex))}


def _check_regular(data: Any, depth: int) -> None:
    """Check that nested lists have one length per depth.

    Raises:
        ValueError: two lists have different lengths.
        TypeError: a number stands where lists do, or the other way round.
    """
    lists = [isinstance(x, list | tuple) for x in data]
    if not any(lists):
        return
    if not all(lists):
        raise TypeError("not a sequence" if lists[0] else "must be real number, not list")
    for row in data:
        if len(row) != len(data[0]):
            raise ValueError(f"expected sequence of length {len(data[0])} at dim {depth + 1} (got {len(row)})")
    _check_regular([x for row in data for x in row], depth + 1)


def _holds_tensors(data: Any) -> bool:
    return any(isinstance(x, Tensor) or (isinstance(x, list | tuple) and _holds_tensors(x)) for x in data)


def _untensored(data: Any) -> Any:
    if isinstance(data, Tensor):
        if data._a.size != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data._a.reshape(())
    return [_untensored(x) for x in data] if isinstance(data, list | tuple) else data


@public()
@_on_cpu
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """Return a new leaf with a copy of the data; Python floats get the default dtype.

    >>> tensor([1.0, 2.0]).dtype
    torch.float32
    """
    if isinstance(data, Tensor):
        warnings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=3,
        )
    return _finished(_array_of(data, dtype), requires_grad)


@public("as_tensor", "asarray")
@_on_cpu
def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a tensor over the data, without a copy where possible."""
    if isinstance(data, Tensor):
        return data if dtype is None else cast(data, dtypes.numpy_dtype(dtype))
    if isinstance(data, np.ndarray) and (dtype is None or data.dtype == dtypes.numpy_dtype(dtype)):
        return from_numpy(data)
    return _finished(_array_of(data, dtype), False)


@public()
def from_numpy(ndarray: Array) -> Tensor:
    """Return a tensor that shares the memory of an array."""
    dtypes.of(ndarray.dtype)
    if any(stride < 0 for stride in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    made = wrap(ndarray)
    made._inference = bool(mode.inference)
    return made


def _new_shape(size: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of a new tensor.

    Raises:
        RuntimeError: a size is negative.
    """
    shape = sizes_of(size)
    for n in shape:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def _given(sizes: Sequence[Any], size: Any) -> Sequence[Any]:
    return sizes if size is None else (size,)


def _options(dtype: Any) -> np.dtype[Any]:
    return dtypes.default_of(2) if dtype is None else dtypes.numpy_dtype(dtype)


def _filled(size: Sequence[Any], value: Any, dtype: Any, requires_grad: bool) -> Tensor:
    kind = _options(dtype)
    return _finished(np.full(_new_shape(size), dtypes.fitting_array(value, kind), kind), requires_grad)


@public()
@_on_cpu
def zeros(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return zeros."""
    return _filled(_given(sizes, size), 0, dtype, requires_grad)


@public()
@_on_cpu
def ones(*sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return ones."""
    return _filled(_given(sizes, size), 1, dtype, requires_grad)


@public()
@_on_cpu
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor whose content does not matter (zeros)."""
    return _filled(_given(sizes, size), 0, dtype, requires_grad)


@public()
@_on_cpu
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    """Return a tensor with given strides, in elements, whose content does not matter (zeros)."""
    shape, steps = _new_shape((size,)), sizes_of((stride,))
    if len(shape) != len(steps):
        raise RuntimeError(
            f"mismatch in length of strides and shape: there are {len(shape)} sizes and {len(steps)} strides"
        )
    kind = _options(dtype)
    memory = np.zeros(1 + sum((n - 1) * step for n, step in zip(shape, steps, strict=True) if n), kind)
    return _finished(strided(memory, shape, [step * kind.itemsize for step in steps]), requires_grad)


@public()
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of an array of another library (`__dlpack__`)."""
    if isinstance(ext_tensor, Tensor):
        own: Tensor = ext_tensor.detach()
        return own
    return from_numpy(np.from_dlpack(ext_tensor) if copy is None else np.from_dlpack(ext_tensor, copy=copy))


@method("__dlpack__")
def to_dlpack(self: Tensor, **options: Any) -> Any:
    """Return the memory as a capsule that other libraries take."""
    if needs_grad(self):
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return self._a.__dlpack__(**options)


method("__dlpack_device__")(lambda self: self._a.__dlpack_device__())


@public()
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """Return a vector over the memory of an object with Python's buffer protocol."""
    kind = dtypes.numpy_dtype(dtype)
    try:
        present, size = memoryview(buffer).nbytes, kind.itemsize
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not present or not count:
        raise ValueError(f"both buffer length ({present}) and count ({count}) must not be 0")
    if not 0 <= offset < present:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({present} bytes) minus 1"
        )
    if count < 0 and (present - offset) % size:
        raise ValueError(
            f"buffer length ({present - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
            f"size ({size})"
        )
    if offset + count * size > present:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({present} bytes)"
        )
    return _finished(np.frombuffer(buffer, kind, count, offset), requires_grad)


@public()
@_on_cpu
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor filled with a number."""
    if not isinstance(size, list | tuple):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type_name(size)}")
    value = _number(fill_value)
    kind = dtypes.default_of(dtypes.number_category(value)) if dtype is None else dtype
    return _filled((size,), value, kind, requires_grad)


@public("scalar_tensor")
@_on_cpu
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a tensor of rank 0."""
    return _finished(np.asarray(s, _options(dtype)), requires_grad)


@public()
@_on_cpu
def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return the identity matrix."""
    for name, size in (("n", n), ("m", m)):
        if size is not None and integer(size) < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
    return _finished(np.eye(n, m, dtype=_options(dtype)), requires_grad)


def _number(value: Any) -> Any:
    """Return a Python number for a number or a tensor of one.

    Raises:
        TypeError: it is none.
    """
    found = value.item() if isinstance(value, Tensor | np.generic) else value
    if not isinstance(found, Number):
        raise refused(value, "Number")
    return found


def _steps(bounds: Sequence[Any], dtype: Any) -> tuple[list[Any], np.dtype[Any]]:
    values = [_number(b) for b in bounds]
    if dtype is not None:
        return values, dtypes.numpy_dtype(dtype)
    return values, dtypes.default_of(max(1, *(dtypes.number_category(v) for v in values)))


@public()
@_on_cpu
def arange(
    *bounds: Any, start: Any = None, end: Any = None, step: Any = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return numbers from start up to, without, end."""
    bounds = _bounds("arange", bounds, start=start, end=end, step=step)
    values, kind = _steps(bounds, dtype)
    first, last, step = (0, values[0], 1) if len(values) == 1 else (*values, 1)[:3]
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if kind == np.bool_:
        raise NotImplementedError("\"arange_cpu\" not implemented for 'Bool'")
    if dtypes.category(kind) == 1 and not all(isinstance(v, int) for v in values):
        return _finished(_whole_steps(first, last, step, kind), requires_grad)
    return _finished(np.arange(*values).astype(kind), requires_grad)


def _whole_steps(first: float, last: float, step: float, kind: np.dtype[Any]) -> Array:
    """Return integers between bounds that are none: torch cuts those off first, for int64 also before it counts."""
    begin, end, stride = int(first), int(last), int(step)
    if kind != np.int64:
        return (begin + np.arange(math.ceil((last - first) / step)) * stride).astype(kind)
    if not stride:
        raise ValueError("step must be nonzero")
    return np.arange(begin, end, stride)


def _bounds(name: str, given: tuple[Any, ...], **named: Any) -> tuple[Any, ...]:
    """Return bounds that were given in order or by name; a single one in order is the second."""
    names = list(named)
    found = dict(zip(names[1:] if len(given) == 1 and named[names[1]] is None else names, given, strict=False))
    for key, value in named.items():
        if value is not None:
            if key in found:
                raise TypeError(f"{name}() got multiple values for argument '{key}'")
            found[key] = value
    if len(given) > len(names) or names[1] not in found:
        raise TypeError(f"{name}() takes {', '.join(names)}; {names[1]} must be given")
    first = found.get(names[0], 0)
    return (first, found[names[1]], *([found[names[2]]] if len(names) > 2 and names[2] in found else []))


@public("range")
@_on_cpu
def range_(
    start: Any, end: Any, step: Any = 1, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return numbers from start to end, end included."""
    count = int((end - start) / step) + 1
    kind = dtypes.default_of(2) if dtype is None else dtypes.numpy_dtype(dtype)
    return _finished((start + step * np.arange(count)).astype(kind), requires_grad)


@public()
@_on_cpu
def linspace(
    start: Any, end: Any, steps: int, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Return numbers at equal distances, end included."""
    start, end = _number(start), _number(end)
    kind = dtypes.default_of(max(2, *map(dtypes.number_category, (start, end)))) if dtype is None else _options(dtype)
    return _finished(_between(start, end, integer(steps), kind).astype(kind), requires_grad)


def _between(start: Any, end: Any, count: int, kind: np.dtype[Any], fused: bool = True) -> Array:
    """Return numbers at equal distances as torch computes them: in the dtype, from both ends.

    Args:
        fused: products are not rounded before they are added.

    Raises:
        RuntimeError: there are fewer than none.
    """
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    own: Any = kind.type if dtypes.category(kind) > 1 else np.float64
    exact: Any = (np.clongdouble if kind.kind == "c" else np.longdouble) if fused else own
    first, last = own(start), own(end)
    step = exact((last - first) / own(max(count - 1, 1)))
    places = np.arange(count).astype(exact)
    from_end = exact(last) - step * (exact(count - 1) - places)
    made: Array = np.where(np.arange(count) < count // 2, exact(first) + step * places, from_end)
    return made if count > 1 else np.full(count, first)


@public()
@_on_cpu
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return numbers at equal ratios, end included."""
    kind = _options(dtype)
    exponents = _between(_number(start), _number(end), integer(steps), kind, fused=False)
    wide = np.complex128 if kind.kind == "c" else np.float64
    powers = wide(base) ** exponents.astype(kind if dtypes.category(kind) > 1 else wide).astype(wide)
    return _finished(powers.astype(kind), requires_grad)


# ---- random numbers


@public()
def manual_seed(seed: int) -> Any:
    """Seed the generator; the numbers are NumPy's, not torch's."""
    return default_generator.manual_seed(seed)


@public()
def seed() -> int:
    """Seed the generator at random; return the seed."""
    return default_generator.seed()


@public()
def initial_seed() -> int:
    """Return the seed in force."""
    return default_generator.initial_seed()


@public()
def get_rng_state() -> Tensor:
    """Return the state of the generator as bytes, for `set_rng_state`."""
    return default_generator.get_state()


@public()
def set_rng_state(new_state: Tensor) -> None:
    """Go back to a state of the generator."""
    default_generator.set_state(new_state)


#: categories of the dtypes (dtypes.category) in which a distribution gives numbers; for all others it is `_REALS`
_DRAWN = {
    "randperm": (1, 2),
    **dict.fromkeys("rand uniform_ randn normal_ normal".split(), (2, 3)),
    **dict.fromkeys("exponential_ cauchy_ log_normal_ bernoulli poisson multinomial binomial".split(), (2,)),
    "geometric_": (1, 2),
}
_REALS = (0, 1, 2)


def _require_drawn(name: str, kind: np.dtype[Any], error: Callable[[str], Exception] = NotImplementedError) -> None:
    """Check that a distribution gives numbers of a dtype.

    Raises:
        NotImplementedError, or what `error` makes: it does not.
    """
    if dtypes.category(kind) not in _DRAWN.get(name, _REALS):
        raise error(f"{name} draws no random numbers of dtype {dtypes.of(kind)!r}")


def _drawn(
    name: str, kind: np.dtype[Any], draw: Callable[[], Any], error: Callable[[str], Exception] = NotImplementedError
) -> Array:
    """Return random numbers of a dtype; for complex ones `draw` gives both parts."""
    _require_drawn(name, kind, error)
    made = draw()
    return np.asarray(made + 1j * draw() if kind.kind == "c" else made, kind)


def _draw_normal(
    name: str, source: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[Any], mean: Any = 0.0, std: Any = 1.0
) -> Array:
    """Return normal numbers of a dtype; the variance of complex ones is that of both parts together."""
    share = 0.5**0.5 if kind.kind == "c" else 1.0
    spread = _drawn(name, kind, lambda: share * std * source.standard_normal(shape))
    return np.asarray(mean + spread, kind)


@public()
@_on_cpu
def rand(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1)."""
    kind, shape = _options(dtype), _new_shape(_given(sizes, size))
    return _finished(_drawn("rand", kind, lambda: _source(generator).random(shape)), requires_grad)


@public()
@_on_cpu
def randn(
    *sizes: Any,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return standard normal random numbers."""
    kind, shape = _options(dtype), _new_shape(_given(sizes, size))
    return _finished(_draw_normal("randn", _source(generator), shape, kind), requires_grad)


@public()
@_on_cpu
def randint(
    *bounds: Any,
    low: Any = None,
    high: Any = None,
    size: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return random integers: randint(low, high, size) or randint(high, size)."""
    given, shape = (bounds[:-1], bounds[-1]) if size is None else (bounds, size)
    low, high = map(integer, _bounds("randint", given, low=low, high=high))
    if not isinstance(shape, tuple | list):
        raise TypeError(f"randint(): argument 'size' must be tuple of ints, not {type_name(shape)}")
    kind = np.dtype(np.int64) if dtype is None else dtypes.numpy_dtype(dtype)
    _check_bounds(low, high, kind, RuntimeError)
    return _finished(np.asarray(_source(generator).integers(low, high, tuple(shape)), kind), requires_grad)


def _check_bounds(
    low: int, high: int, kind: np.dtype[Any], error: Callable[[str], Exception] = NotImplementedError
) -> None:
    _require_drawn("random_", kind, error)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, most = (0, 1) if kind == np.bool_ else (low, high)
    if kind.kind in "iu":
        least, most = np.iinfo(kind).min, np.iinfo(kind).max
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {dtypes.of(kind)!r}")


@public()
@_on_cpu
def randperm(n: int, *, dtype: Any = None, device: Any = None, generator: Any = None) -> Tensor:
    """Return the numbers below n in random order."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    kind = np.dtype(np.int64) if dtype is None else dtypes.numpy_dtype(dtype)
    _require_drawn("randperm", kind)
    return wrap(_source(generator).permutation(n).astype(kind))


def _check_deviation(std: float) -> None:
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


@public()
@_on_cpu
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    generator: Any = None,
) -> Tensor:
    """Return normal random numbers around `mean`: of the dtype of the tensors given, or of numbers with `dtype`."""
    for name, value in (("mean", mean), ("std", std)):
        if isinstance(value, complex):
            raise TypeError(f"normal(): argument '{name}' must be float, not complex")
    given = [t._a for t in (mean, std) if isinstance(t, Tensor)]
    if isinstance(std, Tensor):
        if std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if (std._a < 0).any():
            raise RuntimeError("normal expects all elements of std >= 0.0")
    _check_deviation(0.0 if isinstance(std, Tensor) else std)
    kind = given[0].dtype if given else _options(dtype)
    centre, width = (t if isinstance(t, Tensor) else wrap(np.asarray(t, np.float64)) for t in (mean, std))
    shape = broadcast_shape(centre, width) if size is None else tuple(size)
    if not given:
        return _finished(_draw_around("normal", _source(generator), shape, kind, mean, std), requires_grad)
    made = wrap(_draw_normal("normal", _source(generator), shape, kind, centre._a, width._a))
    record_flat("NormalBackward2", std, made)
    return record_flat("NormalBackward1", mean, made)


@public()
@method("bernoulli")
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """Return 1 with the given probabilities, or with that of a number `p`, else 0."""
    _require_drawn("bernoulli_" if p is not None else "bernoulli", input._a.dtype)
    if p is not None:
        made = wrap(np.asarray(_draw_bernoulli(_source(generator), input._a.shape, p), input._a.dtype))
        return record_flat("BernoulliBackward0", input, made)
    if input._a.size and not (input._a.min() >= 0 and input._a.max() <= 1):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    made = wrap(np.asarray(_source(generator).random(input._a.shape) < input._a, input._a.dtype))
    return record_flat("BernoulliBackward0", input, made)


@method("new")
def new(self: Tensor, *data: Any) -> Tensor:
    """Return a tensor of this dtype: of given data, or of a given shape, with any content."""
    if len(data) == 1 and not isinstance(data[0], int | Size):
        return _finished(_array_of(data[0], self.dtype), False)
    return _finished(np.zeros(_new_shape(data) if data else 0, self._a.dtype), False)


@public()
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Return numbers drawn from Poisson distributions with the given rates."""
    _require_drawn("poisson", input._a.dtype)
    if (input._a < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    made = wrap(np.asarray(_source(generator).poisson(input._a), input._a.dtype))
    return record_flat("PoissonBackward0", input, made)


@public()
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Return numbers of successes in so many tries, drawn with the given probabilities."""
    for operand in (count, prob):
        _require_drawn("binomial", operand._a.dtype, ValueError)
    drawn = _source(generator).binomial(count._a.astype(np.int64), prob._a)
    return record_flat("BinomialBackward0", prob, wrap(np.asarray(drawn, prob._a.dtype)))


def log_gamma_variates(concentration: Tensor) -> Tensor:
    """Return logarithms of numbers drawn from gamma distributions: those of small concentrations would underflow.

    Source: Marsaglia and Tsang, 2000: gamma(a) is gamma(a + 1) times a uniform number to the power 1/a.
    """
    rates, source = concentration._a.astype(np.float64), _source(None)
    powers = -source.standard_exponential(rates.shape) / rates
    return wrap(np.asarray(np.log(source.standard_gamma(rates + 1)) + powers))


@public()
@method("multinomial")
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Return positions drawn with probabilities in proportion to the weights."""
    _require_drawn("multinomial", input._a.dtype, RuntimeError)
    rows = np.atleast_2d(input._a).astype(np.float64)
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > rows.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not (np.isfinite(rows).all() and (rows >= 0).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not rows.any(axis=-1).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and (np.count_nonzero(rows, axis=-1) < num_samples).any():
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative category to sample)"
        )
    drawn = [_source(generator).choice(len(r), num_samples, replacement, r / r.sum()) for r in rows]
    return wrap(np.asarray(drawn, np.int64).reshape((*input._a.shape[:-1], num_samples)))


def random_uniform(low: float, high: float, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return uniform numbers from the generator that manual_seed seeds."""
    return _drawn("uniform_", dtype, lambda: _source(None).uniform(low, high, shape))


def _fill_with_draws(name: str, defaults: dict[str, float | None], draw: Callable[..., Any]) -> None:
    """Attach a method that fills a tensor with random numbers.

    Args:
        defaults: parameters of the distribution, in order; one that is None must be given.
        draw: gives numbers for the name, a source, a shape, a dtype and the parameters.
    """

    def apply(self: Tensor, *given: Any, generator: Any = None, **named: Any) -> Tensor:
        wrong = next((key for key in named if key not in defaults), None)
        if wrong is not None or len(given) > len(defaults):
            raise TypeError(f"{name}() got an unexpected " + (f"keyword argument '{wrong}'" if wrong else "argument"))
        parameters = {**defaults, **dict(zip(defaults, given, strict=False)), **named}
        missing = next((key for key, value in parameters.items() if value is None), None)
        if missing is not None:
            raise TypeError(f'{name}() missing 1 required positional arguments: "{missing}"')
        for key, value in parameters.items():
            if isinstance(value, complex):
                raise TypeError(f"{name}(): argument '{key}' must be float, not complex")
        numbers = [p._a if isinstance(p, Tensor) else p for p in parameters.values()]
        self.copy_(wrap(draw(name, _source(generator), self._a.shape, self._a.dtype, *numbers)))
        return self

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"Fill with random numbers: {name}."
    method(name)(apply)


def _draws(draw: Callable[..., Any], error: Callable[[str], Exception] = NotImplementedError) -> Callable[..., Array]:
    """Return what brings the numbers of a distribution, drawn for a source, a shape and parameters, to a dtype."""

    def apply(name: str, source: Any, shape: tuple[int, ...], kind: np.dtype[Any], *parameters: Any) -> Array:
        return _drawn(name, kind, lambda: draw(source, shape, *parameters), error)

    return apply


def _draw_uniform(source: np.random.Generator, shape: tuple[int, ...], low: float, high: float) -> Any:
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    return source.uniform(low, high, shape)


def _draw_around(
    name: str, source: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[Any], mean: float, std: float
) -> Array:
    _check_deviation(std)
    both = mean * (1 + 1j) if kind.kind == "c" else mean  # as in torch, for a number of both parts
    return _draw_normal(name, source, shape, kind, both, std)


def _draw_exponential(source: np.random.Generator, shape: tuple[int, ...], rate: float) -> Any:
    if rate <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    return source.exponential(1.0 / rate, shape)


def _draw_bernoulli(source: np.random.Generator, shape: tuple[int, ...], p: Any) -> Any:
    if isinstance(p, int | float) and not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return source.random(shape) < p


def _draw_geometric(source: np.random.Generator, shape: tuple[int, ...], p: float) -> Any:
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return source.geometric(p, shape)


def _draw_cauchy(source: np.random.Generator, shape: tuple[int, ...], median: float, sigma: float) -> Any:
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    return median + sigma * source.standard_cauchy(shape)


def _draw_log_normal(source: np.random.Generator, shape: tuple[int, ...], mean: float, std: float) -> Any:
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    return source.lognormal(mean, std, shape)


_fill_with_draws("uniform_", {"from": 0.0, "to": 1.0}, _draws(_draw_uniform))
_fill_with_draws("normal_", {"mean": 0.0, "std": 1.0}, _draw_around)
_fill_with_draws("bernoulli_", {"p": 0.5}, _draws(_draw_bernoulli))
_fill_with_draws("exponential_", {"lambd": 1.0}, _draws(_draw_exponential, RuntimeError))
_fill_with_draws("geometric_", {"p": None}, _draws(_draw_geometric))
_fill_with_draws("cauchy_", {"median": 0.0, "sigma": 1.0}, _draws(_draw_cauchy, RuntimeError))
_fill_with_draws("log_normal_", {"mean": 1.0, "std": 2.0}, _draws(_draw_log_normal))


# ---- like others


def _like(name: str, make: Any) -> None:
    @_on_cpu
    def apply(
        input: Tensor,
        *values: Any,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
    ) -> Any:
        kind = input._a.dtype if dtype is None else dtypes.numpy_dtype(dtype)
        made: Tensor = make(input, kind, *values)
        if not input._a.flags.c_contiguous and memory_format != "torch.contiguous_format":
            made._a = arrange(LIKE_OPERANDS, (input._a,), made._a)
        return made.requires_grad_() if requires_grad else made

    apply.__name__ = name
    apply.__doc__ = f"Return a tensor of the shape and dtype of another: {name}."
    public(name)(apply)


_like("zeros_like", lambda x, kind: zeros(x._a.shape, dtype=kind))
_like("ones_like", lambda x, kind: ones(x._a.shape, dtype=kind))
_like("empty_like", lambda x, kind: zeros(x._a.shape, dtype=kind))
_like("full_like", lambda x, kind, value: full(x._a.shape, value, dtype=kind))
_like("rand_like", lambda x, kind: rand(x._a.shape, dtype=kind))
_like("randn_like", lambda x, kind: randn(x._a.shape, dtype=kind))
_like("randint_like", lambda x, kind, *bounds: randint(*bounds, x._a.shape, dtype=kind))


def _new(name: str, make: Any) -> None:
    def apply(self: Tensor, *args: Any, dtype: Any = None, **options: Any) -> Any:
        return make(*args, dtype=self._a.dtype if dtype is None else dtypes.numpy_dtype(dtype), **options)

    apply.__name__ = name
    apply.__doc__ = f"Return a new tensor of this dtype: {name}."
    method(name)(apply)


for _name, _make in (
    ("new_zeros", zeros),
    ("new_ones", ones),
    ("new_empty", empty),
    ("new_full", full),
    ("new_tensor", tensor),
    ("new_empty_strided", empty_strided),
):
    _new(_name, _make)

# ---- to Python and NumPy


@method("numpy")
def numpy(self: Tensor, *, force: bool = False) -> Array:
    """Return the array, which shares memory with the tensor."""
    if force:
        return self._a.copy() if self.is_conj() or self.is_neg() else self._a
    _require_readable(self)
    return self._a


def _require_readable(self: Tensor) -> None:
    """Check that a tensor can be handed to NumPy as it is.

    Raises:
        RuntimeError: it requires grad, or its memory does not hold its values but their conjugates.
    """
    if needs_grad(self):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.is_conj() or self.is_neg():
        bit, name = ("conjugate", "conj") if self.is_conj() else ("negative", "neg")
        raise RuntimeError(
            f"Can't call numpy() on Tensor that has {bit} bit set. Use tensor.resolve_{name}().numpy() instead."
        )


@method("__array__")
def to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Array:
    """Return the array for NumPy."""
    _require_readable(self)
    return np.array(self._a, dtype) if copy or (dtype is not None and dtype != self._a.dtype) else self._a


@method("item")
def item(self: Tensor) -> Any:
    """Return the only element as a Python number."""
    if self._a.size != 1:
        raise RuntimeError(f"a Tensor with {self._a.size} elements cannot be converted to Scalar")
    value = self._a.reshape(()).item()
    return float(value) if self._a.dtype.kind == "V" else value


@method("tolist")
def tolist(self: Tensor) -> Any:
    """Return nested lists of Python numbers."""
    return self._a.astype(np.float64).tolist() if self._a.dtype.kind == "V" else self._a.tolist()


def _only(self: Tensor) -> Any:
    """Return the only element.

    Raises:
        ValueError: there are more.
    """
    if self._a.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return item(self)


def _to_number(kind: Any, title: str) -> Any:
    def convert(self: Tensor) -> Any:
        value = _only(self)
        if needs_grad(self):
            _warn_of_number()
        if isinstance(value, complex) and kind is not complex:
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {title} without overflow")
            value = value.real
        return kind(value)

    return convert


@functools.cache
def _warn_of_number() -> None:
    """Warn, once, that a number has no gradient."""
    warnings.warn(
        "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
        "Consider using tensor.detach() first.",
        UserWarning,
        stacklevel=3,
    )


method("__float__")(_to_number(float, "double"))
method("__int__")(_to_number(int, "int64_t"))
method("__complex__")(_to_number(complex, "c10::complex<double>"))


@method("__bool__")
def truth(self: Tensor) -> bool:
    """Return the truth of the only element."""
    if self._a.size != 1:
        amount = "no values" if not self._a.size else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {amount} is ambiguous")
    return bool(self._a.reshape(()))


@method("__index__")
def index(self: Tensor) -> int:
    """Return the only element, an integer."""
    if self._a.dtype.kind not in "iub" or self._a.size != 1:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return operator.index(self._a.reshape(()).item())


@method("__contains__")
def contains(self: Tensor, value: Any) -> bool:
    """Return whether an element equals a number."""
    return bool(np.any(self._a == (value._a if isinstance(value, Tensor) else value)))


def converted(tensor: Tensor, dtype: Any) -> Tensor:
    """Return the tensor in a NumPy dtype that the user asks for: imaginary parts that are lost are warned of."""
    warn_of_discarded(tensor, dtype)
    return cast(tensor, dtype)


@method("to")
def to(
    self: Tensor, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    """Return the tensor in another dtype; itself if nothing changes. A format of memory is taken, and has no effect."""
    for argument in args:
        if isinstance(argument, Tensor):
            dtype = argument.dtype
        elif isinstance(argument, str | Device):
            require_cpu(argument)
        elif not isinstance(argument, bool):
            dtype = argument
    if device is not None:
        require_cpu(device)
    made = self if dtype is None else converted(self, dtypes.numpy_dtype(dtype))
    return made.clone() if copy and made is self else made


@method("type")
def type_(self: Tensor, dtype: Any = None) -> Any:
    """Return the name of the type, or the tensor in another dtype."""
    if dtype is None:
        return self.type_name()
    if isinstance(dtype, dtypes.DType):
        return converted(self, dtype.dtype)
    found = NAMES.get(dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtype
    if not isinstance(found, _TypedTensor):
        raise ValueError(f"invalid type: {dtype!r}")
    return converted(self, found.dtype.dtype)


@method("type_as")
def type_as(self: Tensor, other: Tensor) -> Any:
    """Return the tensor in the dtype of another."""
    return converted(self, other._a.dtype)


def _conversion(name: str, dtype: dtypes.DType) -> None:
    def convert(self: Tensor, memory_format: Any = None) -> Any:
        return converted(self, dtype.dtype)

    convert.__doc__ = f"Return the tensor as {dtype.name}."
    method(name)(convert)


for _name, _dtype in (
    ("half", dtypes.float16), ("float", dtypes.float32), ("double", dtypes.float64), ("bfloat16", dtypes.bfloat16),
    ("cfloat", dtypes.complex64), ("cdouble", dtypes.complex128), ("int", dtypes.int32), ("long", dtypes.int64),
    ("short", dtypes.int16), ("byte", dtypes.uint8), ("char", dtypes.int8), ("bool", dtypes.bool_),
):  # fmt: skip
    _conversion(_name, _dtype)
method("cpu")(lambda self: self)


@method("cuda")
def cuda(self: Tensor, device: Any = None) -> Any:
    """Refuse: there is no such device."""
    raise RuntimeError("there is no device 'cuda': tensors are on the CPU")


@method("resize_")
def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Change the shape in place, keeping the elements that fit."""
    if needs_grad(self):
        raise RuntimeError("cannot resize variables that require grad")
    shape, flat = _new_shape(_given(sizes, size)), self._a.reshape(-1)
    count = math.prod(shape)
    more = np.zeros(max(count - flat.size, 0), flat.dtype)
    if shape != self._a.shape:
        self._a = (np.concatenate([flat, more]) if more.size else flat[:count]).reshape(shape)
        mark_written(self, "resize_")
    return self


@method("resize_as_")
def resize_as_(self: Tensor, the_template: Tensor, memory_format: Any = None) -> Tensor:
    """Change the shape in place to that of another tensor."""
    return resize_(self, *the_template._a.shape)


@public()
def is_tensor(obj: Any) -> bool:
    """Return whether an object is a tensor."""
    return isinstance(obj, Tensor)


@public()
def is_floating_point(input: Tensor) -> bool:
    """Return whether the dtype is a real float."""
    return input.is_floating_point()


@public()
def is_complex(input: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return input.is_complex()


@public()
def numel(input: Tensor) -> int:
    """Return the number of elements."""
    return input.numel()


@public()
def result_type(tensor1: Any, tensor2: Any) -> dtypes.DType:
    """Return the dtype of two operands combined."""
    pair = (tensor1, tensor2)
    if not all(isinstance(x, (Tensor, np.number, np.bool_, *Number)) for x in pair):
        kinds = ", ".join(map(type_name, pair))
        raise TypeError(
            f"result_type() received an invalid combination of arguments - got ({kinds}), but expected tensors or "
            "numbers"
        )
    arrays = [x._a for x in pair if isinstance(x, Tensor)]
    return dtypes.of(dtypes.result_type(arrays, [x for x in pair if not isinstance(x, Tensor)]))


class _TypedTensor(type):
    """The type of `FloatTensor` and its kind: constructors of one dtype, and what `isinstance` asks."""

    dtype: dtypes.DType

    def __call__(cls, *data: Any) -> Any:
        if len(data) == 1 and not isinstance(data[0], int):
            return tensor(data[0], dtype=cls.dtype)
        return empty(*(data or (0,)), dtype=cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance._a.dtype == cls.dtype.dtype


for _dtype in (
    dtypes.float16, dtypes.float32, dtypes.float64, dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64,
    dtypes.bool_, dtypes.bfloat16,
):  # fmt: skip
    public(f"{_dtype.title}Tensor")(_TypedTensor(f"{_dtype.title}Tensor", (), {"dtype": _dtype}))


@method("apply_")
def apply_(self: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a function of a Python number gives."""
    if needs_grad(self):
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_() instead.")
    return _mapped("apply_", callable, self)


@method("map_")
def map_(self: Tensor, tensor: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a function gives of it and that of another tensor."""
    if needs_grad(self) or needs_grad(tensor):
        raise RuntimeError("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.")
    return _mapped("map_", callable, self, tensor)


@method("map2_")
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Any) -> Tensor:
    """Replace each element by what a function gives of it and those of two other tensors."""
    if any(map(needs_grad, (self, x, y))):
        raise RuntimeError("Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead.")
    return _mapped("map2_", callable, self, x, y)


def _mapped(name: str, function: Any, self: Tensor, *others: Tensor) -> Tensor:
    require_one_dtype(self, *others)
    columns = [np.broadcast_to(t._a, self._a.shape).ravel().tolist() for t in (self, *others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    self._a[...] = np.asarray(values, self._a.dtype).reshape(self._a.shape)
    mark_written(self, name)
    return self


@method("random_")
def random_(self: Tensor, low: int = 0, high: int | None = None, *, generator: Any = None) -> Tensor:
    """Fill with random integers from low up to, without, high; with one number, below it."""
    is_bounded = high is not None
    low, high = integer(low), None if high is None else integer(high)
    if high is None:
        kind = self._a.dtype
        digits = np.finfo(kind).nmant + 1 if kind.kind == "f" else 1 if kind == np.bool_ else 8 * kind.itemsize - 1
        low, high = (0, low) if low else (0, 2 ** min(digits, 63))
    _check_bounds(low, high, self._a.dtype, RuntimeError if is_bounded else NotImplementedError)
    self.copy_(wrap(np.asarray(_source(generator).integers(low, high, self._a.shape), self._a.dtype)))
    return self


NAMES.update(Generator=Generator, default_generator=default_generator)
