"""A function named in text, and its arguments from files and from text: the input side of the command line.

Reads `module:function` or `file.py:function`, .npz and .json files, and arguments such as `x=f64[n,3]`; gives a
function and its Inputs to cli.py. Previous: api.py; next: cli.py.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import traceback
import typing
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final, NoReturn

import numpy as np

from tracegrad.capture import numpy_api as _numpy_api  # noqa: F401 fills HANDLERS
from tracegrad.capture.tracer import HANDLERS, describe
from tracegrad.errors import ArgumentError
from tracegrad.ir.types import DTYPES, ArrayType, SymbolicDim, dim_evaluate, is_complex, is_inexact, parse_dim
from tracegrad.runtime.signature import Rebuild, Signature, signature_of
from tracegrad.suggestion import suggest

#: sizes tried for size symbols: primes, so that they equal no size that is written in the function
EXAMPLE_SIZES: Final = (7, 11, 13, 5, 17, 19, 23)
_KEYS: Final = "for pytrees the keys are paths, such as params.w or params/w"


def refuse(title: str, code: str, found: str, help: str) -> NoReturn:
    """Raise the error for text or a file that cannot be used."""
    raise ArgumentError(title, code=code, span=None, found=found, help=help)


# ---- the function ---------------------------------------------------------------------------------------------------


def load_function(target: str) -> Callable[..., Any]:
    """Import the function named by `module:function`, `package.module:function` or `path/file.py:function`.

    The current directory can be imported from; for a file, its own directory too. What modules print goes to stderr.

    Raises:
        ArgumentError: there is no such file, module or function, or the module fails.
    """
    place, colon, path = target.rpartition(":")
    if not colon or not place or not all(part.isidentifier() for part in path.split(".")):
        refuse(
            "the target does not name a function",
            "TG801",
            target,
            f"write {target}:FUNCTION"
            if target.endswith(".py")
            else "write module:function or path/file.py:function, for example model.py:loss",
        )
    with contextlib.redirect_stdout(sys.stderr):
        module = _import_file(place) if place.endswith(".py") else _import_module(place)
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            refuse(
                f"{place} has no {path}",
                "TG804",
                f"its functions are: {', '.join(_functions(found, module)) or 'none'}",
                suggest(part, _functions(found, module)) or "check the name after the colon",
            )
        found = getattr(found, part)
    if not callable(found):
        refuse(
            f"{path} in {place} is not a function",
            "TG804",
            describe(found),
            "name a function, or an object that can be called",
        )
    if isinstance(found, type):
        refuse(
            f"{path} in {place} is a class",
            "TG804",
            f"class {found.__name__}",
            "name a function; or make an instance in the module and name it, or its method: module:instance.method",
        )
    if isinstance(found, BuiltinFunctionType) and found not in HANDLERS:
        refuse(
            f"{path} in {place} is written in C, and is no function of numbers that tracegrad knows",
            "TG804",
            f"{describe(found)}, which has no Python source",
            "name a Python function; `tracegrad ops --numpy` lists the functions in C that are known",
        )
    return found  # type: ignore[no-any-return]


def _import_module(name: str) -> ModuleType:
    if os.sep in name or not all(part.isidentifier() for part in name.split(".")):
        refuse(
            "the target names neither a module nor a Python file",
            "TG801",
            name,
            "write module:function with a name that Python can import, or path/file.py:function",
        )
    _make_importable(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            _refuse_import(name, error)
        file = Path(*name.split(".")).with_suffix(".py")
        refuse(
            f"there is no module {error.name}",
            "TG802",
            f"looked in {Path.cwd()} and in the installed packages",
            f"write the file instead: {file}:..."
            if file.is_file()
            else "check the name, or write path/file.py:function",
        )
    except (Exception, SystemExit) as error:
        _refuse_import(name, error)


def _import_file(place: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        near = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        refuse(
            f"there is no file {place}",
            "TG802",
            f"{path} does not exist" if not path.exists() else f"{path} is not a file",
            suggest(path.name, near) or "check the path; it is relative to the current directory",
        )
    root, names = path.parent, [path.stem]
    while (root / "__init__.py").is_file():  # inside a package: imported as a part of it, so that relative imports work
        names.insert(0, root.name)
        root = root.parent
    _make_importable(root)
    name = ".".join(names)
    try:
        if len(names) > 1:
            return importlib.import_module(name)
        if name in sys.modules or not name.isidentifier():
            name = f"_tracegrad_target_{path.stem}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None, "a file that ends with .py has a loader"
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        _refuse_import(place, error)
    return module


def _make_importable(directory: Path) -> None:
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))


def _refuse_import(name: str, error: BaseException) -> NoReturn:
    raise ArgumentError(
        f"{name} cannot be imported",
        code="TG803",
        span=None,
        found=describe_failure(error),
        help="the file must run without errors before its functions can be read; guard scripts with "
        'if __name__ == "__main__":',
    ) from error


def describe_failure(error: BaseException) -> str:
    """Return kind, text and the last place in the user's files of an error."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}, at {error.filename}:{error.lineno}: {(error.text or '').strip()}"
    own = os.path.dirname(__file__)
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((own, "<frozen")) and os.path.exists(frame.filename)
    ]
    outside = [frame for frame in frames if f"{os.sep}numpy{os.sep}" not in frame.filename] or frames
    place = f", at {outside[-1].filename}:{outside[-1].lineno}: {outside[-1].line}" if outside else ""
    return f"{text}{place}"


def _functions(owner: Any, module: ModuleType) -> list[str]:
    """Return the public callables that were made in a module, or the methods of an object in it."""
    names = []
    for name in sorted(vars(owner) if isinstance(owner, ModuleType) else dir(owner)):
        value = getattr(owner, name, None)
        local = getattr(value, "__module__", None) == module.__name__ or not isinstance(owner, ModuleType)
        if callable(value) and local and not name.startswith("_") and not isinstance(value, type):
            names.append(name)
    return names


# ---- its arguments --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Inputs:
    """The arguments of a call; an ArrayType stands for an array that is not given.

    Attributes:
        names: as in a Signature: one per argument, those passed by keyword start with `=`.
        values: values and pytrees of values.
        drawn: the arguments that were drawn last.
    """

    names: list[str]
    values: list[Any]
    drawn: list[Any] = field(default_factory=list)

    def types(self) -> list[ArrayType]:
        """Return the types of the arrays that are not given."""
        found: list[ArrayType] = []
        _replace(self.values, lambda kind: found.append(kind))
        return found

    def example_sizes(self, number: int = 0) -> dict[str, int]:
        """Return a size for each size symbol; other numbers give other sizes."""
        symbols = {name for kind in self.types() for dim in kind.shape for name in _symbols(dim)}
        return {name: EXAMPLE_SIZES[(i + number) % len(EXAMPLE_SIZES)] for i, name in enumerate(sorted(symbols))}

    def signature(self) -> Signature:
        """Return the signature of a call with such arguments; sizes may be symbolic."""
        shapes: dict[int, tuple[Any, ...]] = {}
        stand_ins: list[Any] = []

        def stand_in(kind: ArrayType) -> Any:
            array = np.broadcast_to(np.zeros((), kind.dtype), (1,) * kind.ndim)
            shapes[id(array)] = kind.shape
            stand_ins.append(array)
            return array

        signature, leaves = signature_of(self.names, [_replace(value, stand_in) for value in self.values])
        own = (leaf.type.shape for leaf in signature.leaves)
        return signature.with_shapes([shapes.get(id(leaf), shape) for leaf, shape in zip(leaves, own, strict=True)])

    def draw(
        self,
        rng: np.random.Generator,
        sizes: Mapping[str, int],
        interval: tuple[float, float] | None,
        magnitude: float = 1.0,
    ) -> list[Any]:
        """Return the arguments with random arrays in place of types.

        Args:
            interval: of the floats; None draws from the normal distribution, times `magnitude`.
        """
        self.drawn = [
            _replace(value, lambda kind: draw_array(kind, rng, sizes, interval, magnitude)) for value in self.values
        ]
        return self.drawn


def draw_array(
    kind: ArrayType,
    rng: np.random.Generator,
    sizes: Mapping[str, int],
    interval: tuple[float, float] | None,
    magnitude: float = 1.0,
) -> Any:
    """Return a random array. Integers are 0 and 1, so that they serve as labels and as indices."""
    shape = tuple(dim_evaluate(dim, sizes) for dim in kind.shape)
    if not is_inexact(kind.dtype):
        return rng.integers(0, 2, shape).astype(kind.dtype)

    def floats() -> Any:
        return magnitude * rng.normal(size=shape) if interval is None else rng.uniform(*interval, size=shape)

    drawn = floats() + 1j * floats() if is_complex(kind.dtype) else floats()
    return np.asarray(drawn).astype(kind.dtype)


def _replace(value: Any, make: Callable[[ArrayType], Any]) -> Any:
    if isinstance(value, ArrayType):
        return make(value)
    if type(value) is dict:
        return {key: _replace(item, make) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_replace(item, make) for item in value)
    if (names := _fields_of(value)) and not isinstance(value, type):
        items = [_replace(getattr(value, name), make) for name in names]
        if any(new is not getattr(value, name) for name, new in zip(names, items, strict=True)):
            return Rebuild(type(value), names)(*items) if is_dataclass(value) else type(value)(*items)
    return value


def _symbols(dim: Any) -> frozenset[str]:
    return dim.symbols() if isinstance(dim, SymbolicDim) else frozenset()


def _fields_of(kind: Any) -> tuple[str, ...]:
    """Return the fields of a dataclass or named tuple, by the class or an instance; of all else none."""
    if is_dataclass(kind):
        return tuple(f.name for f in fields(kind))
    is_tuple = isinstance(kind, tuple) or (isinstance(kind, type) and issubclass(kind, tuple))
    return getattr(kind, "_fields", ()) if is_tuple else ()


def _hints(function: Callable[..., Any] | type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # a name that is imported for type checkers only
        return {}


def _with_fields(value: Any, like: Any, path: str) -> Any:
    """Return a dict given for a dataclass or named tuple as such; fields it does not name keep their defaults.

    Args:
        like: the class, or an instance with the defaults.
        path: of the value, for errors.
    """
    names = _fields_of(like)
    if type(value) is not dict or not names:
        return value
    cls = like if isinstance(like, type) else type(like)
    unknown = [name for name in value if name not in names]
    if unknown:
        help = suggest(unknown[0], names) or f"{cls.__name__} has the fields {', '.join(names)}"
        refuse(f"{path} has no field {unknown[0]}", "TG806", f"{path} is of {cls.__name__}", help)
    hints, defaults = _hints(cls), _defaults_of(like)
    missing = [name for name in names if name not in value and name not in defaults]
    if missing:
        help = f'add --arg "{path}.{missing[0]}=f64[...]" with its dtype and shape, or --inputs FILE'
        refuse(f"{path} needs a value for {', '.join(missing)}", "TG806", f"{path} is of {cls.__name__}", help)
    items = [
        _with_fields(value[name], defaults.get(name, hints.get(name)), f"{path}.{name}")
        if name in value
        else defaults[name]
        for name in names
    ]
    return Rebuild(cls, names)(*items) if is_dataclass(cls) else cls(*items)


def _defaults_of(like: Any) -> dict[str, Any]:
    """Return the values of the fields of an instance, or the defaults of a class."""
    if not isinstance(like, type):
        return {name: getattr(like, name) for name in _fields_of(like)}
    if not is_dataclass(like):
        return dict(getattr(like, "_field_defaults", {}))
    found = {f.name: f.default for f in fields(like) if f.default is not MISSING}
    return found | {f.name: f.default_factory() for f in fields(like) if f.default_factory is not MISSING}


def bind_inputs(function: Callable[..., Any], given: Mapping[str, Any]) -> Inputs:
    """Match named values to the parameters of a function; parameters with defaults may be left out.

    Raises:
        ArgumentError: a name is no parameter, or a parameter has no value.
    """
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):  # a C function: the values in the order given
        return Inputs(list(given), list(given.values()))
    kinds = inspect.Parameter
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in given if name not in parameters]
    called = getattr(function, "__name__", type(function).__name__)
    if unknown and not takes_any:
        refuse(
            f"{called} has no argument {unknown[0]}",
            "TG806",
            f"{called}{_brief(parameters)}",
            suggest(unknown[0], parameters) or "leave it out, or give it the name of an argument",
        )
    names: list[str] = []
    values: list[Any] = []
    missing: list[str] = []
    hints = _hints(function)
    for name, parameter in parameters.items():
        like = hints.get(name) if parameter.default is kinds.empty else parameter.default
        value = _with_fields(given[name], like, name) if name in given else parameter.default
        if parameter.kind is kinds.VAR_POSITIONAL:
            items = given.get(name, ())
            items = items if isinstance(items, list | tuple) else (items,)
            names.extend(f"{name}_{i}" for i in range(len(items)))
            values.extend(items)
        elif parameter.kind is kinds.VAR_KEYWORD:
            extra = [key for key in given if key not in parameters]
            names.extend(f"={key}" for key in extra)
            values.extend(given[key] for key in extra)
        elif value is kinds.empty:
            missing.append(name)
        else:
            names.append(f"={name}" if parameter.kind is kinds.KEYWORD_ONLY else name)
            values.append(value)
    if missing:
        help = f'add --arg "{missing[0]}=f64[...]" with its dtype and shape, or --inputs FILE'
        if missing[0] == "self":
            help = "name the method of an instance: make one in the module and write module:instance.method"
        refuse(
            f"{called} needs a value for {', '.join(missing)}",
            "TG806",
            f"{called}{_brief(parameters)}, given: {', '.join(given) or 'nothing'}",
            help,
        )
    return Inputs(names, values)


def _brief(parameters: Mapping[str, inspect.Parameter]) -> str:
    """Return `(params, x, lr=0.1)`: a parameter list without annotations."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in parameters.values()]
    return str(inspect.Signature(bare))


def read_inputs(file: str | None, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values by argument name, from a file and from texts `name=value`; a text wins over the file."""
    found: dict[str, Any] = {}
    for key, value in (_read_file(file) if file else {}).items():
        _insert(found, _split(key), value, key)
    found = {name: _arrange(value) for name, value in found.items()}
    seen: set[str] = set()
    for text in arguments:
        key, value = parse_argument(text)
        if key in seen:
            refuse(f"the argument {key} is given twice", "TG805", text, "give it once")
        seen.add(key)
        _insert(found, _split(key), value, key)
    return {name: _arrange(value) for name, value in found.items()}


def _split(key: str) -> list[str]:
    return re.split(r"[./]", key)


def _insert(tree: dict[str, Any], path: Sequence[str], value: Any, key: str) -> None:
    for step in path[:-1]:
        tree = tree.setdefault(step, _Nested())
        if not isinstance(tree, dict):
            refuse(f"{key} lies inside a value that is given as a whole", "TG807", key, "give one or the other")
    if type(tree.get(path[-1])) is _Nested:
        refuse(f"{key} is given as a whole and in parts", "TG807", key, "give one or the other")
    tree[path[-1]] = value


class _Nested(dict[str, Any]):
    """A dict that was made from paths."""


def _arrange(value: Any) -> Any:
    """Turn dicts made from paths into plain dicts, and into lists where the keys are 0, 1, 2, ..."""
    if type(value) is not _Nested:
        return value
    items = {key: _arrange(item) for key, item in value.items()}
    if sorted(items) == sorted(str(i) for i in range(len(items))):
        return [items[str(i)] for i in range(len(items))]
    return items


def _read_file(file: str) -> Mapping[str, Any]:
    path = Path(file).expanduser()
    near = [p.name for ending in ("npz", "json") for p in path.parent.glob(f"*.{ending}")]
    try:
        if path.suffix == ".npz":
            return _read_npz(path)
        if path.suffix == ".json":
            return _read_json(path)
    except FileNotFoundError:
        help = suggest(path.name, near) or "check the path of --inputs"
        refuse(f"there is no file {file}", "TG807", str(path.resolve()), help)
    except OSError as error:
        refuse(f"{file} cannot be read", "TG807", str(error), "check the path of --inputs")
    refuse(
        "inputs come from .npz and .json files",
        "TG807",
        file,
        suggest(path.name, near) or "write one with np.savez(file, x=x, y=y); " + _KEYS,
    )


def _read_npz(path: Path) -> Mapping[str, Any]:
    help = f"write it with np.savez(file, x=x, y=y); {_KEYS}"
    arrays = {}
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            what = "its content is not the zip archive that an .npz file is"
            refuse(f"{path} is not an .npz file", "TG807", what, help)
        with np.load(file, allow_pickle=False) as data:
            for key in data.files:
                try:
                    arrays[key] = data[key]
                except (ValueError, zipfile.BadZipFile, EOFError):
                    what = f"{key}, which is damaged or holds Python objects"
                    refuse(f"{path} does not hold plain arrays", "TG807", what, help)
    return {key: str(array) if array.dtype.kind == "U" and array.ndim == 0 else array for key, array in arrays.items()}


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        refuse(f"{path} is not valid JSON", "TG807", str(error), "correct the file")
    if not isinstance(data, dict):
        refuse(
            f"{path} must hold one object",
            "TG807",
            f"a {type(data).__name__}",
            'write {"argument": value, ...}: numbers, text, lists (arrays) and nested objects',
        )
    return {key: _from_literal(value) for key, value in data.items()}


def _from_literal(value: Any) -> Any:
    """Turn lists of numbers, also nested ones, into arrays where they are rectangular."""
    if isinstance(value, dict):
        return {key: _from_literal(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    items = [_from_literal(item) for item in value]
    if all(isinstance(item, int | float | complex | np.ndarray) for item in items):
        if len({np.shape(item) for item in items}) == 1:
            return np.array(items)
        if not items:
            return np.zeros(0)
    return items


# ---- text of one argument -------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\s*(?:(?P<type>[A-Za-z_]\w*)\s*\[(?P<dims>[^\][]*)\]"
    r"|(?P<number>[-+]?(?:\.?\d(?:[eE][-+]|[\w.])*|inf\b|nan\b))"
    r"|(?P<string>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<mark>[{}\[\](),:]))"
)
_CONSTANTS: Final = {"True": True, "False": False, "None": None}
_CLOSING: Final = {"{": "}", "[": "]", "(": ")"}


def parse_argument(text: str) -> tuple[str, Any]:
    """Parse `name=value`; the value is a type, a Python literal, or a dict, list or tuple of them.

    >>> parse_argument("params={w: f64[n,3], b: f64[]}")
    ('params', {'w': ArrayType(dtype=dtype('float64'), shape=(n, 3)), 'b': ArrayType(dtype=dtype('float64'), shape=())})
    >>> parse_argument("layers=(4, 8, 1)")
    ('layers', (4, 8, 1))
    """
    name, equals, rest = text.partition("=")
    name = name.strip()
    if not equals or not re.fullmatch(r"[^\W\d]\w*([./]\w+)*", name):
        refuse("an argument needs a name", "TG805", text, "write name=value, for example x=f64[8,3], n=3 or lr=0.1")
    return name, _Parser(text, len(text) - len(rest)).whole()


class _Parser:
    """Reads one value, from a position in the text."""

    def __init__(self, text: str, position: int) -> None:
        self.text, self.position = text, position

    def whole(self) -> Any:
        value = self.value()
        if self.text[self.position :].strip():
            self.refuse("something follows the value")
        return value

    def refuse(self, what: str, help: str = "") -> NoReturn:
        place = self.position + len(self.text[self.position :]) - len(self.text[self.position :].lstrip())
        refuse(
            f"cannot read an argument: {what}",
            "TG805",
            f"{self.text}\n{' ' * (len('   = found: ') - len('     ') + place)}^",  # an error's next lines are indented
            help or "write a type such as f64[8,3] or i64[n], a number, 'text', True, None, or {w: f64[3], b: f64[]}",
        )

    def value(self) -> Any:
        match = _TOKEN.match(self.text, self.position)
        if match is None:
            self.refuse("a value is missing" if not self.text[self.position :].strip() else "unexpected text")
        kind = match.lastgroup
        if kind == "mark":
            opening = match["mark"]
            if opening not in _CLOSING:
                self.refuse(f"unexpected {opening}")
            self.position = match.end()
            return self.items(opening)
        read = {"dims": self.type, "number": self.number, "string": self.literal, "name": self.constant}[str(kind)]
        value = read(match)
        self.position = match.end()
        return value

    def items(self, opening: str) -> Any:
        closing, commas = _CLOSING[opening], 0
        items: list[tuple[Any, Any]] = []
        while not self.accept(closing):
            if items and commas < len(items):
                self.refuse(f"a comma or {closing} is missing")
            key = self.key() if opening == "{" else None
            items.append((key, self.value()))
            commas += self.accept(",")
        if opening == "{":
            return dict(items)
        values = [value for _, value in items]
        if opening == "(":
            return values[0] if len(values) == 1 and not commas else tuple(values)
        return _from_literal(values)

    def key(self) -> Any:
        match = _TOKEN.match(self.text, self.position)
        if match is None or match.lastgroup not in ("name", "string", "number"):
            self.refuse("a key is missing", "write {key: value, ...}; keys need no quotes")
        key = match["name"] or ast.literal_eval(match["string"] or match["number"])
        self.position = match.end()
        if not self.accept(":"):
            self.refuse("a colon is missing after a key", "write {key: value, ...}")
        return key

    def accept(self, mark: str) -> bool:
        rest = self.text[self.position :]
        if rest.lstrip().startswith(mark):
            self.position += len(rest) - len(rest.lstrip()) + len(mark)
            return True
        return False

    def type(self, match: re.Match[str]) -> ArrayType:
        dtype = _dtype(match["type"])
        if dtype is None:
            self.refuse(f"{match['type']} is no dtype", f"choose one of {', '.join(DTYPES)}")
        shape: list[Any] = []
        for text in match["dims"].split(",") if match["dims"].strip() else ():
            try:
                dim = parse_dim(text)
            except (ValueError, SyntaxError, TypeError, ArithmeticError, AttributeError):
                dim = -1
            if isinstance(dim, int) and (dim < 0 or isinstance(dim, bool)):
                self.refuse(
                    f"{text.strip() or 'nothing'} is no size", "sizes are whole numbers or names: f64[8,3], f64[n,n+1]"
                )
            shape.append(dim)
        return ArrayType(dtype, tuple(shape))

    def number(self, match: re.Match[str]) -> Any:
        text = match["number"]
        try:
            return float(text) if text.lstrip("+-") in ("inf", "nan") else ast.literal_eval(text)
        except (ValueError, SyntaxError):
            self.refuse(f"{text} is no number")

    def literal(self, match: re.Match[str]) -> Any:
        return ast.literal_eval(match["string"])

    def constant(self, match: re.Match[str]) -> Any:
        name = match["name"]
        if name not in _CONSTANTS:
            self.refuse_name(name, match)
        return _CONSTANTS[name]

    def refuse_name(self, name: str, match: re.Match[str]) -> NoReturn:
        if self.text[match.end() :].lstrip().startswith("["):
            self.refuse("a closing ] is missing")
        if _dtype(name) is not None:
            self.refuse(f"{name} has no shape", f"write {name}[] for a scalar, {name}[8,3] for an array")
        self.refuse(f"{name} is no value", f"for text write quotes: '{name}'")


def _dtype(name: str) -> np.dtype[Any] | None:
    """Return the dtype for a short name or NumPy's name, or None."""
    if name in DTYPES:
        return DTYPES[name]
    with contextlib.suppress(TypeError):
        dtype = np.dtype(name)
        return dtype if dtype in DTYPES.values() else None
    return None
