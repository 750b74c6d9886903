"""Composes the stages: capture, transform, passes, codegen, load. The only file that knows them all.

Reads a function and the signature of a call; gives a Specialization to api.py. Previous: specialization.py; next:
batching.py.
"""

from __future__ import annotations

import dataclasses
import os
import re
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tracegrad import codegen
from tracegrad.capture import entry
from tracegrad.capture import recursion as _recursion  # noqa: F401 stages recursive calls
from tracegrad.capture.attempts import error_name
from tracegrad.capture.sizes import SMALLEST
from tracegrad.capture.trials import check_faults, find_covered, find_missed
from tracegrad.codegen.variables import Names
from tracegrad.collector import without_collector
from tracegrad.config import Options, load_options
from tracegrad.driver.cache import Cache, open_cache
from tracegrad.driver.defaults import default_texts
from tracegrad.driver.derive import (
    TANGENTS,
    Derived,
    Request,
    derive,
    inexact_part,
    leaf_numbers,
    tree_text,
    without_aux,
)
from tracegrad.driver.key import normalize_ir, package_fingerprint
from tracegrad.driver.launch import ExecutableSpec, Source, build_executable
from tracegrad.driver.load_c import compile_c, kernel_key, load_cached
from tracegrad.driver.load_python import load_python
from tracegrad.driver.specialization import Program, Specialization, guard_trees
from tracegrad.driver.tangents import check_differentiable, require_lengths
from tracegrad.driver.toolchain import NoCompilerError, find_toolchain
from tracegrad.driver.trees import (
    ArgumentPlace,
    call_arguments,
    leaf_place,
    locate,
    owner_of_defaults,
    runtime_tree,
    size_symbols,
)
from tracegrad.errors import CompileError, Span
from tracegrad.frames import user_level
from tracegrad.ir.core import Function, Interface, clone_function, walk
from tracegrad.ir.printer import print_function
from tracegrad.ir.types import is_inexact
from tracegrad.passes.manager import default_pipeline, final_pipeline, run_passes
from tracegrad.runtime.call import Places, with_user_lines
from tracegrad.runtime.signature import Leaf, Signature, Tree, unflatten
from tracegrad.transform.vjp import vjp, without_prints

#: the backend that the capture in progress is for: batching takes another form in C than in NumPy
target_backend: ContextVar[str] = ContextVar("tracegrad_target_backend", default="numpy")

_FAULTS = re.compile(r"(= |^ *)(check|gather|scatter_\w+|solve|cholesky|inv|triangular_solve|cofactor)\b")


# ---- front: capture and transform


@without_collector
def build_program(
    function: Callable[..., Any],
    request: Request,
    signature: Signature,
    sizes: Mapping[str, int] | None = None,
    *,
    backend: str = "numpy",
) -> Program:
    """Capture a function for a signature and transform it as requested.

    Args:
        sizes: an example size for each size symbol in the signature; decides what Python must decide at capture.
        backend: what the code will be; either can be made of any program, but it suits this one.
    """
    by: set[int] = set()
    if request.kind not in TANGENTS:  # where other leaves have no tangent
        check_differentiable(request, signature)
        by = {number for argnum in request.argnums for number in leaf_numbers(signature.arguments[argnum])}
    leaves = [
        entry.Leaf(leaf.type, leaf.is_weak, path, number in by, leaf.kind == "0-d array")
        for number, (leaf, path) in enumerate(zip(signature.leaves, signature.paths(), strict=True))
    ]
    names = signature.names

    places: dict[int, tuple[Any, ArgumentPlace]] = {}

    def rebuild(values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        arguments = [unflatten(tree, values) for tree in signature.arguments]
        for position, (tree, argument) in enumerate(zip(signature.arguments, arguments, strict=True)):
            locate(tree, argument, ArgumentPlace(position, ()), places)
        return call_arguments(names, arguments)

    token = target_backend.set(backend)
    try:
        captured = entry.capture(function, leaves, rebuild, tuple(n.lstrip("=") for n in names), sizes)
    finally:
        target_backend.reset(token)
    captured.effects = [
        dataclasses.replace(e, container=places[id(e.container)][1]) if id(e.container) in places else e
        for e in captured.effects
    ]
    inputs = (*signature.leaves, *(Leaf(h.value.array_type, _kind(h.tracer)) for h in captured.hidden))
    primal = [v.array_type for v in captured.function.results]
    tree, weak = runtime_tree(captured.result)
    if request.kind != "function":
        require_lengths(request, without_aux(captured.function.name, tree, primal)[0] if request.has_aux else tree)
    if request.kind == "function":
        interface = captured.function.interface

        def build() -> Function:
            copy = clone_function(captured.function)
            copy.interface = interface
            return copy

        return Program(
            function,
            captured,
            request,
            signature,
            build,
            inputs,
            tuple(primal),
            tree,
            weak,
            dict(captured.write_back),
            owner=owner_of_defaults(function, names),
        )
    if request.kind == "push":  # the stores were made when the function ran
        captured.effects, captured.write_back = [], {}
    arguments = {a: signature.arguments[a] for a in request.argnums}
    keep = bool(captured.effects) or bool(captured.write_back)
    types = [leaf.type for leaf in inputs]
    derived = derive(request, captured.function.name, arguments, types, tree, primal, keep)
    original = captured.function.interface
    assert original is not None
    added: list[str] = []
    if request.kind in TANGENTS:
        paths = [original.paths[number] for number in derived.wrt]
        added = [f"t_{entry.leaf_name(path)}" for path in paths]
        inputs = (*inputs, *(Leaf(types[number]) for number in derived.wrt))

    def build_derivative() -> Function:
        # what is read once contributes once, and what does not change in a loop is not kept per iteration
        made = _derive_with_checks(derived, captured)
        made.name = f"{captured.function.name}_{request.kind}"
        made.interface = _extended(original, added, tree_text(derived.tree))
        return made

    weak = weak if derived.keeps else frozenset()
    return Program(
        function,
        captured,
        request,
        signature,
        build_derivative,
        inputs,
        derived.results,
        derived.tree,
        weak,
        dict(captured.write_back),
        owner=owner_of_defaults(function, names),
    )


def _derive_with_checks(derived: Derived, captured: entry.Captured) -> Function:
    """Return the derivative of a function, which fails wherever the function does: with checks of what it does not
    compute, and which may fail."""

    def derivative(checked: frozenset[Span]) -> Function:
        function = clone_function(captured.function)
        check_faults(function, checked)
        return derived.apply(run_passes(function, default_pipeline()))

    made = derivative(frozenset())
    if derived.keeps or not captured.faults:
        return made
    missed = find_missed(captured.faults, run_passes(clone_function(made), final_pipeline()))
    if missed:
        made = derivative(missed)
        covered = find_covered(missed, run_passes(clone_function(made), final_pipeline()))
        made = derivative(missed - covered) if covered else made
    return made


def _extended(interface: Interface, added: Sequence[str], result: str) -> Interface:
    """Return an interface with further arguments, called otherwise where the user's function has that name."""
    names = Names(interface.arguments)
    more = tuple(names.fresh(name) for name in added)
    return Interface((*interface.arguments, *more), (*interface.paths, *more), result)


def _kind(tracer: Any) -> str:
    if not tracer.weak:
        return "array" if tracer.ndim else "0-d array" if tracer.is_array else "scalar"
    return "complex" if tracer.dtype.kind == "c" else "float"


def build_vjp_program(
    function: Callable[..., Any],
    signature: Signature,
    sizes: Mapping[str, int] | None = None,
    *,
    count: int | None = None,
    backend: str = "numpy",
    has_aux: bool = False,
) -> Program:
    """Return the program that maps arguments and a cotangent of the result to cotangents of the arguments.

    Args:
        count: how many arguments, from the first, get a cotangent; by default all.
    """
    primal = build_program(function, Request(), signature, sizes, backend=backend)
    captured = primal.captured
    by = signature.arguments[:count]
    wrt = [n for tree in by for n in leaf_numbers(tree) if is_inexact(signature.leaves[n].type.dtype)]
    out = without_aux(captured.function.name, primal.tree, primal.results)[0] if has_aux else primal.tree
    require_lengths(Request("vjp"), out)
    seeds = [i for i in leaf_numbers(out) if is_inexact(primal.results[i].dtype)]
    tree = Tree("tuple", None, tuple(inexact_part(t, wrt) for t in by))

    def build() -> Function:
        copy = clone_function(without_prints(captured.function))
        copy.body.yields = [copy.body.yields[i] for i in seeds]
        made = vjp(run_passes(copy, default_pipeline()), wrt, keep_primal=False)
        made.name = f"{captured.function.name}_vjp"
        interface = captured.function.interface
        assert interface is not None
        added = [f"ct_{i}" if len(seeds) > 1 else "ct" for i in range(len(seeds))]
        made.interface = _extended(interface, added, tree_text(tree))
        return made

    inputs = (*primal.inputs, *(Leaf(primal.results[i]) for i in seeds))
    results = tuple(signature.leaves[i].type for i in wrt)
    request = Request("vjp", tuple(range(len(by))), False, has_aux)
    made = Program(function, captured, request, signature, build, inputs, results, tree, frozenset(), {})
    made.out = out
    return made


# ---- back: code generation and loading


def source_header(program: Program, backend: str) -> str:
    """Return comment lines that say what generated code was made for."""
    signature = program.signature
    lines = [f"made for {signature.describe() or 'no arguments'}"]
    fixed = [n.lstrip("=") for n, t in zip(signature.names, signature.arguments, strict=True) if t.kind == "static"]
    if fixed:
        lines.append(f"{', '.join(fixed)}: fixed in this code, whatever value is passed")
    decided = [signature.paths()[number] for number in sorted(program.captured.contents)]
    if decided:
        lines.append(f"{', '.join(decided)}: sizes and indices computed from it are fixed in this code")
    hidden = program.captured.hidden
    if hidden:
        where = "by keyword" if backend != "c" and defaults_of(program) else "after the arguments"
        lines.append(f"{where}: {', '.join(h.place.name for h in hidden)}, read from outside at each call")
    unrolled = [
        f"{os.path.basename(span.file)}:{span.line}: the loop is {event.removeprefix('for: ')}"
        for span, event in program.captured.events
        if span is not None and event.startswith("for: unrolled")
    ]
    lines += dict.fromkeys(unrolled)
    wrapped = [part for line in lines for part in textwrap.wrap(line, 96, subsequent_indent="  ")]
    if backend == "c":
        return "".join(f"/* {line} */\n" for line in wrapped)
    return "".join(f"# {line}\n" for line in wrapped)


@without_collector
def source_text(program: Program, backend: str) -> str:
    """Return the generated code of a program."""
    if backend == "c":
        return codegen.emit_c(program.function, threads=load_options().num_threads).text
    return codegen.emit_numpy(program.function, defaults=defaults_of(program))


def defaults_of(program: Program) -> dict[str, str]:
    """Return the texts of the defaults in the signature of NumPy source. What is read from outside goes by keyword if
    there are any; there are none where directions are passed last."""
    if program.request.kind in (*TANGENTS, "vjp"):
        return {}
    return default_texts(program.user, program.signature, program.captured.contents)


_warned_no_compiler = False


@without_collector
def compile_program(program: Program, backend: str, options: Options | None = None) -> Specialization:
    """Generate, compile and load a program."""
    options = options or load_options()
    cache = open_cache(options)
    started = time.perf_counter()
    if backend == "c":
        try:
            made = _compile_c(program, cache, options)
        except NoCompilerError as error:
            _warn_no_compiler(error)
            made = _compile_numpy(program, cache, options)
        except CompileError as error:
            if error.code != "TG620":  # what the C backend does not cover
                raise
            warnings.warn(f"{error.title}; the NumPy backend is used instead", RuntimeWarning, stacklevel=user_level())
            made = _compile_numpy(program, cache, options)
    else:
        made = _compile_numpy(program, cache, options)
    made.timings["compile"] = time.perf_counter() - started
    return made


def _warn_no_compiler(error: NoCompilerError) -> None:
    global _warned_no_compiler
    if not _warned_no_compiler:
        _warned_no_compiler = True
        warnings.warn(
            f"{error.title}, so the NumPy backend is used instead ({error.found})",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def _compile_c(program: Program, cache: Cache, options: Options) -> Specialization:
    toolchain = find_toolchain(options, cache)
    request = program.request
    key_text = _key_text(program.captured.function)
    name = f"{program.captured.function.name}_{request.kind}"
    threads = options.num_threads if toolchain.threads else 1
    key = kernel_key(
        name,
        key_text,
        toolchain,
        options,
        generator=package_fingerprint(),
        request=f"{request.kind} {request.argnums} {request.has_aux}",
        threads=str(threads),
    )
    library = load_cached(key, cache)
    cached = library is not None
    if library is None:
        code = codegen.emit_c(program.function, threads=threads)
        library = compile_c(
            code.text, code.name, cache=cache, options=options, key=_renamed(key, code.name), metadata={}
        )
    spec = _spec(program, kernel=True)
    places = _places(lambda: program.function)
    flat = build_executable(_flat(spec), library, cache=cache, options=options, places=places)
    direct = None
    if spec.is_direct() and _is_direct(program):
        direct = build_executable(spec, library, cache=cache, options=options, places=places)
    return Specialization(program, "c", flat, spec, direct, cached=cached)


def _key_text(function: Function) -> str:
    """Return IR text without source positions, except for operations whose errors name the line."""
    lines = print_function(function).splitlines()
    return "\n".join(line if _FAULTS.search(line) else normalize_ir(line) for line in lines)


def _renamed(key: Any, name: str) -> Any:
    return dataclasses.replace(key, name=name)


def _is_direct(program: Program) -> bool:
    """Return whether calls need no work in Python: no stores into objects, no keyword-only names, no facts to check, no
    room that may be too small."""
    captured = program.captured
    if captured.effects or captured.facts or captured.rooms:
        return False
    return not any(n.startswith("=") for n in program.signature.names)


def _compile_numpy(program: Program, cache: Cache, options: Options) -> Specialization:
    function = program.function
    interface = function.interface
    assert interface is not None
    flat_function = Function(function.name, function.body, _flat_interface(function))
    flat = _load_with_lines(flat_function)
    spec = _spec(program, kernel=False)
    direct = None
    plain = not program.weak and not program.write_back and not program.captured.laid_out and _is_plain(program.tree)
    if plain and spec.is_direct() and _is_direct(program):
        target = _load_with_lines(function)
        direct = build_executable(spec, target=target, cache=cache, options=options)
    return Specialization(program, "numpy", flat, spec, direct)


def _load_with_lines(function: Function) -> Callable[..., Any]:
    @without_collector
    def load() -> tuple[Callable[..., Any], str]:
        text = codegen.emit_numpy(function)
        return load_python(text, function.name), text

    return with_user_lines(load, _places(lambda: function))


def _places(function: Callable[[], Function]) -> Places:
    """Return the places of the operations of a function, and of those that it calls."""

    def operations() -> Iterator[tuple[Span, str]]:
        waiting = [function()]
        for caller in waiting:
            for operation in walk(caller.body):
                callee = operation.attrs.get("function")
                if isinstance(callee, Function) and callee not in waiting:
                    waiting.append(callee)
                if operation.span is not None:
                    yield operation.span, error_name(operation)

    return Places(operations)


def _flat_interface(function: Function) -> Interface:
    names = tuple(f"input_{i}" for i in range(len(function.params)))
    results = "".join(f"{{{i}}}, " for i in range(len(function.results)))
    return Interface(names, names, f"({results})")


def _is_plain(tree: Tree) -> bool:
    return tree.kind in ("leaf", "none", "tuple", "list", "dict") and all(_is_plain(c) for c in tree.children)


def _flat(spec: ExecutableSpec) -> ExecutableSpec:
    tree = Tree("tuple", None, tuple(Tree("leaf", i, ()) for i in range(len(spec.results))))
    return dataclasses.replace(spec.flat(), result=tree)


def _spec(program: Program, *, kernel: bool) -> ExecutableSpec:
    signature, captured = program.signature, program.captured
    first = len(signature.leaves)
    sources = [Source(tree, place.base, steps=place.steps) for place, tree in guard_trees(captured, first)]
    for number, content in captured.contents.items():
        position, steps = leaf_place(signature, number)
        kept: Any = (bytes, content)
        method = "tobytes"
        if signature.leaves[number].kind == "float":
            kept, method = (str, float(np.frombuffer(content)[0]).hex()), "hex"
        tree = Tree("static", kept, ())
        sources.append(Source(tree, argument=position, steps=(*steps, ("attribute", method), ("call", None))))
    for number, hidden in enumerate(captured.hidden):
        tree = Tree("leaf", first + number, ())
        sources.append(Source(tree, hidden.place.base, steps=hidden.place.steps, passed=True))
    return ExecutableSpec(
        names=signature.names,
        arguments=signature.arguments,
        inputs=program.inputs,
        results=program.results,
        result=program.tree,
        sources=tuple(sources),
        write_back=program.write_back if kernel else {},
        minimums=dict.fromkeys(size_symbols(signature), SMALLEST),
        python_results=program.weak,
        owner=program.owner,
    )
