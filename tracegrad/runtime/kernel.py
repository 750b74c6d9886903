"""Compositions of table ops for operands of given types, and their derivatives: what the nodes of the tape run.

Reads a function written for NumPy arrays (`lambda x, y: x * y`) and the types of its operands; traces it into IR, and
makes two functions of that: the value, and the pullback, each compiled through codegen/numpy_source.py when first
run. The pullback is built from the VJP rules of the op table, so there is no second table of gradients; and it is a
function in IR itself, so its own pullback follows in the same way, to any order. Previous: often.py; next: dtypes.py.

What a node must keep is not declared: it is what the pullback reads after dead code is gone.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import operator
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from tracegrad.capture import numpy_api as _numpy_api  # noqa: F401 fills the handlers
from tracegrad.capture.context import Capture, Storage, capturing
from tracegrad.capture.sizes import as_size
from tracegrad.capture.tracer import Tracer, asarray
from tracegrad.codegen.numpy_source import emit_numpy
from tracegrad.driver.load_python import load_python
from tracegrad.errors import ArgumentTypeError, ShapeError, TracedValueError
from tracegrad.ir.builder import Builder
from tracegrad.ir.core import Block, Function, Operation, Value, clone_function, clone_operation, walk
from tracegrad.ir.opdef import BY_TRANSFORM, NONDIFF, TABLE, interpreter
from tracegrad.ir.types import ArrayType, is_inexact
from tracegrad.ops.common import jvp_of, vjp_of, zeros_like
from tracegrad.ops.elementwise import add
from tracegrad.passes.blends import blend_choices
from tracegrad.passes.dce import eliminate_dead_code
from tracegrad.passes.manager import final_pipeline, run_passes
from tracegrad.passes.small import suit_small_arrays
from tracegrad.passes.wide_sums import widen_sums
from tracegrad.runtime import dtypes
from tracegrad.runtime.engine import engine
from tracegrad.runtime.layout import ROWS
from tracegrad.runtime.often import calls_before_c, in_c
from tracegrad.transform.residuals import plan_residuals
from tracegrad.transform.vjp import vjp

Array = np.ndarray[Any, Any]

#: kernels kept per composition; past that the memory starts anew
MAX_KERNELS = 4096


def quiet_context() -> contextvars.Context:
    """Return a new context in which NumPy does not warn: entering it costs a tenth of np.errstate."""
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    return context


class _Quiet(threading.local):
    """The way into such a context, per thread."""

    def __init__(self) -> None:
        self.run = quiet_context().run


_quiet = _Quiet()


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without NumPy's warnings."""
    try:
        return _quiet.run(function, *args)
    except RuntimeError as error:
        if "already entered" not in str(error):
            raise
    with np.errstate(all="ignore"):  # called by a finalizer or signal handler in the midst of another kernel
        return function(*args)


def _with_own_results(run: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results of rank 0 are new arrays, where the text gives an operand: `x if c else y`; and
    the elements of others lie in their order, where the text gives a flipped view."""

    def own(out: Any) -> Any:
        is_odd = type(out) is np.ndarray and min(out.strides, default=-1) < 0
        return out.copy() if is_odd else out

    def call(*arrays: Array) -> Any:
        out = run(*arrays)
        return tuple(map(own, out)) if type(out) is tuple else own(out)

    return call


class Kernel:
    """A function in IR with its compiled forms.

    Attributes:
        name: of the composition, for source text.
        function: the IR.
        single: whether it has exactly one result.
        layout: which strides its results get (layout.py); None for those that come about.
        kept: so many of the last results are none of the operation's, but kept for its pullback.
        numbers: see Composition.
    """

    __slots__ = (
        "_depends", "_jvps", "_make", "_made", "_partial", "_pullbacks", "_run", "kept", "layout", "name", "numbers",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        make: Callable[[], Function],
        layout: str | None = None,
        kept: int = 0,
        *,
        numbers: bool = False,
    ) -> None:
        self.name, self._make, self.layout, self.kept, self.numbers = name, make, layout, kept, numbers
        self._made: Function | None = None
        self._depends: list[int] | None = None
        self._run: Callable[..., Any] | None = None
        self._pullbacks: dict[int, Pullback] = {}
        self._partial: dict[tuple[int, tuple[bool, ...]], Pullback] = {}
        self._jvps: dict[tuple[bool, ...], tuple[Kernel, tuple[int, ...]]] = {}

    @property
    def function(self) -> Function:
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def depends(self) -> list[int]:
        """The operands that each result is computed from, a bit per operand."""
        if self._depends is None:
            self._depends = _dependences(self.function)
        return self._depends

    @property
    def single(self) -> bool:
        return len(self.function.results) == 1

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """Return the results for operands of the right types: new arrays, without NumPy's warnings."""
        out = quietly(self._run or self.compile(), *arrays)
        if type(out) is np.ndarray:
            return (out,)
        if type(out) is not tuple:
            return (np.asarray(out),)
        for x in out:
            if type(x) is not np.ndarray:
                return tuple(map(np.asarray, out))
        return out

    def compile(self) -> Callable[..., Any]:
        made = load_python(self.source(), self.function.name, self.name)
        has_numbers = any(v.type == ArrayType(v.dtype) for v in self.function.results)
        operations = [*walk(self.function.body)]
        turns = any(o.op == "flip" or o.attrs.get("reverse") for o in operations)
        if turns or (has_numbers and any(o.op == "select" for o in operations)):
            made = _with_own_results(made)
        calls = calls_before_c(self.function)
        self._run = made if calls is None else self._counted(made, calls)
        return self._run

    def _counted(self, run: Callable[..., Any], left: int) -> Callable[..., Any]:
        """Return a function that runs the kernel, and after so many calls has it run in C."""

        def counted(*arrays: Array) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                self._run = in_c(self.function, run)
                return self._run(*arrays)
            return run(*arrays)

        return counted

    def source(self) -> str:
        """Return the NumPy text that runs."""
        passes = [widen_sums, *final_pipeline(), suit_small_arrays, blend_choices]
        function = run_passes(clone_function(self.function), passes)
        return emit_numpy(function, comments=False, warnings=False)

    def pullback(self, mask: int) -> Pullback:
        """Return the pullback for the operands whose bit is set."""
        made = self._pullbacks.get(mask)
        if made is None:
            made = self._pullbacks[mask] = build_pullback(self, mask)
        return made

    def pullback_of_some(self, mask: int, present: tuple[bool, ...]) -> Pullback:
        """Return the pullback that takes no cotangents for some results, for those are zero."""
        made = self._partial.get((mask, present))
        if made is None:
            made = self._partial[mask, present] = build_pullback(self, mask, present)
        return made

    def jvp(self, has: tuple[bool, ...]) -> tuple[Kernel, tuple[int, ...]]:
        """Return the kernel (operands, tangents of the operands that have one) -> tangents, and the results they
        belong to."""
        made = self._jvps.get(has)
        if made is None:
            made = self._jvps[has] = _build_jvp(self, has)
        return made


class Pullback:
    """Cotangents of operands from cotangents of results.

    Attributes:
        primal, mask: the kernel whose pullback it is, and a bit per operand that gets a cotangent.
        kernel: its operands are what `reads` says, then one cotangent per result, of those in `present`.
        reads: ("in", k) for operand k of the primal, ("out", k) for result k.
        gives: per result of the kernel, the operand whose cotangent it is; operands left out get none.
        in_order: these are the first operands, in order.
        present: per result, whether the kernel takes its cotangent.
        fast: the kernel without guards for cotangents that are zero where the slope is not finite; its results are
            right if they are finite. None where there are no guards.
        skipped: what the rules read but the kernel does not, since there are no elements that could matter; ("ct", k)
            for the cotangent k that the kernel takes.
        brief: the fast kernel, or else the kernel, that takes between `reads` and the cotangents what `shorten` keeps.
        numbers: see Composition.
    """

    __slots__ = (
        "brief", "fast", "gives", "in_order", "kernel", "mask", "numbers", "present", "primal", "reads", "skipped",
    )  # fmt: skip

    def __init__(
        self,
        primal: Kernel,
        mask: int,
        kernel: Kernel,
        reads: tuple[tuple[str, int], ...],
        gives: tuple[int, ...],
        present: tuple[bool, ...],
        fast: Kernel | None = None,
        skipped: tuple[tuple[str, int], ...] = (),
    ) -> None:
        self.primal, self.mask, self.kernel, self.reads, self.gives = primal, mask, kernel, reads, gives
        self.present, self.fast, self.skipped = present, fast, skipped
        self.in_order = gives == tuple(range(len(gives)))
        self.brief: Kernel | None = None
        self.numbers = primal.numbers

    def shorten(self) -> Kernel | None:
        """Set `brief`, and return the primal with values as last results that the pullback would compute again.

        None if there are none that are worth keeping.
        """
        made = _keep_values(self)
        if made is None:
            return None
        keeping, self.brief = made
        return keeping


class Composition:
    """A function of arrays in NumPy's terms, and its kernels by operand types.

    Args:
        name: torch's name of the operation, without "Backward".
        function: `function(*static, *operands)`; what it applies is staged.
        overload: the number at the end of the node's name.
        title: the node's name, where torch makes the result by an operation of another name.
        layout: which strides its results get (layout.py).
        numbers: all that a pullback reads is numbers of the call: no backward pass frees them.
    """

    __slots__ = ("function", "kernels", "layout", "name", "node_name", "numbers", "table")

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        *,
        overload: int = 0,
        title: str = "",
        layout: str | None = ROWS,
        numbers: bool = False,
    ) -> None:
        self.name, self.function, self.layout, self.numbers = name, function, layout, numbers
        self.node_name = title or f"{name}Backward{overload}"
        self.kernels: dict[Hashable, Kernel] = {}
        self.table: Any = None  # of engine.c

    def kernel(self, static: tuple[Any, ...], arrays: Sequence[Array]) -> Kernel:
        """Return the kernel for arrays like these."""
        if len(arrays) == 1:
            full: Hashable = (static, arrays[0].dtype, arrays[0].shape)
        elif len(arrays) == 2:
            x, y = arrays
            full = (static, x.dtype, x.shape, y.dtype, y.shape)
        else:
            full = (static, *[(array.dtype, array.shape) for array in arrays])
        made = self.kernels.get(full)
        if made is None:
            types = [ArrayType(array.dtype, array.shape) for array in arrays]
            if len(self.kernels) >= MAX_KERNELS:
                self.kernels.clear()
            made = Kernel(
                self.name, lambda: trace(self.name, self.function, static, types), self.layout, numbers=self.numbers
            )
            self.kernels[full] = made
        return made


def trace(name: str, composition: Callable[..., Any], static: Sequence[Any], types: Sequence[ArrayType]) -> Function:
    """Stage a composition for operands of these types."""
    state = Capture(composition, {}, as_size)
    function = Function("kernel", state.builder.block)
    with capturing(state):
        tracers = []
        for k, type in enumerate(types):
            param = Value(type, f"x{k}" if k > 2 else "xyz"[k])
            function.body.params.append(param)
            tracers.append(Tracer(Storage(type, 0, param)))
        try:
            returned = composition(*static, *tracers)
        except (TracedValueError, ShapeError) as error:
            raise RuntimeError(str(error)) from None
        except ArgumentTypeError:
            title = dtypes.of(max((type.dtype for type in types), key=dtypes.category)).title
            raise NotImplementedError(f"\"{name.lower()}_cpu\" not implemented for '{title}'") from None
        results = returned if isinstance(returned, tuple | list) else (returned,)
        function.body.yields = [asarray(x).value for x in results]
    eliminate_dead_code(function)
    return function


def _reached(function: Function, wanted: set[int]) -> set[Value]:
    """Return the values that depend smoothly on the parameters `wanted`."""
    active = {p for k, p in enumerate(function.params) if k in wanted and is_inexact(p.dtype)}
    for operation in function.body.operations:
        if TABLE[operation.op].marker is NONDIFF:
            continue
        if operation.blocks or any(v in active for v in operation.operands):
            active.update(r for r in operation.results if isinstance(r.type, ArrayType) and is_inexact(r.dtype))
    return active


def _dependences(function: Function) -> list[int]:
    """Return the parameters that each result is computed from, a bit per parameter."""
    found = {param: 1 << k for k, param in enumerate(function.params)}
    for operation in function.body.operations:
        mask = functools.reduce(operator.or_, [found.get(v, 0) for v in operation.operands], 0)
        if operation.blocks:
            mask = (1 << len(function.params)) - 1
        found.update((r, mask) for r in operation.results)
    return [found.get(r, 0) for r in function.results]


def build_pullback(kernel: Kernel, mask: int, present: tuple[bool, ...] | None = None) -> Pullback:
    """Build the pullback of a kernel from the rules of the op table, for the cotangents of all results or of some."""
    function = kernel.function
    present = present or (True,) * len(function.results)
    wanted = [k for k in range(len(function.params)) if mask >> k & 1]
    if any(TABLE[o.op].marker is BY_TRANSFORM for o in function.body.operations):
        return _transformed_pullback(kernel, mask, wanted)
    full = _Sweep(function, wanted, present, guarded=True)
    used = full.used()
    reads = full.entries(used)
    fast = None
    if full.has_guards:
        plain = _Sweep(function, wanted, present, guarded=False)
        if plain.used() <= {plain.kept(read) for read in reads} | set(plain.cts):
            fast = plain.kernel(f"{kernel.name}Backward", reads)
    derived, unread = full.kernel(f"{kernel.name}Backward", reads), full.asked - used
    skipped = (*full.entries(unread), *(("ct", k) for k, ct in enumerate(full.cts) if ct in unread))
    return Pullback(kernel, mask, derived, tuple(reads), full.gives, present, fast, skipped)


class _Sweep:
    """The cotangents of a function's operands from those of its results, in IR.

    Attributes:
        params, outs, cts: operands, results, and cotangents of the results that have one.
        gives: the operands that get a cotangent.
        asked: where there are arrays without elements, the operands, results and cotangents that the rules read.
        has_guards: some slope can be infinite, so that a guarded sweep differs from one that is not.
    """

    def __init__(self, function: Function, wanted: Sequence[int], present: Sequence[bool], *, guarded: bool) -> None:
        self.block = block = Block()
        self.params = params = [Value(p.type, p.name) for p in function.params]
        self.outs = [Value(r.type, f"out{k}" if k else "out") for k, r in enumerate(function.results)]
        arriving_at = {k: Value(r.type, f"ct{k}" if k else "ct") for k, r in enumerate(function.results) if present[k]}
        self.cts = list(arriving_at.values())
        self.has_guards = False
        mapping = dict(zip(function.params, params, strict=True))
        known = dict(zip(function.results, self.outs, strict=True))
        for operation in function.body.operations:
            block.operations.append(clone_operation(operation, mapping))
            mapping.update((r, known[r]) for r in operation.results if r in known)
        active = _reached(function, set(wanted))
        found: dict[Value, Value] = {}
        with interpreter(Builder(block)):
            for k, ct in arriving_at.items():
                result = function.results[k]
                if is_inexact(result.dtype):
                    found[result] = add(found[result], ct) if result in found else ct
            for operation in reversed(function.body.operations):
                arriving = [found.get(r) for r in operation.results]
                if not any(v in active for v in operation.operands) or all(ct is None for ct in arriving):
                    continue
                singular = any(TABLE[operation.op].singular) and not _divides_by_constant(operation)
                self.has_guards |= singular
                given = vjp_of(
                    TABLE[operation.op],
                    arriving,
                    [mapping[r] for r in operation.results],
                    [mapping[v] for v in operation.operands],
                    operation.attrs,
                    guard=guarded and singular,
                )
                for operand, ct in zip(operation.operands, given, strict=True):
                    if ct is not None and operand in active:
                        found[operand] = add(found[operand], ct) if operand in found else ct
            reached = -1  # the cotangent of an operand that has no part in what has a cotangent is none at all
            if not all(present):
                reached = functools.reduce(operator.or_, itertools.compress(_dependences(function), present), 0)
            for k in wanted:
                if is_inexact(params[k].dtype) and reached >> k & 1:
                    found.setdefault(function.params[k], zeros_like(params[k]))
        self.gives = tuple(k for k in wanted if function.params[k] in found)
        block.yields = [found[function.params[k]] for k in self.gives]
        self.function = Function("pullback", block)
        eliminate_dead_code(self.function)
        is_empty = any(0 in v.shape for v in (*params, *self.outs))
        self.asked = self.used() if is_empty else set()
        run_passes(self.function)

    def used(self) -> set[Value]:
        """Return the operands, results and cotangents that are read."""
        used = set(self.block.yields)
        for operation in self.block.operations:
            used.update(operation.operands)
        return used & {*self.params, *self.outs, *self.cts}

    def entries(self, values: set[Value]) -> list[tuple[str, int]]:
        """Return the operands and results among some values, as entries of Pullback.reads."""
        found = [("in", k) for k, p in enumerate(self.params) if p in values]
        return found + [("out", k) for k, o in enumerate(self.outs) if o in values]

    def kept(self, read: tuple[str, int]) -> Value:
        """Return the operand or result that an entry of Pullback.reads means."""
        return (self.params if read[0] == "in" else self.outs)[read[1]]

    def kernel(self, name: str, reads: Sequence[tuple[str, int]]) -> Kernel:
        """Return the sweep as a kernel whose operands are what `reads` says and the cotangents."""
        self.block.params = [*map(self.kept, reads), *self.cts]
        return Kernel(name, lambda: self.function)


def _keep_values(pullback: Pullback) -> tuple[Kernel, Kernel] | None:
    """Return the primal that also gives the values that are kept, and the pullback that takes them."""
    name, sweep = pullback.kernel.name, (pullback.fast or pullback.kernel).function
    given, cts = sweep.params[: len(pullback.reads)], sweep.params[len(pullback.reads) :]
    if not given or any(operation.blocks for operation in sweep.body.operations):
        return None
    moved, needed = set(cts), dict.fromkeys(sweep.body.yields)
    own: list[Operation] = []  # what is computed from operands and results alone
    for operation in sweep.body.operations:
        if moved.isdisjoint(operation.operands):
            own.append(operation)
        else:
            moved.update(operation.results)
            needed.update(dict.fromkeys(operation.operands))
    extra = _not_in_primal(pullback, own)
    stored = plan_residuals(sweep.body, [v for v in needed if v not in moved], free=given, repeated=extra).stored
    if not stored or len(given) + len(stored) + len(pullback.present) > engine.MAX_OPERANDS:
        return None
    kept = [Value(v.type, v.name) for v in stored]
    brief = Block([Value(p.type, p.name) for p in given] + kept + [Value(ct.type, ct.name) for ct in cts])
    known = dict(zip([*given, *stored, *cts], brief.params, strict=True))
    for operation in sweep.body.operations:
        brief.operations.append(clone_operation(operation, known))
        known.update(zip(stored, kept, strict=True))
    brief.yields = [known[v] for v in sweep.body.yields]
    shortened = Function("pullback", brief)
    eliminate_dead_code(shortened)
    run_passes(shortened)
    keeping = _with_values(pullback, own, stored)
    return Kernel(pullback.primal.name, lambda: keeping, kept=len(stored)), Kernel(name, lambda: shortened)


def _with_values(pullback: Pullback, operations: Sequence[Operation], wanted: Sequence[Value]) -> Function:
    """Return the primal with values that the pullback computes as further results."""
    made = clone_function(pullback.primal.function)
    ends = {"in": made.params, "out": made.results}
    sweep = (pullback.fast or pullback.kernel).function
    computed = {value: ends[kind][k] for value, (kind, k) in zip(sweep.params, pullback.reads, strict=False)}
    made.body.operations += [clone_operation(operation, computed) for operation in operations]
    made.body.yields = [*made.results, *[computed[v] for v in wanted]]
    eliminate_dead_code(made)
    return run_passes(made)


def _not_in_primal(pullback: Pullback, operations: Sequence[Operation]) -> set[Operation]:
    """Return those of the pullback's operations that the primal does not do for its own results."""
    results = [operation.results[0] for operation in operations]
    count = len(pullback.primal.function.results)
    both = _with_values(pullback, operations, results)
    done: set[Value] = set()
    waiting = list(both.results[:count])
    while waiting:
        value = waiting.pop()
        if value not in done:
            done.add(value)
            waiting += [] if value.producer is None else value.producer.operands
    return {o for o, value in zip(operations, both.results[count:], strict=True) if value not in done}


def _divides_by_constant(operation: Any) -> bool:
    if operation.op != "divide" or operation.operands[1].producer is None:
        return False
    producer = operation.operands[1].producer
    while producer.op in ("broadcast_to", "reshape") and producer.operands[0].producer is not None:
        producer = producer.operands[0].producer
    value = producer.attrs.get("value")
    return value is not None and bool(np.all(np.isfinite(value)) and np.all(value))


def _transformed_pullback(kernel: Kernel, mask: int, wanted: Sequence[int]) -> Pullback:
    """Build the pullback of a function with loops or branches."""
    function = kernel.function
    made = vjp(function, [k for k in wanted if is_inexact(function.params[k].dtype)], keep_primal=False)
    gives = tuple(k for k in wanted if is_inexact(function.params[k].dtype))
    count = len(function.params)
    run_passes(made, final_pipeline())
    inputs, rest = made.params[:count], list(made.params[count:])
    cts = [rest.pop(0) if is_inexact(r.dtype) else Value(r.type, "unused") for r in function.results]
    made.body.params = [*inputs, *cts]
    reads = tuple(("in", k) for k in range(count))
    derived = Kernel(f"{kernel.name}Backward", lambda: made)
    return Pullback(kernel, mask, derived, reads, gives, (True,) * len(function.results))


def _build_jvp(kernel: Kernel, has: tuple[bool, ...]) -> tuple[Kernel, tuple[int, ...]]:
    function = kernel.function
    block = Block([Value(p.type, p.name) for p in function.params])
    mapping = dict(zip(function.params, block.params, strict=True))
    tangents: dict[Value, Value] = {}
    for param, given in zip(function.params, has, strict=True):
        if given:
            tangents[param] = Value(param.type, f"t_{param.name}")
            block.params.append(tangents[param])
    with interpreter(Builder(block)):
        for operation in function.body.operations:
            block.operations.append(clone_operation(operation, mapping))
            arriving = [tangents.get(v) for v in operation.operands]
            if all(t is None for t in arriving):
                continue
            moved = jvp_of(
                TABLE[operation.op],
                arriving,
                [mapping[r] for r in operation.results],
                [mapping[v] for v in operation.operands],
                operation.attrs,
            )
            tangents.update((r, t) for r, t in zip(operation.results, moved, strict=True) if t is not None)
        results = tuple(k for k, r in enumerate(function.results) if r in tangents)
        block.yields = [tangents[function.results[k]] for k in results]
    made = Function("tangents", block)
    return Kernel(f"{kernel.name}Jvp", lambda: run_passes(made)), results
