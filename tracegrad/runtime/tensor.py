"""The eager tensor: an ndarray with what automatic differentiation must know about it.

Reads arrays; holds the state that tape.py and views.py work with. Previous: dtypes.py; next: tape.py. Operations are
attached as methods by the files after those: see `method`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import operator
import weakref
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tracegrad.runtime import dtypes
from tracegrad.runtime.engine import engine
from tracegrad.runtime.mirrors import address_of, is_mirrored, is_negated, plain_address, plain_owner
from tracegrad.suggestion import suggest

Array = np.ndarray[Any, Any]
F = TypeVar("F", bound=Callable[..., Any])


class Storage:
    """The memory of a tensor and its views: counts the writes, and knows who wrote last.

    Attributes:
        version: number of in-place writes.
        writer: (operation, code, offset of the instruction) of the last write.
        renamed: of the last write that was recorded, the id of the written tensor's array (or that of its base) and the
            name of the node that the tensor got.
        shielded: saved values in the memory that are copied before a write (tape.Saved).
        left: (array, tensor) for tensors that had this memory until they were given other data; None for none.
    """

    __slots__ = ("left", "renamed", "shielded", "version", "writer")

    def __init__(self) -> None:
        self.version = 0
        self.writer: tuple[str, Any, int] | None = None
        self.renamed: tuple[int, str] | None = None
        self.shielded: weakref.WeakSet[Any] | None = None
        self.left: list[tuple[Array, Tensor]] | None = None

    def __reduce__(self) -> Any:
        return Storage, ()  # of a copy nothing was written


class Size(tuple[int, ...]):
    """A shape, printed as torch does."""

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self, dtype=np.int64))

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        return Size(found) if isinstance(index, slice) else found


class Symbol(str):
    """A constant of torch's, printed without quotes."""

    def __repr__(self) -> str:
        return str(self)


_DEVICES = (
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu mtia privateuseone"
).split()


class Device:
    """The name of a device. Tensors are on the CPU, and refuse all others (creating.require_cpu).

    Raises:
        RuntimeError: the text names no device.
    """

    __slots__ = ("index", "type")

    type: str
    index: int | None

    def __init__(self, type: Any, index: int | None = None) -> None:
        if isinstance(type, Device):
            type, index = type.type, type.index
        if isinstance(type, int):
            raise RuntimeError("Cannot access accelerator device when none is available.")
        if not isinstance(type, str):
            raise TypeError(f"device(): argument 'type' must be str, not {type.__class__.__name__}")
        name, colon, number = type.partition(":")
        if not type:
            raise RuntimeError("Device string must not be empty")
        if name not in _DEVICES:
            raise RuntimeError(f"Expected one of {', '.join(_DEVICES)} device type at start of device string: {type}")
        if colon and not (number.isdecimal() and index is None):
            raise RuntimeError(f"Invalid device string: '{type}'")
        self.type, self.index = name, int(number) if colon else index

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + ("" if self.index is None else f", index={self.index}") + ")"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


CPU = Device("cpu")


class UntypedStorage:
    """The memory of a tensor, seen as bytes.

    Attributes:
        owner: the array to which it belongs.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.owner: Array = plain_owner(tensor._a)

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return address_of(self.owner)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        return self.owner.nbytes

    size = __len__ = nbytes


class Tensor:
    """An array that can be differentiated through.

    What the fast path (engine.c) looks at is in slots; attributes that most tensors never set are class attributes.

    Attributes:
        _a: the array.
        _storage: shared by all tensors over one memory.
        _node, _nr: what made the tensor (tape.Node), and which of its results this is.
        _requires_grad: for leaves.
        _base, _steps: for a differentiable view: the tensor viewed, and how (views.Step).
        _seen: version of the storage for which a view's node is right.
        _origin: how a view came about: "" or the reason why it must not be written in place. A view made by a Function
            ("Function", or "Functions" for one of several results) has no steps, and its own node for good.
        _accumulator: weak reference to the node that accumulates into a leaf.
        _hooks, _after: hooks of a leaf: on its gradient, and after accumulation.
        _retained: `.grad` of a non-leaf is kept.
        _tangent: (level, tangent) in forward mode; it counts while that level lasts.
    """

    __slots__ = (
        "_a", "_storage", "_node", "_nr", "_requires_grad", "_grad", "_base", "_steps", "_seen", "_origin",
        "_accumulator", "_hooks", "_after", "_inference", "__dict__", "__weakref__",
    )  # fmt: skip

    _a: Array
    _storage: Storage
    _node: Any
    _nr: int
    _requires_grad: bool
    _grad: Tensor | None
    _base: Tensor | None
    _steps: tuple[Any, ...]
    _seen: int
    _origin: str
    _accumulator: weakref.ref[Any] | None
    _hooks: dict[int, Any] | None
    _after: dict[int, Any] | None
    _inference: bool
    _retained = False
    _tangent: tuple[int, Tensor] | None = None

    __array_priority__ = 2000.0

    def __getattr__(self, name: str) -> Any:
        if name in LATE:
            importlib.import_module(LATE[name])
            return getattr(self, name)
        text = f"'{type(self).__name__}' object has no attribute '{name}'"
        if not name.startswith("_"):
            near = suggest(name, (known for known in dir(type(self)) if not known.startswith("_")))
            text += f": {near or 'docs/eager.md says what there is of torch, on the CPU'}"
        raise AttributeError(text)

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __getitem__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __eq__(self, other: Any) -> Any: ...
        def __ne__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __iter__(self) -> Any: ...
        def __len__(self) -> int: ...
        def __hash__(self) -> int: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...

    def __new__(cls, *data: Any, **keywords: Any) -> Any:
        return fill(object.__new__(cls), np.empty(0, dtypes.default_of(2)))

    def __init__(self, *data: Any) -> None:
        dtype = dtypes.default_of(2)
        if len(data) == 1 and not isinstance(data[0], int):
            source = data[0]._a if isinstance(data[0], Tensor) else data[0]
            with np.errstate(over="ignore"):
                self._a = np.array(source, dtype)
        elif data:
            self._a = np.zeros(data, dtype)

    # ---- what the array has

    @property
    def shape(self) -> Size:
        return Size(self._a.shape)

    @property
    def dtype(self) -> dtypes.DType:
        return dtypes.of(self._a.dtype)

    @property
    def ndim(self) -> int:
        return self._a.ndim

    @property
    def device(self) -> Device:
        return CPU

    @property
    def itemsize(self) -> int:
        return self._a.itemsize

    @property
    def nbytes(self) -> int:
        return self._a.nbytes

    @property
    def is_cuda(self) -> bool:
        return False

    @property
    def is_cpu(self) -> bool:
        return True

    @property
    def is_sparse(self) -> bool:
        return False

    @property
    def is_meta(self) -> bool:
        return False

    @property
    def is_quantized(self) -> bool:
        return False

    def is_pinned(self) -> bool:
        """Return False: there is no other device that reads the memory."""
        return False

    def is_shared(self) -> bool:
        """Return whether share_memory_ was called."""
        return bool(self.__dict__.get("_is_shared", False))

    def share_memory_(self) -> Tensor:
        """Note for is_shared that other processes shall see the memory; they get copies."""
        self.__dict__["_is_shared"] = True
        return self

    def is_set_to(self, tensor: Tensor) -> bool:
        """Return whether another tensor has the same memory, shape and strides."""
        a, b = self._a, tensor._a
        return address_of(a) == address_of(b) and (a.shape, a.strides, a.dtype) == (b.shape, b.strides, b.dtype)

    @property
    def layout(self) -> str:
        return Symbol("torch.strided")

    def dim(self) -> int:
        """Return the number of axes."""
        return self._a.ndim

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one axis."""
        return Size(self._a.shape) if dim is None else self._a.shape[dim]

    ndimension = dim

    def numel(self) -> int:
        """Return the number of elements."""
        return self._a.size

    nelement = numel

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return self._a.itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Return the strides in elements; row-major ones where the tensor is empty and NumPy says none."""
        if self._a.size or any(self._a.strides):
            strides = tuple(s // self._a.itemsize for s in self._a.strides)
        else:
            steps = itertools.accumulate((max(n, 1) for n in self._a.shape[:0:-1]), operator.mul, initial=1)
            strides = tuple(steps)[::-1][: self._a.ndim]
        return strides if dim is None else strides[dim]

    def storage_offset(self) -> int:
        """Return the distance of the first element from the beginning of the memory, in elements."""
        offset: int = (self.data_ptr() - UntypedStorage(self).data_ptr()) // self._a.itemsize
        return offset

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return plain_address(self._a)

    def untyped_storage(self) -> UntypedStorage:
        """Return the memory that the tensor shares with its views."""
        return UntypedStorage(self)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Return whether elements lie in row-major order without gaps, or with the second axis last."""
        if str(memory_format).startswith("torch.channels_last"):
            return bool(np.moveaxis(self._a, 1, -1).flags.c_contiguous)
        return self._a.flags.c_contiguous

    def is_floating_point(self) -> bool:
        """Return whether the dtype is a real float."""
        return dtypes.category(self._a.dtype) == 2

    def is_complex(self) -> bool:
        """Return whether the dtype is complex."""
        return dtypes.category(self._a.dtype) == 3

    def is_conj(self) -> bool:
        """Return whether the tensor is a conjugate view of its memory."""
        return self.is_complex() and is_mirrored(self._a)

    def is_neg(self) -> bool:
        """Return whether the tensor is the imaginary part of a conjugate view."""
        return self.is_floating_point() and is_negated(self._a)

    def is_inference(self) -> bool:
        """Return whether the tensor was made in inference mode."""
        return self._inference

    @property
    def _version(self) -> int:
        if self._inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    def type_name(self) -> str:
        """Return `torch.FloatTensor`."""
        return f"torch.{self.dtype.title}Tensor"


def fill(tensor: Tensor, array: Array) -> Tensor:
    """Make a new object a leaf over an array."""
    tensor._a = array
    tensor._storage = Storage()
    tensor._node = tensor._grad = tensor._base = tensor._accumulator = tensor._hooks = tensor._after = None
    tensor._nr = tensor._seen = 0
    tensor._requires_grad = tensor._inference = False
    tensor._steps, tensor._origin = (), ""
    return tensor


def wrap(array: Array) -> Tensor:
    """Return a new leaf over an array, which the tensor takes over."""
    return fill(object.__new__(Tensor), array)


if engine:
    wrap = engine.wrap


def refusal(
    function: Callable[..., Any], error: Exception, values: Sequence[Any], names: Sequence[str] | None
) -> Exception | None:
    """Return the error that names an argument, or an element of one, which should have been a tensor.

    Args:
        error: what the call raised: that an argument has not what a tensor has, or what this made of it further inside.
        values: the arguments, the last ones given by `names`.

    Returns:
        None if something else went wrong.
    """
    if isinstance(error, AttributeError):
        if isinstance(error.obj, Tensor) or not hasattr(Tensor, error.name or ""):
            return None
        wrong = error.obj
    elif "refused" in vars(error):
        wrong = vars(error)["refused"]
    else:
        return None
    kind_name, wanted = type_name(wrong), vars(error).get("wanted", "Tensor")
    own = list(inspect.signature(function).parameters.values())
    in_order = len(values) - len(names or ())
    is_method = "is_method" in vars(function) or own[0].name == "self"  # torch does not count self
    is_method = is_method or (function.__name__[-1:] == "_" and len(own) > 1)
    for number, value in enumerate(values):
        if number < in_order:
            parameter = own[min(number, len(own) - 1)]
            name, place = parameter.name, number
            if parameter.kind is parameter.VAR_POSITIONAL:
                value, place = values[number:in_order], own.index(parameter)
                if wanted == "int":  # sizes, which have a name as a keyword
                    name = own[place + 1].name if place + 1 < len(own) else name
                    value = value[0] if len(value) == 1 else value
        else:
            name = (names or ())[number - in_order]
            parameter = own[0]
            place = next((k for k, parameter in enumerate(own) if parameter.name == name), number)
        if value is wrong:
            where = f" (position {place + (0 if is_method else 1)})" if number < in_order else ""
            several = parameter.kind is parameter.VAR_POSITIONAL and wanted == "int"
            kind = "tuple of ints" if several else wanted
            made = TypeError(f"{function.__name__}(): argument '{name}'{where} must be {kind}, not {kind_name}")
        elif isinstance(value, list | tuple) and any(x is wrong for x in value):
            at = next(k for k, x in enumerate(value) if x is wrong)
            if wanted != "Tensor":
                text = (
                    f"argument '{name}' must be tuple of {wanted}s, but found element of type {kind_name} at pos {at}"
                )
                return TypeError(f"{function.__name__}(): {text}")
            made = TypeError(f"expected Tensor as element {at} in argument {place}, but got {kind_name}")
        else:
            continue
        vars(made).update(refused=wrong, wanted=wanted)
        return made
    return None


def refused(value: Any, wanted: str) -> TypeError:
    """Return the error for an argument of another type than `wanted`, torch's name of it, before its name is known."""
    error = TypeError(f"expected {wanted}, but got {type_name(value)}")
    vars(error).update(refused=value, wanted=wanted)
    return error


def integer(value: Any) -> int:
    """Return an argument that must be an integer, also one in a tensor.

    Raises:
        TypeError: it is none.
    """
    try:
        if value is True or value is False:
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise refused(value, "int") from None


def require_bool(value: Any) -> None:
    """Check an argument that must be True or False.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, bool):
        raise refused(value, "bool")


def require_tensors(*values: Any) -> None:
    """Check operands; the error comes to name the argument (refusal).

    Raises:
        TypeError: one is no tensor.
    """
    for value in values:
        if not isinstance(value, Tensor):
            raise refused(value, "Tensor")


def type_name(value: Any) -> str:
    """Return the name of the type of a value as torch writes it."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def require_sequence(name: str, tensors: Any) -> None:
    """Check the operands of an operation on a list of tensors.

    Raises:
        TypeError: they are no list and no tuple.
    """
    if not isinstance(tensors, list | tuple):
        raise TypeError(f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {type_name(tensors)}")


def refusing(function: F) -> F:
    """Have the errors of a function name the argument which should have been a tensor."""
    if not isinstance(function, FunctionType) or _refused_in(function):
        return function
    if engine:
        return cast(F, as_operation(function, -1))

    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        try:
            return function(*args, **keywords)
        except (AttributeError, TypeError) as error:
            named = refusal(function, error, (*args, *keywords.values()), tuple(keywords))
            if named is None:
                raise
            raise named from None

    vars(call)["refuses"] = call, function
    return cast(F, call)


def _refused_in(function: Any) -> Any:
    """Return the function whose errors name arguments, where this one does that; one that wraps it does not."""
    owner, inner = vars(function).get("refuses", (None, None))
    return inner if owner is function else None


def as_operation(function: Callable[..., Any], numbers: int) -> Any:
    """Return the operation of engine.c that a function plans."""
    made: Any = functools.update_wrapper(engine.Operation(function, numbers), function)
    made.numbers = numbers
    return made


def _as_method(function: Any) -> Any:
    """Return the form of a function of tensors whose errors count arguments as those of a method."""
    inner = function.__wrapped__ if engine and isinstance(function, engine.Operation) else _refused_in(function)
    if not isinstance(inner, FunctionType):
        return function
    made = FunctionType(inner.__code__, inner.__globals__, inner.__name__, inner.__defaults__, inner.__closure__)
    functools.update_wrapper(made, inner, updated=())
    made.__kwdefaults__ = inner.__kwdefaults__
    vars(made).update(vars(inner), is_method=True)
    return as_operation(made, function.numbers) if engine else refusing(made)


def refuse_in(namespace: dict[str, Any]) -> None:
    """Do that for the public functions of a module."""
    for name, function in tuple(namespace.items()):
        if getattr(function, "__module__", "") == namespace["__name__"] and not name.startswith("_"):
            namespace[name] = refusing(function)


#: methods that a module attaches which is imported when one is first used
LATE = {
    **dict.fromkeys(
        (
            "cholesky cholesky_inverse cholesky_solve det inverse logdet lu matrix_exp matrix_power pinverse qr "
            "slogdet svd"
        ).split(),
        "tracegrad.linalg",
    ),
    **dict.fromkeys(("hardshrink", "prelu"), "tracegrad.nn.activations"),
}
#: methods attached to Tensor so far
METHODS: dict[str, Any] = {}


def method(*names: str) -> Callable[[F], F]:
    """Attach the decorated function to Tensor under these names (its own if none is given)."""

    def attach(function: F) -> F:
        given = names or (function.__name__,)
        if not given[0].startswith("__"):
            if function.__name__ == "<lambda>":
                function.__name__ = given[0]
            function = refusing(function)
        attached = _as_method(function) if hasattr(function, "__dict__") else function
        for name in given:
            setattr(Tensor, name, attached)
            METHODS[name] = function
        return function

    return attach


#: what `import tracegrad as torch` finds beside Tensor and the dtypes
NAMES: dict[str, Any] = {}


def public(*names: str) -> Callable[[F], F]:
    """Give the decorated function torch's names at top level (its own if none is given)."""

    def register(function: F) -> F:
        function = refusing(function)
        for name in names or (function.__name__,):
            NAMES[name] = function
        return function

    return register


def is_differentiable(dtype: np.dtype[Any]) -> bool:
    """Return whether values of a dtype can carry a derivative."""
    return dtypes.category(dtype) >= 2
