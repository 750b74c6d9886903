"""Modules that hold others, and parameters, as Python's lists and dicts do.

Previous: module.py; next: modules.py.
"""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from tracegrad.nn.module import Module, indented
from tracegrad.nn.parameter import Parameter
from tracegrad.runtime.tensor import Tensor


class _Row(Module):
    """Modules in order: what Sequential and ModuleList have in common."""

    def _key(self, index: int) -> str:
        place, count = operator.index(index), len(self)
        if not -count <= place < count:
            raise IndexError(f"index {place} is out of range")
        return list(self._modules)[place]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._part(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        raise NotImplementedError

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            del self._modules[key]
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules: list[Module]) -> None:
        self._modules = {str(k): module for k, module in enumerate(modules)}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Any:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add modules at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{type(self).__name__}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def pop(self, key: Any) -> Any:
        """Take a module out and return it."""
        found = self[key]
        del self[key]
        return found

    def _inserted(self, index: int, module: Module) -> None:
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)


class Sequential(_Row):
    """Modules applied one after the other."""

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), module)

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        return type(self)(OrderedDict(items))

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module in front of another."""
        count = len(self)
        if not -count <= index <= count:
            raise IndexError(f"Index out of range: {index}")
        self._inserted(index, module)
        return self

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *_checked(other))

    def __iadd__(self, other: Any) -> Sequential:
        made: Sequential = self.extend(_checked(other))
        return made

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * _checked_factor(self, other))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        made: Sequential = self.extend(list(self) * (_checked_factor(self, other) - 1))
        return made


def _checked(other: Any) -> Sequential:
    if not isinstance(other, Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return other


def _checked_factor(modules: Sequential, other: Any) -> int:
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(modules)} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {type(modules)}")
    return other


class ModuleList(_Row):
    """A list of modules."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def _part(self, items: list[tuple[str, Module]]) -> Module:
        return type(self)([module for _, module in items])

    def insert(self, index: int, module: Module) -> None:
        """Add a module in front of another."""
        self._inserted(index, module)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, other: Iterable[Module]) -> ModuleList:
        made: ModuleList = self.extend(other)
        return made

    def __repr__(self) -> str:
        lines, place = [], 0
        for text, same in itertools.groupby(map(repr, self)):
            count = len(list(same))
            several = f"({place}-{place + count - 1}): {count} x {text}"
            lines.append("  " + indented(several if count > 1 else f"({place}): {text}"))
            place += count
        return f"{type(self).__name__}(" + "".join("\n" + line for line in lines) + ("\n)" if lines else ")")


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def __getitem__(self, key: str) -> Module:
        found: Module = self._modules[key]
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Return names and modules."""
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """Return the modules."""
        return self._modules.values()

    def pop(self, key: str) -> Module:
        """Take a module out and return it."""
        found: Module = self._modules.pop(key)
        return found

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()

    def update(self, modules: Any) -> None:
        """Add modules from a mapping or from pairs."""
        for key, module in _pairs(self, modules):
            self[key] = module


def _pairs(module: Module, given: Any) -> Iterable[tuple[str, Any]]:
    name = type(module).__name__
    if not isinstance(given, Iterable):
        raise TypeError(
            f"{name}.update should be called with an iterable of key/value pairs, but got {type(given).__name__}"
        )
    if isinstance(given, Mapping | ModuleDict | ParameterDict):
        return given.items()
    pairs = list(given)
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"{name} update sequence element #{k} has length {len(pair)}; 2 is required")
    return pairs


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _shown(key: Any, value: Any, kind: Any) -> str:
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    title = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {title} containing: [{kind} of size {'x'.join(map(str, value.shape))}]"


class ParameterList(Module):
    """A list of parameters; a tensor becomes one, other values stay as they are."""

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        self.extend(() if values is None else values)

    def _key(self, index: int) -> str:
        place = operator.index(index)
        if not -self._size <= place < self._size:
            raise IndexError(f"index {place} is out of range")
        return str(place % self._size)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[k] for k in range(*index.indices(self._size))])
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, self._key(index), _as_parameter(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(self._size))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end."""
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_shown(k, value, getattr(value, "dtype", None)) for k, value in enumerate(self))

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name; a tensor becomes one, other values stay as they are."""

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        self.update({} if parameters is None else parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and hasattr(self, key):
            raise KeyError(f"attribute '{key}' already exists")
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def keys(self) -> KeysView[str]:
        """Return the names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names and parameters."""
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        """Return the parameters."""
        return (self[key] for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a parameter, or the default where there is none."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return a parameter; add it if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a parameter out and return it."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Any]:
        """Take the last parameter out and return its name and itself."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def clear(self) -> None:
        """Take all parameters out."""
        for key in list(self._keys):
            del self[key]

    def update(self, parameters: Any) -> None:
        """Add parameters from a mapping or from pairs; names of a plain dict in alphabetical order."""
        pairs = _pairs(self, parameters)
        plain = isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict)
        for key, value in sorted(pairs, key=operator.itemgetter(0)) if plain else pairs:
            self[key] = value

    def copy(self) -> ParameterDict:
        """Return another dict of the same parameters."""
        return ParameterDict(OrderedDict(self.items()))

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        return "\n".join(
            _shown(k, value, value.type_name() if isinstance(value, Tensor) else "") for k, value in self.items()
        )

    def forward(self, *args: Any, **keywords: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")
