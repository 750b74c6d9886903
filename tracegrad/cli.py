"""The command line: dump generated code, check gradients, look at the compile cache and at the op table.

Reads targets and inputs through target.py; calls driver/pipeline.py, driver/cache.py, testing/check_grads.py.
Previous: target.py; next: __main__.py.

Exit codes: 0 done (check: agreed); 1 check: disagreed, verify: damaged entries; 2 the call cannot be used as it is;
3 a fault of tracegrad.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import difflib
import errno
import functools
import importlib
import inspect
import io
import json
import linecache
import os
import re
import shlex
import shutil
import signal
import sys
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import numpy as np
import optree
from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from tracegrad.api import RequestMaker, grad, position_of, vmap
from tracegrad.capture.context import OUTSIDE
from tracegrad.capture.numpy_api import creation as _creation  # noqa: F401 fills HANDLERS
from tracegrad.capture.sizes import Fact
from tracegrad.capture.tracer import HANDLERS, LATE, register_late
from tracegrad.config import BACKENDS, VERSION, configure_logging, load_options
from tracegrad.custom import RuleCall
from tracegrad.driver import pipeline
from tracegrad.driver.cache import Cache, open_cache
from tracegrad.driver.derive import Request, leaf_numbers
from tracegrad.driver.explain import why as explain_entry
from tracegrad.driver.specialization import Program
from tracegrad.driver.trees import call_arguments, size_symbols
from tracegrad.errors import ArgumentError, ArgumentTypeError, InternalError, TracegradError
from tracegrad.explanation import explain_signature
from tracegrad.ir.opdef import TABLE, OpDef
from tracegrad.ir.printer import print_function
from tracegrad.ir.types import is_inexact
from tracegrad.runtime.signature import Signature, signature_of, walk
from tracegrad.suggestion import suggest
from tracegrad.target import Inputs, bind_inputs, describe_failure, load_function, read_inputs, refuse
from tracegrad.testing.check_grads import (
    Comparison,
    RuleSearch,
    arguments_left_out,
    build_instances,
    compare,
    float_arguments,
    plain_function,
)
from tracegrad.testing.identities import (
    COMMON,
    OF_TRANSFORM,
    NonlinearRule,
    Trial,
    find_nonlinear_rule,
    without_auxiliary,
)
from tracegrad.testing.time_limit import limited

OUTSIDE.add(__file__)

#: what to do about an error on the command line, where its own help speaks of the Python interface
_HINTS = {
    "TG201": "choose another argument with --wrt; floats are written lr=3.0, x=f64[3] or, in JSON, 3.0",
    "TG810": "give data with --inputs, or choose where random data lies, for example --range 0.1,2",
    "TG620": "--emit python works for this function",
    "TG222": "--wrt names the arguments that are batched; without it all are",
    "TG223": "--wrt names the arguments that are batched; without it all are",
}

#: the same for `tracegrad dump` alone
_DUMP_HINTS = {
    "TG202": "--wrt none dumps the function itself; --transform jacobian takes functions with any results, "
    "--has-aux those that return (scalar, anything)",
}

#: what `--transform` takes
TRANSFORMS = ("grad", "value_and_grad", "jvp", "vjp", "jacobian", "hessian", "hvp", "vmap")

#: those that take functions with one float as their result
_OF_SCALARS = ("grad", "value_and_grad", "hessian", "hvp")

#: how many more inputs `check` draws for rules, and by what their floats are multiplied
_RULE_POINTS = 30
_MAGNITUDES = (1.0, 0.1, 10.0)

_EMITTED = {"python": "python", "c": "c", "ir": "text", "vjp-ir": "text"}


class Commands(click.Group):
    """The group of all commands: knows the words of the call, and turns errors into messages and exit codes."""

    def main(self, args: Sequence[str] | None = None, **extra: Any) -> Any:  # type: ignore[override]
        words = list(sys.argv[1:] if args is None else args)
        return super().main(args=words, obj=words, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            _fail_usage(error, ctx)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with plain_warnings():
                configure_logging(load_options())
                return super().invoke(ctx)
        except click.UsageError as error:
            _fail_usage(error, ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except TracegradError as error:
            if (
                isinstance(error, InternalError) or error.code == "TG612"
            ):  # TG612: the C compiler refused generated code
                _fail_inside(error, ctx)
            known = {**_HINTS, **(_DUMP_HINTS if ctx.invoked_subcommand == "dump" else {})}
            hint = f"\n   = here: {known[error.code]}" if error.code in known else ""
            _fail(_relative(f"{error.render()}{hint}"), error, 2)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader has gone, as in `... | head`
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                ctx.exit(128 + signal.SIGPIPE)
            if error.filename is None:
                _fail_inside(error, ctx)
            _fail(refused_file(error).render(), error, 2)
        except Exception as error:
            _fail_inside(error, ctx)


def _relative(text: str) -> str:
    """Return a message with the places in files below the current directory as seen from there."""
    return re.sub(rf"(?m)^(\s*(?:--> )?){re.escape(os.path.join(os.getcwd(), ''))}", r"\1", text)


def refused_file(error: OSError) -> ArgumentError:
    """Return the error for a file or directory that the system does not let a command use."""
    return ArgumentError(
        "the system refuses a file",
        code="TG814",
        span=None,
        found=f"{error.strerror}: {error.filename}",
        help="check whose it is and what its mode says; for the compile cache, TRACEGRAD_CACHE_DIR names another place",
    )


def _fail_usage(error: click.UsageError, ctx: click.Context) -> NoReturn:
    """End after a call that does not fit the command."""
    if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
        raise error
    place = error.ctx or ctx
    message = error.format_message().rstrip(".")
    usage = " ".join(place.get_usage().removeprefix("Usage: ").split())
    help = f"`{place.command_path} --help` says more"
    _fail(f"{message[:1].lower()}{message[1:]}\n   = usage: {usage}\n   = help: {help}", error, 2)


def _fail(message: str, error: BaseException, code: int) -> NoReturn:
    context = click.get_current_context()
    if context.find_root().meta.get("traceback"):
        traceback.print_exception(error)
    click.echo(f"{click.style('error:', fg='red', bold=True)} {message}", err=True)
    context.exit(code)


def _fail_inside(error: BaseException, ctx: click.Context) -> None:
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}, at {place.filename}:{place.lineno}"
    text = str(error) if isinstance(error, TracegradError) else text
    words = [word for word in ctx.find_root().obj if word != "--traceback"]
    repeat = shlex.join(["tracegrad", *words, "--traceback"])
    _fail(f"this is a fault of tracegrad: {text}\n   = help: for a report, run: {repeat}", error, 3)


@contextlib.contextmanager
def plain_warnings() -> Iterator[None]:
    """Show warnings as one line on stderr, each once."""
    shown: set[str] = set()

    def show(message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any) -> None:
        text = str(message)
        if text not in shown:
            shown.add(text)
            click.echo(f"{click.style('warning:', fg='yellow', bold=True)} {text}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield


def _set_traceback(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().meta["traceback"] = True


traceback_option = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    callback=_set_traceback,
    help="Show the Python traceback of errors.",
)


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say which function, at which inputs."""
    options = [
        click.argument("target"),
        click.option(
            "--arg", "arguments", multiple=True, metavar="NAME=VALUE",
            help="One argument of the function: a type (x=f64[8,3]) or a value (n=3). Repeat for each argument.",
        ),
        click.option(
            "--inputs", "file", metavar="FILE",
            help="An .npz or .json file with the arguments by name. --arg adds to it and wins over it.",
        ),
        click.option(
            "--wrt", metavar="NAMES",
            help="Arguments to differentiate by: names or positions, commas between. Default: the first with floats.",
        ),
        traceback_option,
    ]  # fmt: skip
    return functools.reduce(lambda made, option: option(made), reversed(options), command)


aux_option = click.option(
    "--has-aux",
    is_flag=True,
    help="The function returns a tuple of two: what to differentiate, then anything.",
)


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="""\b
Examples:
  tracegrad dump model.py:loss --arg "w=f64[3]" --arg "x=f64[n,3]"
  tracegrad dump model.py:loss --inputs batch.npz --wrt params --emit c -o loss_grad.c
  tracegrad check model.py:loss --inputs batch.npz
  tracegrad COMMAND --help""",
)
@click.version_option(VERSION, prog_name="tracegrad", message="%(prog)s %(version)s")
def main() -> None:
    """Turn plain NumPy functions into gradient source code, in NumPy or C."""


# ---- dump -----------------------------------------------------------------------------------------------------------


@main.command()
@input_options
@click.option(
    "--emit",
    type=click.Choice(list(_EMITTED)),
    default="python",
    show_default=True,
    help="python: a NumPy module. c: C99, no Python in it. ir: the captured function. vjp-ir: the gradient as IR.",
)
@click.option(
    "--value/--no-value", default=True, show_default=True, help="Return value and gradient, or the gradient alone."
)
@click.option(
    "--transform",
    type=click.Choice(TRANSFORMS),
    help="What to make of the function; --wrt names the arguments differentiated (vjp: always all), under vmap those "
    "batched, all by default (along axis 0; give their types with the axis). Default: value_and_grad.",
)
@aux_option
@click.option("-o", "--output", metavar="FILE", help="Write to a file instead of the terminal.")
@click.pass_context
def dump(
    ctx: click.Context,
    target: str,
    arguments: Sequence[str],
    file: str | None,
    wrt: str | None,
    emit: str,
    value: bool,
    transform: str | None,
    has_aux: bool,
    output: str | None,
) -> None:
    """Print the generated gradient code of a function.

    TARGET is module:function or path/file.py:function; a method is that of an instance, model.py:spring.energy. The
    code is made for the types and shapes of the arguments; say them with --arg, or let them be read from a file with
    --inputs. What is printed runs alone: the Python needs NumPy only, the C needs a C99 compiler only.

    \b
    The function, in model.py:
      def loss(params, x, y, n=10, lr=0.1): ...
    Types; quote them, brackets are special to the shell:
      tracegrad dump model.py:loss --arg "params={w: f64[3], b: f64[]}" \\
                                   --arg "x=f64[8,3]" --arg "y=f64[8]"
    Any number of rows, in one code:
      ... --arg "x=f64[n,3]" --arg "y=f64[n]"
    Python values are fixed in the code (n=3, flag=True, name='text'); floats
    stay arguments (lr=0.1). Arguments with defaults may be left out:
      ... --arg n=3 --arg lr=0.01
    Differentiate by something else than the first argument, or not at all:
      ... --wrt params,lr        ... --wrt 0,2        ... --wrt none
    From data. In .npz the keys params.w or params/w make a dict, layers.0.w a
    list; in .json lists of numbers are arrays:
      tracegrad dump model.py:loss --inputs batch.npz --arg n=3
    C into a file, which says in its first lines how to compile it:
      tracegrad dump model.py:loss --inputs batch.npz --emit c -o loss.c

    \b
    dtypes: bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128
    """
    function = load_function(target)
    inputs = bind_inputs(function, read_inputs(file, arguments))
    command = shlex.join(["tracegrad", *ctx.find_root().obj])
    backend = "c" if emit == "c" else "numpy"
    kind = transform or ("value_and_grad" if value else "grad")
    program = build(function, inputs, kind, wrt, backend, has_aux=has_aux)
    text = program_text(program, emit)
    batched = _batched_arguments(program.signature, inputs, wrt) if transform == "vmap" else []
    text = f"{_header(program, target, command, emit, batched)}\n{text.lstrip()}"
    if output is None or output == "-":
        show_code(text, _EMITTED[emit])
    else:
        write_file(output, text)


def build(
    function: Callable[..., Any],
    inputs: Inputs,
    kind: str,
    wrt: str | None,
    backend: str = "numpy",
    *,
    has_aux: bool = False,
) -> Program:
    """Capture and transform a function as `--wrt` says."""
    argnums = choose_arguments(wrt, inputs)
    if has_aux and (kind == "vmap" or argnums is None):
        raise _misused_aux("vmap" if kind == "vmap" else "--wrt none")
    plain, element = function, _element_arguments(wrt, inputs) if kind == "vmap" else ()
    function, made = transformed(function, inputs, kind, argnums if wrt is not None else None)
    request = RequestMaker(made if argnums is not None else "function", argnums, has_aux)(inputs.names)
    signature, sizes = inputs.signature(), inputs.example_sizes()
    with readable_failures(plain, inputs, element), contextlib.redirect_stdout(sys.stderr):
        if request.kind == "vjp":
            program = pipeline.build_vjp_program(function, signature, sizes, backend=backend, has_aux=has_aux)
        else:
            if request.kind == "jvp":
                request = dataclasses.replace(request, single=False)
            program = pipeline.build_program(function, request, signature, sizes, backend=backend)
    require_free_sizes(program.captured.facts, sizes)
    return program


def require_free_sizes(facts: Sequence[Fact], sizes: Mapping[str, int]) -> None:
    """Check that what capture decided by sizes leaves each of them more than the one it was tried with.

    Raises:
        ArgumentError: one is fixed, so that code for any would be wrong.
    """
    for name, size in sizes.items():
        others = [{**sizes, name: n} for n in range(2, 20 * max(sizes.values())) if n != size]
        if facts and not any(all(fact.holds(other) for fact in facts) for other in others):
            decisive = next((fact for fact in facts if not any(map(fact.holds, others))), facts[0])
            raise ArgumentError(
                f"code for any size {name} cannot be made of this function",
                code="TG815",
                span=decisive.span,
                found=f"capture, tried with {name} = {size}, had to decide here whether {decisive}",
                help=f"write the size in place of {name}: the code is then for that one; or loop over an array or a "
                "range where this line runs over Python values (`tracegrad explain` says which lines do)",
            )


def _misused_aux(what: str) -> click.UsageError:
    return click.UsageError(f"--has-aux is for derivatives, not for {what}")


def transformed(
    function: Callable[..., Any], inputs: Inputs, kind: str, argnums: int | tuple[int, ...] | None
) -> tuple[Callable[..., Any], str]:
    """Return the function to capture for `--transform`, and the derivative to request of it.

    Args:
        argnums: the arguments batched by "vmap"; None: all of them.
    """
    if kind != "vmap":
        return function, kind
    if argnums is None:
        return vmap(function), "function"
    batched = argnums if isinstance(argnums, tuple) else (argnums,)
    axes = tuple(0 if position in batched else None for position in range(len(inputs.names)))
    return vmap(function, in_axes=axes), "function"


def program_text(program: Program, emit: str) -> str:
    """Return what `--emit` asks for."""
    if emit == "ir":
        return print_function(program.captured.function)
    if emit == "vjp-ir":
        return print_function(program.function)
    return pipeline.source_text(program, "c" if emit == "c" else "numpy")


def choose_arguments(wrt: str | None, inputs: Inputs) -> int | tuple[int, ...] | None:
    """Return the positions that `--wrt` names, one alone when it has no comma; None for "none".

    Without it that is the first argument that holds floats.
    """
    names = [name.lstrip("=") for name in inputs.names]
    if wrt is not None and wrt.strip() == "none" and "none" not in names:
        return None
    if wrt is None:
        if not names:
            refuse("the function has no arguments to differentiate by", "TG808", "no arguments", "use --wrt none")
        return next(iter(_with_floats(inputs.signature())), 0)
    chosen = []
    for word in (part.strip() for part in wrt.strip().removesuffix(",").split(",")):
        position = names.index(word) if word in names else None
        if position is None and word.removeprefix("-").isdecimal():
            position = position_of(int(word), inputs.names)
        if position is None or position in chosen:
            refuse(
                f"--wrt names {'no argument' if position is None else 'an argument twice'}: {word or 'nothing'}",
                "TG808",
                f"the arguments are {', '.join(names) or 'none'}",
                f"a derivative is taken by a whole argument: --wrt {inside}, which holds {word}"
                if (inside := re.split(r"[./\[]", word)[0]) in names and inside != word
                else suggest(word, names) or "give names or positions from 0, with commas between, or none",
            )
        chosen.append(position)
    return tuple(chosen) if "," in wrt else chosen[0]


@contextlib.contextmanager
def readable_failures(function: Callable[..., Any], inputs: Inputs, batched: Sequence[int] = ()) -> Iterator[None]:
    """Tell errors of the user's function, which it raises without tracegrad too, from faults of tracegrad.

    Args:
        batched: positions of the arguments of which the function gets one element at a time.

    Raises:
        ArgumentError: the function fails at such inputs by itself.
    """
    try:
        yield
    except TracegradError:
        raise
    except Exception as error:
        drawn = inputs.drawn or inputs.draw(np.random.default_rng(0), inputs.example_sizes(), None)
        drawn = [_first_element(value) if k in batched else value for k, value in enumerate(drawn)]
        args, kwargs = call_arguments(inputs.names, drawn)
        names = " and ".join(inputs.names[k].lstrip("=") for k in batched)
        elements = [f"of {names} the function gets one element along axis 0"] if batched else []
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            telling_failures(plain_function(function), inputs, elements)(*args, **kwargs)
        raise error


def telling_failures(function: Callable[..., Any], inputs: Inputs, elements: Sequence[str] = ()) -> Callable[..., Any]:
    """Return the user's function, whose errors are told as such.

    Args:
        elements: what to say of arguments of which it gets one element at a time.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TracegradError:
            raise
        except Exception as own:
            sizes = [f"tried with {name} = {size}" for name, size in inputs.example_sizes().items()]
            drawn = "; --range draws floats from an interval" if inputs.types() else ""
            refuse(
                "the function fails at these inputs, without tracegrad too",
                "TG809",
                describe_failure(own),
                f"check the inputs: {', '.join([inputs.signature().describe(), *sizes, *elements])}{drawn}",
            )

    return call


def _first_element(value: Any) -> Any:
    return optree.tree_map(lambda leaf: leaf[0] if isinstance(leaf, np.ndarray) and leaf.size else leaf, value)


def _with_floats(signature: Signature) -> list[int]:
    """Return the positions of the arguments that hold floats."""
    kinds = [leaf.type.dtype for leaf in signature.leaves]
    trees = enumerate(signature.arguments)
    return [position for position, tree in trees if any(is_inexact(kinds[n]) for n in leaf_numbers(tree))]


def _element_arguments(wrt: str | None, inputs: Inputs) -> Sequence[int]:
    """Return the positions of the arguments of which `--transform vmap` gives one element at a time."""
    chosen = None if wrt is None else choose_arguments(wrt, inputs)
    return range(len(inputs.names)) if chosen is None else chosen if isinstance(chosen, tuple) else (chosen,)


def _batched_arguments(signature: Signature, inputs: Inputs, wrt: str | None) -> list[str]:
    """Return the names of the arguments that have elements, under `--transform vmap`."""
    return [
        inputs.names[position].lstrip("=")
        for position in _element_arguments(wrt, inputs)
        if any(signature.leaves[n].type.shape for n in leaf_numbers(signature.arguments[position]))
    ]


def _header(program: Program, target: str, command: str, emit: str, batched: Sequence[str]) -> str:
    """Return the comment that begins a dumped file: what it is, of what, for which inputs, and how it was made.

    Args:
        batched: the arguments through whose elements the function goes.
    """
    signature, captured, request = program.signature, program.captured, program.request
    plain = [name.lstrip("=") for name in signature.names]
    by = ", ".join(plain[a] for a in request.argnums)
    if request.kind == "vjp":
        by = ", ".join(plain[position] for position in _with_floats(signature))
    elements = f" for each element along axis 0 of {', '.join(batched)}" if batched else ""
    what = {
        "function": f"value{elements} of ",
        "grad": f"gradient by {by} of ",
        "value_and_grad": f"value and gradient by {by} of ",
        "jvp": f"value and directional derivative by {by} of ",
        "vjp": f"product of a cotangent with the Jacobian by {by} of ",
        "jacobian": f"Jacobian by {by} of ",
        "hessian": f"Hessian by {by} of ",
        "hvp": f"product of a vector with the Hessian by {by} of ",
    }
    lines = [f"{'captured function ' if emit == 'ir' else what[request.kind]}{target}"]
    taken, fixed = [], []
    for name, tree in zip(signature.names, signature.arguments, strict=True):
        for path, node in walk(tree, name.lstrip("=")):
            if node.kind == "leaf":
                taken.append(f"{path}: {signature.leaves[node.data]}")
            elif node.kind != "identity":
                fixed.append(f"{path} = {node.data[1]!r}" if node.data else f"{path} = None")
            else:
                fixed.append(f"{path}: {type(node.data.value).__name__}")
    paths = signature.paths()
    hidden = [f"{h.place.name}: {leaf}" for h, leaf in zip(captured.hidden, program.inputs[len(paths) :], strict=False)]
    directions = [] if emit == "ir" else program.inputs[len(paths) + len(hidden) :]
    interface = program.function.interface
    names = interface.arguments[-len(directions) :] if interface is not None and directions else ()
    of = "cotangents of the result" if request.kind == "vjp" else f"tangents of {by}, one for each array of it"
    results = [str(v.type) for v in captured.function.results] if emit == "ir" else [str(t) for t in program.results]
    stores = captured.effects if emit == "ir" or request.kind != "vjp" else []  # a pullback leaves all as it is
    places = captured.write_back if emit == "ir" else program.write_back
    written = [paths[i] if i < len(paths) else captured.hidden[i - len(paths)].place.name for i in places]
    sizes = size_symbols(signature)
    facts = dict.fromkeys([*(f"{name} >= 2" for name in sizes), *map(str, captured.facts)])
    by_keyword = emit == "python" and bool(pipeline.defaults_of(program))
    how = "before the last" if directions else "by keyword" if by_keyword else "last"
    rows = {
        "arguments": taken,
        "fixed in this code, whatever is passed": fixed,
        f"read from outside the function, passed {how}": hidden,
        f"{of}, passed last": [f"{name}: {leaf.type}" for name, leaf in zip(names, directions, strict=True)],
        "sizes": list(facts) if sizes else [],
        "results": results if emit != "python" else [],
        "the function writes into": written,
        "the function stores into": list(dict.fromkeys(type(e.container).__name__ for e in stores)),
    }
    lines.extend(f"{title}: {', '.join(items)}" for title, items in rows.items() if items)
    lines.append(f"made by tracegrad {VERSION}: {command}")
    lines = [" ".join(line.split()) for line in lines]
    if emit == "c":
        safe = [line.replace("/*", "/ *").replace("*/", "* /").replace("??", "? ?") for line in lines]
        return "\n".join(["/*", *(f" * {line}" for line in safe), " */"])
    return "\n".join(f"{'#' if emit == 'python' else '//'} {line}" for line in lines) + "\n"


def show_code(text: str, language: str) -> None:
    """Print code; in colour on a terminal."""
    if not sys.stdout.isatty():
        click.echo(text.rstrip("\n"))
        return
    if language == "text":
        shown = Text(text.rstrip("\n"))
        shown.highlight_regex(r"%[\w.]+", "cyan")
        shown.highlight_regex(r"\b(func|return|yield|interface|for|if|while|else)\b", "bold magenta")
        shown.highlight_regex(r"\b(bool|[iufbc]+\d+)\[[^\]]*\]", "green")
        shown.highlight_regex(r"//.*", "dim")
    else:
        shown = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text.rstrip("\n"))
    Console(highlight=False).print(shown, soft_wrap=True)


def write_file(output: str, text: str) -> None:
    """Write the text, and say so on stderr."""
    try:
        Path(output).expanduser().write_text(f"{text.rstrip()}\n", encoding="utf-8")
    except OSError as error:
        refuse(f"{output} cannot be written", "TG811", str(error), "choose another file for -o")
    click.echo(f"wrote {output} ({len(text.splitlines())} lines)", err=True)


# ---- explain --------------------------------------------------------------------------------------------------------


@main.command()
@input_options
def explain(target: str, arguments: Sequence[str], file: str | None, wrt: str | None) -> None:
    """Say what a capture makes of a function: control flow, zero gradients and why, what is read from outside.

    TARGET and the arguments are those of `tracegrad dump`.
    """
    function = load_function(target)
    inputs = bind_inputs(function, read_inputs(file, arguments))
    with readable_failures(function, inputs), contextlib.redirect_stdout(sys.stderr):
        found = explain_signature(plain_function(function), inputs.signature(), inputs.example_sizes())
    click.echo(_relative(str(found)))


# ---- check ----------------------------------------------------------------------------------------------------------


def _interval(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("write two numbers with a comma between, such as 0.1,2") from None
    if not low < high:
        raise click.BadParameter(f"{low:g} is not below {high:g}")
    return low, high


@main.command()
@input_options
@click.option("--points", type=click.IntRange(1), default=3, show_default=True, help="Number of inputs or directions.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of random inputs and directions.")
@click.option(
    "--range",
    "interval",
    callback=_interval,
    metavar="LOW,HIGH",
    help="Interval of random floats. Default: the normal distribution.",
)
@click.option("--backend", type=click.Choice(BACKENDS), multiple=True, help="Check this backend only. Default: both.")
@click.option(
    "--transform",
    type=click.Choice(TRANSFORMS),
    help="What to check besides: that there is a gradient of one float (grad); jvp and vjp against differences; the "
    "Jacobian against jvp, and in both modes; the Hessian for symmetry and against hvp; hvp against differences of the "
    "gradient; vmap against a loop over the elements (--wrt names what is batched, all by default).",
)
@aux_option
@click.option(
    "--time-limit",
    "limit_s",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Of each call of the plain function.",
)
def check(
    target: str,
    arguments: Sequence[str],
    file: str | None,
    wrt: str | None,
    points: int,
    seed: int,
    interval: tuple[float, float] | None,
    backend: tuple[str, ...],
    transform: str | None,
    has_aux: bool,
    limit_s: float,
) -> None:
    """Check the gradient of a function against finite differences.

    TARGET and inputs are as in `tracegrad dump --help`. For arguments given as types (x=f64[8,3]) random data is drawn
    at each point. The slope along random directions, by the gradient from each backend, is compared with central
    differences of the plain NumPy function, and the table shows how many digits agree. Functions whose result is no
    scalar are checked too. Forward and reverse mode are compared with each other, and with a complex step where the
    function is analytic. The rules of custom_vjp and custom_jvp that it uses are tried in all their arguments, at many
    more random inputs of several magnitudes. Exit code: 0 agreed, 1 disagreed, 2 the check could not be made.

    \b
    Examples:
      tracegrad check model.py:loss --arg "w=f64[3]" --arg "x=f64[8,3]" --wrt w,x
      tracegrad check model.py:loss --inputs batch.npz --points 10
      tracegrad check model.py:entropy --arg "p=f64[5]" --range 0.1,1
    """
    function = plain_function(load_function(target))
    inputs = bind_inputs(function, read_inputs(file, arguments))
    chosen = choose_arguments(wrt, inputs)
    if chosen is None:
        refuse("there is no gradient to check", "TG808", "--wrt none", "name arguments of the function")
    argnums = chosen if isinstance(chosen, tuple) else (chosen,)
    backends = backend or BACKENDS
    if has_aux and transform == "vmap":
        raise _misused_aux(transform)
    checked = {"": function}
    gradient = grad(function, argnums=argnums, has_aux=has_aux)
    if transform in ("hessian", "hvp"):
        checked["gradient"] = gradient
    elif transform == "vmap":
        checked[""] = transformed(function, inputs, transform, None if wrt is None else chosen)[0]
    given = [n.lstrip("=") for n, v in zip(inputs.names, inputs.values, strict=True) if Inputs([n], [v]).types()]
    advice = f"give values where it ends: --arg {given[0]}=2.0, --range 0.1,2 or --inputs; " if given else ""
    help = f"{advice}--time-limit {6 * limit_s:g} waits longer"
    told = telling_failures(function, inputs)
    plain = {of: limited(told if f is function else f, limit_s, inputs.names, help) for of, f in checked.items()}
    signature, sizes = inputs.signature(), inputs.example_sizes()
    identities: dict[tuple[str, str], float] = {}
    element = _element_arguments(wrt, inputs) if transform == "vmap" else ()
    with readable_failures(function, inputs, element), contextlib.redirect_stdout(io.StringIO()):
        nonlinear = find_nonlinear(plain[""], inputs, points, seed, interval)
    if nonlinear is not None:
        _print_nonlinear(nonlinear)
        raise click.exceptions.Exit(1)
    with readable_failures(function, inputs, element), contextlib.redirect_stdout(io.StringIO()):
        if transform in _OF_SCALARS:
            _require_scalar(gradient, transform, signature, sizes)
        discrete = transform == "vmap"  # whose values are compared
        instances = {
            of: build_instances(f, argnums, signature, sizes, backends, discrete=discrete) for of, f in checked.items()
        }
        made = instances[""]
        compared = [
            (f"{what} of the {of}" if of else what, f, argnums, digits_of)
            for of, f in checked.items()
            for what, digits_of in COMMON
        ]
        batched = [
            p for p in element if any(signature.leaves[n].type.shape for n in leaf_numbers(signature.arguments[p]))
        ]
        differentiated = without_auxiliary(function) if has_aux and transform in _OF_SCALARS else function
        compared += [
            (what, differentiated, tuple(batched) or argnums, digits_of)
            for what, digits_of in OF_TRANSFORM.get(transform or "", ())
        ]
        rng = np.random.default_rng(seed)
        rows: list[Comparison] = []
        wrong: tuple[int, list[Any], list[Comparison]] | None = None
        search = RuleSearch(checked[""], plain[""])
        started = time.monotonic()
        used: list[Mapping[str, int]] = []
        for point in range(points):
            used.append(inputs.example_sizes(point))
            values = inputs.draw(rng, used[-1], interval)
            drawn = signature_of(inputs.names, values)[0]
            if any(instance.sizes(drawn) is None for instance in made.values()):  # made for other sizes only
                used[-1] = sizes
                values = inputs.draw(rng, sizes, interval)
            found = [
                dataclasses.replace(c, of=of)
                for of, f in plain.items()
                for c in compare(f, instances[of], inputs.names, values, argnums, rng)
            ]
            rows.extend(found)
            if wrong is None and not all(c.agrees for c in found):
                wrong = point, values, [c for c in found if not c.agrees]
            search.at(inputs.names, values, rng)
            for what, f, by, digits_of in compared:
                for name in made:
                    trial = Trial.make(f, inputs.names, values, by, np.random.default_rng(seed + point), name)
                    digits = None if trial is None else digits_of(trial)
                    if digits is not None:
                        identities[what, name] = min(digits, identities.get((what, name), digits))
        try_rules(search, inputs, sizes, interval, rng, time.monotonic() - started)
        rules = list(search.found.values())
    _print_table(target, inputs, rows, tuple(made), used, seed)
    for (what, name), digits in identities.items():
        click.echo(f"{what}, backend {name}: {digits:.1f} digits agree")
    if identities:
        click.echo()
    for missing in [b for b in backends if b not in made]:
        click.echo(f"backend {missing} was not checked, see the warning")
    names = [name.lstrip("=") for name in inputs.names]
    others = [a for a in float_arguments(inputs.names, values) if a not in argnums]
    if others:
        every = ",".join(names[a] for a in sorted([*argnums, *others]))
        click.echo(f"not checked by {', '.join(names[a] for a in others)}; by all: --wrt {every}")
    if wrong is not None:
        _print_disagreement(wrong, inputs, points)
    else:
        rules = _without_left_out(rules)
    _print_wrong_rules(rules)
    if wrong is not None or rules:
        click.echo(click.style("disagreed", fg="red", bold=True))
        raise click.exceptions.Exit(1)
    if not made:
        raise click.exceptions.Exit(2)
    if any(digits < 1.5 for digits in identities.values()):
        click.echo(click.style("disagreed", fg="red", bold=True))
        raise click.exceptions.Exit(1)
    click.echo(click.style("agreed", fg="green", bold=True))


def _require_scalar(
    gradient: Callable[..., Any], transform: str, signature: Signature, sizes: Mapping[str, int]
) -> None:
    """Refuse a function that has no gradient because its result is no scalar."""
    try:
        pipeline.build_program(gradient, Request(), signature, sizes)
    except ArgumentTypeError as error:
        if error.code != "TG202":
            raise
        refuse(
            f"--transform {transform} is for a function that returns a scalar",
            "TG202",
            error.found,
            "reduce the result, for instance with np.sum, or say --has-aux for a function that returns (scalar, "
            "anything); without --transform the derivatives of all results are checked",
        )


def find_nonlinear(
    function: Callable[..., Any], inputs: Inputs, points: int, seed: int, interval: tuple[float, float] | None
) -> NonlinearRule | None:
    """Return a call at random inputs whose forward rule is not linear in the tangents."""
    rng = np.random.default_rng(seed)
    for point in range(points):
        values = inputs.draw(rng, inputs.example_sizes(point), interval)
        found = find_nonlinear_rule(function, inputs.names, values, rng)
        if found is not None:
            return found
    return None


def _print_nonlinear(found: NonlinearRule) -> None:
    call, factor = found.call, found.factor
    multiple = f"{factor:g} times the tangents" if factor else "zero tangents"
    click.echo(f"the rule of {call.name} is not linear in the tangents: for {multiple} the tangent of the result,")
    click.echo(f"summed with random weights, is {found.found:.15g}, and must be {found.expected:.15g}, at")
    with np.printoptions(threshold=60, precision=17):
        for name, value, tangent in zip(call.names, call.values, found.tangents, strict=True):
            click.echo(f"  {name.lstrip('=')} = {value!r}, with the tangent {tangent!r}")
    click.echo(click.style("disagreed", fg="red", bold=True))


def try_rules(
    search: RuleSearch,
    inputs: Inputs,
    sizes: Mapping[str, int],
    interval: tuple[float, float] | None,
    rng: np.random.Generator,
    limit_s: float,
) -> None:
    """Try the rules at more inputs of both signs and of several magnitudes, for no longer than `limit_s` seconds."""
    end = time.monotonic() + limit_s
    for number in range(_RULE_POINTS if inputs.types() else 0):
        if search.is_done() or time.monotonic() > end:
            return
        values = inputs.draw(rng, sizes, interval, _MAGNITUDES[number % len(_MAGNITUDES)])
        with contextlib.suppress(Exception):  # what the function does not take shows nothing of its rules
            search.at(inputs.names, values, rng)


def _print_table(
    target: str,
    inputs: Inputs,
    rows: Sequence[Comparison],
    backends: Sequence[str],
    used: Sequence[Mapping[str, int]],
    seed: int,
) -> None:
    click.echo(f"{target}: {inputs.signature().describe()}")
    data = "random inputs" if inputs.types() else "random directions"
    sizes = [f"{n} = {', '.join(str(s) for s in dict.fromkeys(at[n] for at in used))}" for n in used[0]]
    where = f", {'; '.join(sizes)}" if sizes else ""
    click.echo(f"digits that agree with finite differences, least of {len(used)} {data}{where}, seed {seed}\n")
    table = []
    for of, name in dict.fromkeys((row.of, row.name) for row in rows):
        cells = [f"{name or '(value)'}{f' ({of})' if of else ''}"]
        for backend in backends:
            own = [row for row in rows if (row.backend, row.of, row.name) == (backend, of, name)]
            mark = "" if all(row.agrees for row in own) else "  WRONG"
            cells.append(f"{min(row.digits for row in own):.1f}{mark}")
        table.append(cells)
    print_columns(["argument", *backends], table)
    click.echo()
    rounded = dict.fromkeys(row.name or "(value)" for row in rows if row.rounded)
    if rounded:
        click.echo(f"{', '.join(rounded)}: rounding of the result leaves the differences no more digits\n")


def _print_disagreement(wrong: tuple[int, list[Any], list[Comparison]], inputs: Inputs, points: int) -> None:
    point, values, found = wrong
    for c in found:
        click.echo(f"backend {c.backend}: the {_what(c)}, the plain function gives {c.expected:.15g}")
    if not all(c.settled for c in found):
        click.echo("differences with small steps do not settle: is there a kink or a jump near the input?")
    click.echo(f"at point {point + 1} of {points}:")
    with np.printoptions(threshold=60, precision=17):
        for name, value in zip(inputs.names, values, strict=True):
            click.echo(f"  {name.lstrip('=')} = {value!r}")


def _without_left_out(
    rules: Sequence[tuple[RuleCall, list[Comparison]]],
) -> list[tuple[RuleCall, list[Comparison]]]:
    """Return the wrong rules without what they leave out in words, the cotangents that are None."""
    found = []
    for call, comparisons in rules:
        left_out = arguments_left_out(call)
        given = [c for c in comparisons if c.name not in left_out]
        if given:
            found.append((call, given))
    return found


def _print_wrong_rules(rules: Sequence[tuple[RuleCall, list[Comparison]]]) -> None:
    with np.printoptions(threshold=60, precision=17):
        for call, comparisons in rules:
            for c in comparisons:
                click.echo(f"the rule of {call.name} is wrong: the {_what(c)}, {call.name} gives {c.expected:.15g}, at")
            for name, value in zip(call.names, call.values, strict=True):
                click.echo(f"  {name.lstrip('=')} = {value!r}")


def _what(c: Comparison) -> str:
    what = f"slope {f'of the {c.of} ' if c.of else ''}along a random direction of {c.name}" if c.name else "value"
    return f"{what} is {c.found:.15g}"


def print_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print left-aligned columns; on a terminal the header is bold, and the last column is wrapped."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    indent = " " * (sum(widths[:-1]) + 2 * len(widths[:-1]))
    for number, row in enumerate([header, *rows]):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if sys.stdout.isatty():
            line = textwrap.fill(line, shutil.get_terminal_size().columns, subsequent_indent=indent)
        click.echo(click.style(line, bold=True) if number == 0 else line)


# ---- cache ----------------------------------------------------------------------------------------------------------


@main.group()
def cache() -> None:
    """Look at the compile cache. It lies in TRACEGRAD_CACHE_DIR, else in the user's cache directory."""


def _cache() -> Cache:
    return open_cache(load_options())


def _size(size_bytes: float) -> str:
    """Return a size for people.

    >>> _size(1536)
    '1.5 KB'
    """
    for unit in ("B", "KB", "MB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GB"


def _count(entries: int) -> str:
    return f"{entries} {'entry' if entries == 1 else 'entries'}"


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


@cache.command("list")
@click.argument("name", default="")
@click.option("--limit", type=click.IntRange(0), help="How many entries, 0 for all; 50 unless given, all with --json.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@traceback_option
def list_(name: str, limit: int | None, as_json: bool) -> None:
    """List the entries whose name contains NAME, last used last."""
    found = _cache()
    every = [entry for entry in found.entries() if name in entry.name]
    if limit is None and not as_json:
        limit = 50
    entries = every[: limit or None][::-1]
    if as_json:
        described = [
            {
                "name": entry.name,
                "digest": entry.digest,
                "size_bytes": entry.size_bytes,
                "created": entry.manifest["created"],
                "last_used": entry.path.stat().st_mtime,
                "path": str(entry.path),
            }
            for entry in entries
        ]
        click.echo(json.dumps({"directory": str(found.directory), "entries": described}, indent=1))
        return
    rows = [
        [entry.name, entry.digest[:12], _size(entry.size_bytes), _time(entry.path.stat().st_mtime)] for entry in entries
    ]
    if rows:
        print_columns(["name", "digest", "size", "last used"], rows)
    if len(entries) < len(every):
        click.echo(f"the last {len(entries)}; all: --limit 0")
    total = _size(sum(entry.size_bytes for entry in every))
    click.echo(f"{_count(len(every))}, {total} of {_size(found.size_bytes)}, in {found.directory}")


@cache.command()
@click.argument("name")
@traceback_option
def why(name: str) -> None:
    """Say what the entries of a function were made from, and why one is not another.

    NAME is a name of `tracegrad cache list`, or the beginning of a digest.
    """
    found = _cache()
    entries = found.entries()
    names = list(dict.fromkeys(entry.name for entry in entries))
    if name not in names and not any(entry.digest.startswith(name) for entry in entries):
        near = difflib.get_close_matches(name, names, n=5)
        shown = f"names like it: {', '.join(near)}" if near else f"last used: {', '.join(names[:5])}"
        refuse(
            f"the cache has no entry for {name}",
            "TG812",
            f"{_count(len(entries))} in {found.directory}" + (f"; {shown}" if entries else ""),
            "give a name or the beginning of a digest from `tracegrad cache list`",
        )
    click.echo(explain_entry(found, name))


@cache.command()
@traceback_option
def verify() -> None:
    """Check every file of every entry. Exit code 1 when something is damaged."""
    findings = _cache().verify()
    bad = [finding for finding in findings if finding.problem]
    for finding in bad:
        click.echo(f"{finding.digest[:12]}: {finding.problem}")
    click.echo(f"{len(findings) - len(bad)} good, {len(bad)} damaged")
    if bad:
        click.echo(
            "damaged entries are put aside and made again when they are needed; `tracegrad cache clear` removes all"
        )
        raise click.exceptions.Exit(1)


@cache.command()
@traceback_option
def clear() -> None:
    """Remove everything from the cache; functions are compiled again when they are needed."""
    found = _cache()
    size = _size(sum(entry.size_bytes for entry in found.entries()))
    count = found.clear()
    click.echo(f"removed {_count(count)} ({size}) from {found.directory}")


# ---- ops ------------------------------------------------------------------------------------------------------------


@main.command("ops")
@click.option(
    "--field",
    type=click.Choice(["doc", "vjp", "numpy", "c", "python"]),
    default="doc",
    show_default=True,
    help="What to show: meaning, derivative, NumPy text, C text, or the functions that map to the op.",
)
@click.option("--numpy", "functions", is_flag=True, help="List the functions that captured code may call instead.")
@traceback_option
def show_ops(field: str, functions: bool) -> None:
    """Show one column of the table of ops, from which all code is made."""
    if functions:
        _print_functions(covered_functions())
        return
    views: Mapping[str, Callable[[OpDef], str]] = {
        "doc": lambda op: op.doc.splitlines()[0],
        "vjp": _derivative,
        "numpy": lambda op: op.numpy if isinstance(op.numpy, str) else _rule(op.numpy),
        "c": _c_text,
        "python": lambda op: ", ".join(_full_name(f) for f in op.python),
    }
    rows = [[name, ", ".join(TABLE[name].operands), views[field](TABLE[name])] for name in sorted(TABLE)]
    print_columns(["op", "operands", field], [[cell.replace("\n", " ") for cell in row] for row in rows])


def _print_functions(covered: Mapping[str, Sequence[str]]) -> None:
    """Print functions by module on a terminal, and one full name per line into a pipe."""
    if not sys.stdout.isatty():
        click.echo("\n".join(f"{module}.{name}" for module, names in covered.items() for name in names))
        return
    width = shutil.get_terminal_size().columns
    for module, names in covered.items():
        click.echo(click.style(module, bold=True))
        click.echo(textwrap.fill(", ".join(names), width, initial_indent="  ", subsequent_indent="  "))


def covered_functions() -> dict[str, list[str]]:
    """Return the functions that may be applied to traced values, by module."""
    found: dict[str, set[str]] = {}
    for module in LATE:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    register_late()
    for function, handler in HANDLERS.items():
        if getattr(inspect.unwrap(handler), "__name__", "").startswith("refuse"):
            continue
        if isinstance(function, tuple):
            found.setdefault("numpy", set()).add(f"{function[0].__name__}.{function[1]}")
            continue
        if str(getattr(function, "__module__", "")).startswith("scipy.") and "." in getattr(
            function, "__qualname__", ""
        ):
            continue  # a method of all distributions
        module, _, name = _full_name(function).rpartition(".")
        if module and not name.startswith("_"):
            found.setdefault(module, set()).add(name)
    return {module: sorted(found[module]) for module in sorted(found)}


def _full_name(function: Any) -> str:
    # a distribution of SciPy is an object of its class
    name = getattr(function, "__name__", None) or type(function).__name__.removesuffix("_gen")
    module = getattr(function, "__module__", None)
    if isinstance(function, np.ufunc):
        module = "numpy" if getattr(np, name, None) is function else "scipy.special"
    first, *inner = str(module or "").split(".")
    return ".".join([first.lstrip("_"), *(part for part in inner if not part.startswith("_")), name])


def _derivative(op: OpDef) -> str:
    if op.partials is not None:
        return "; ".join("none" if p is None else f"partial {_rule(p)}" for p in op.partials)
    if op.transpose is not None:
        return f"transpose {_rule(op.transpose)}"
    return f"vjp {_rule(op.vjp)}" if op.vjp is not None else repr(op.marker)


def _c_text(op: OpDef) -> str:
    if op.c:
        return op.c if isinstance(op.c, str) else _rule(op.c)
    if op.c_reduce is not None:
        return f"from {op.c_reduce[0]}, combined by {op.c_reduce[1]}"
    return f"statement {_rule(op.c_statement)}" if op.c_statement is not None else ""


def _rule(rule: Any) -> str:
    """Return a short rule as it is written, a longer one by name and place."""
    code = getattr(rule, "__code__", None)
    if code is None:
        return getattr(rule, "__name__", repr(rule))
    if code.co_name != "<lambda>":
        return f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})"
    places = [p for p in code.co_positions() if None not in p and p[2] != p[3]]
    first = min((p[0], p[2]) for p in places)
    last = max((p[1], p[3]) for p in places)
    lines = [linecache.getline(code.co_filename, number) for number in range(first[0], last[0] + 1)]
    encoded = [line.encode() for line in lines]  # columns count bytes
    encoded[-1] = encoded[-1][: last[1]]
    encoded[0] = encoded[0][first[1] :]
    return " ".join(b" ".join(encoded).decode().split())
