"""Writes a function of the IR as C99: one translation unit that needs neither Python nor any other file.

Reads IR, writes C text. Previous: c_blocks.py; next folder: driver.

The interface of the text, for a function `f` with parameters x, results y, and size symbols n (in sorted order):

    int f(const double *restrict x, double *restrict y, int64_t n, void *workspace);   0, or the kind of an error
    int64_t f_workspace(int64_t n);                                                    bytes of workspace
    int f_entry(void *const *pointers, const int64_t *sizes, void *workspace, void *error);   error: a tg_error
    void f_release(void *workspace);                     only when the workspace holds memory that grows
    void f_set_blas(const tg_blas *routines);            only when the text has matrix products

Arrays are row-major; results are distinct from parameters and from each other. The workspace is zeroed before its first
use, aligned to 64 bytes, and may be kept between calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from tracegrad.codegen.c_blocks import BlockWriter
from tracegrad.codegen.c_elements import is_few, points
from tracegrad.codegen.c_expression import (
    CTYPES,
    PRODUCT,
    UNARY,
    index_text,
    wrap,
)
from tracegrad.codegen.c_library import (
    avoid_masked_groups,
    head_comment,
    head_for,
    prelude_for,
    vector_maths,
    without_comments,
)
from tracegrad.codegen.c_parts import take_out_loops
from tracegrad.codegen.c_writer import ERROR_KINDS, INDENT, WORD, Line, Memory
from tracegrad.ir.bounds import static_value
from tracegrad.ir.core import (
    Function,
    Operation,
    Value,
    walk,
)
from tracegrad.ir.types import symbol

__all__ = ["ERROR_KINDS", "CSource", "emit_c"]


@dataclass(frozen=True, slots=True)
class CSource:
    """The C text of a function.

    Attributes:
        text: the translation unit.
        name: the name of the kernel function in it.
        sizes: size symbols in the order of the arguments.
        entry: name of the function with the uniform interface.
    """

    text: str
    name: str
    sizes: tuple[str, ...]

    @property
    def entry(self) -> str:
        return f"{self.name}_entry"


def emit_c(function: Function, *, comments: bool = True, threads: int = 1) -> CSource:
    """Return the C text of a function; CompileError when it uses what C cannot express.

    Args:
        threads: on how many threads loops over many independent elements run; the text uses pthreads if there are some.
    """
    return _Emitter(take_out_loops(function) if threads > 1 else function, comments, threads).emit()


class _Emitter(BlockWriter):
    """Puts the text together.

    Args:
        callees: functions that are called, and what writes them; None for the kernel itself.
        loop: the `parallel` whose elements the function does.
    """

    def __init__(
        self,
        function: Function,
        comments: bool,
        threads: int,
        callees: dict[Function, _Emitter] | None = None,
        loop: Operation | None = None,
    ) -> None:
        super().__init__(function, comments)
        self.threads, self.loop = threads, loop
        self.is_callee = callees is not None
        self.callees: dict[Function, _Emitter] = {} if callees is None else callees
        self.main = self
        self.file_names.add(self.kernel)
        self.has_calls = any(o.op == "call" for o in walk(self.function.body))
        self.has_faults = self.is_callee or any(o.op in ("call", "parallel") for o in walk(self.function.body))
        if loop is not None:
            low, high = (self.sizes(dim) for dim in map(static_value, loop.operands[:2]) if dim is not None)
            for param in self.function.params[:2]:
                self.ranges[self.parameters[param]] = (low, high)
                self.open_indices.append(self.parameters[param])

    def emit(self) -> CSource:
        declarations, parts = self.sections()
        tables = list(self.table_texts)
        for callee in (waiting := list(self.callees.values())):
            own_declarations, own_parts = callee.sections()
            waiting += [c for c in self.callees.values() if c not in waiting]
            declarations += own_declarations
            parts += own_parts
            tables += callee.table_texts
        return CSource(self.assemble(declarations, tables, parts), self.kernel, self.size_symbols)

    def call(self, operation: Operation, arguments: Sequence[str]) -> None:
        callee = self.callee(operation)
        if operation.op == "parallel":
            self.run_parts(operation, arguments, callee)
            return
        sizes = [self.size_names[s] for s in callee.size_symbols]
        size, local, heap = (self.fresh(n) for n in ("bytes", "local", "heap"))
        inner, kind = self.fresh("inner"), self.fresh("kind")
        scalars: list[tuple[Value, str]] = []
        passed = list(arguments)
        for result in operation.results:
            if result.shape:
                passed.append(self.pointer(result))
            else:
                scalars.append((result, self.fresh(f"{result.name or 'result'}_out")))
                passed.append(f"&{scalars[-1][1]}")
        with self.braces(""):
            self.fault("tg_is_deep(workspace)", "RuntimeError", "maximum recursion depth exceeded", operation.span)
            self.line(f"const int64_t {size} = {callee.kernel}_workspace({', '.join(sizes)});")
            self.line(f"char {local}[{size} <= 512 ? {size} + 64 : 1];")
            self.line(f"char *const {heap} = {size} <= 512 ? NULL : malloc((size_t){size} + 64);")
            message = "no memory for a recursive call"
            self.fault(f"{size} > 512 && !{heap}", "MemoryError", message, operation.span)
            memory = f"{heap} ? {heap} : {local}"
            self.line(f"void *const {inner} = tg_enter({memory}, {callee.kernel}_header, workspace);")
            for result, name in scalars:
                self.line(f"{self.ctype(result.dtype)} {name};")
            self.line(f"const int {kind} = {callee.kernel}({', '.join([*passed, *sizes, inner])});")
            self.line(f"{callee.kernel}_release({inner});")
            self.line(f"if ({kind}) *(tg_error *)workspace = *(const tg_error *){inner};")
            self.line(f"free({heap});")
            self.line(f"if ({kind}) return {kind};")
            for result, name in scalars:
                self.assign(self.store(result, ()), name)

    def callee(self, operation: Operation) -> _Emitter:
        """Return what writes the function that an operation names."""
        function: Function = operation.attrs["function"]
        if function not in self.callees:
            loop = operation if operation.op == "parallel" else None
            made = _Emitter(function, self.comments, self.threads, self.callees, loop)
            made.main, made.file_names = self.main, self.file_names
            made.kernel = next(n for n in _numbered(made.kernel) if n not in self.file_names | self.names)
            self.file_names.add(made.kernel)
            self.callees[function] = made
        return self.callees[function]

    def run_parts(self, operation: Operation, arguments: Sequence[str], callee: _Emitter) -> None:
        """Write the run of a loop over elements in parts."""
        sizes = [self.size_names[s] for s in callee.size_symbols]
        first, last, *inputs = arguments
        every = [f"(void *){wrap(a, UNARY)}" for a in inputs]
        every += [self.pointer(result) for result in operation.results]
        part_bytes = f"tg_aligned({callee.kernel}_workspace({', '.join(sizes)}))"
        memory = self.fresh("parts")
        self.memory.append(Memory(memory, "char", symbol(f"TG_THREADS*{part_bytes}")))
        self.comment(operation.span)
        with self.braces(""):
            pointers, size_array, whole, kind = (self.fresh(n) for n in ("pointers", "sizes", "whole", "kind"))
            self.line(f"void *const {pointers}[] = {{{', '.join(every)}}};")
            self.line(f"const int64_t {size_array}[] = {{{', '.join(sizes) or '0'}}};")
            values = f"{callee.kernel}_part, {pointers}, {size_array}, {first}, {last}, {memory}, 0"
            self.line(f"const tg_part {whole} = {{{values}}};")
            self.line(
                f"const int {kind} = tg_run_parts(&{whole}, {operation.attrs['least']}, {part_bytes}, workspace);"
            )
            self.line(f"if ({kind}) return {kind};")

    def sections(self) -> tuple[list[str], list[str]]:
        """Return the declarations and definitions of the function's own text."""
        if self.has_calls and not self.is_callee:
            self.line("tg_begin_calls(workspace);")
        self.emit_block(self.function.body)
        for number, value in enumerate(self.function.results):
            storage = self.plan.storage.get(value)
            if storage is None or storage.result != number:
                self.write_result(number, value)
        self.rename_stacks()
        return self.define(_without_unused(self.lines))

    def rename_stacks(self) -> None:
        """Give the stacks the names that were found for them, in all that was written."""
        names: dict[str, str] = {}
        for value, stack in self.stacks.items():
            new = self.stack_names.get(stack.name) or self.fresh_everywhere(value.name or "stack")
            names[stack.name] = new
            names.setdefault(stack.top, self.fresh_everywhere(f"{new}_top"))
            if stack.number is not None:
                names[stack.fields[1]] = self.fresh_everywhere(f"{new}_capacity")
        if not names:
            return
        pattern = re.compile(rf"\b(?:{'|'.join(names)})\b")
        for line in self.lines:
            if not line.is_comment and pattern.search(line.text):
                line.text = pattern.sub(lambda match: names[match[0]], line.text)
            line.defines = names.get(line.defines, line.defines)
            line.assigns = names.get(line.assigns, line.assigns)
        for memory in self.memory:
            memory.name = names.get(memory.name, memory.name)

    def write_result(self, number: int, value: Value) -> None:
        name = self.result_names[number]
        self.last_comment = ""
        if not value.shape:
            self.assign(f"*{name}", self.element(value, ()))
        elif is_few(value):
            for position, index in enumerate(points(value.shape)):
                self.assign(f"{name}[{position}]", self.element(value, index))
        else:
            self.copy_array(name, value)

    def define(self, body: list[Line]) -> tuple[list[str], list[str]]:
        """Return declarations and definitions, given the lines of the kernel."""
        body_text = "\n".join(f"{INDENT * x.depth if not x.text.startswith('#') else ''}{x.text}" for x in body)
        words = set(WORD.findall(without_comments(body_text)))
        kept = [m for m in self.memory if m.name in words]
        header = 64 * ((bool(self.has_faults) or bool(self.growing)) + -(-16 * len(self.growing) // 64))
        sizes = [self.size_names[s] for s in self.size_symbols]
        size_arguments = ", ".join(f"int64_t {s}" for s in sizes) or "void"
        opening: list[str] = []
        if self.growing:
            opening.append("tg_stack *const stacks = (tg_stack *)((char *)workspace + 64);")
        if kept:
            start = f"(char *)workspace + {header}" if header else "workspace"
            opening.append(f"char *memory = {start};")
            for m in kept:
                restrict = "" if m.is_swapped else "restrict "
                opening.append(f"{m.ctype} *{restrict}{m.name} = tg_take(&memory, {_bytes_text(m)});")
        used = words | set(WORD.findall("\n".join(opening)))
        arguments = [a for a, _ in self.arguments] + [f"int64_t {s}" for s in sizes] + ["void *workspace"]
        unused = [p for p in [*(p for _, p in self.arguments), *sizes, "workspace"] if p not in used]
        opening = [f"(void){p};" for p in unused] + opening
        static = "static " if self.is_callee else ""
        kernel = _signature(f"{static}int {self.kernel}", arguments)
        opening_text = "".join(f"{INDENT}{x}\n" for x in opening)
        fixed = header + sum(-(-_fixed_bytes(m) // 64) * 64 for m in kept)
        varying = [f"tg_aligned({_bytes_text(m)})" for m in kept if not isinstance(m.size, int)]
        used_sizes = set(WORD.findall(" ".join(varying)))
        size_body = [f"(void){s};" for s in sizes if s not in used_sizes]
        if len(varying) < 2:
            size_body.append(f"return {' + '.join([str(fixed)] * (fixed > 0 or not varying) + varying)};")
        else:
            size_body += [
                f"int64_t size_bytes = {fixed};",
                *(f"size_bytes += {v};" for v in varying),
                "return size_bytes;",
            ]
        parts = [
            f"{kernel}\n{{\n{opening_text}{body_text}\n{INDENT}return 0;\n}}",
            f"{static}int64_t {self.kernel}_workspace({size_arguments})\n{{\n"
            + "".join(f"{INDENT}{x}\n" for x in size_body)
            + "}",
        ]
        if self.is_callee:
            return self.callee_sections(kernel, parts, header)
        passed = [f"pointers[{k}]" for k in range(len(self.arguments))] + [f"sizes[{k}]" for k in range(len(sizes))]
        entry = [*([] if sizes else ["(void)sizes;"]), *([] if self.arguments else ["(void)pointers;"])]
        entry.append(f"const int kind = {self.kernel}({', '.join([*passed, 'workspace'])});")
        entry.append(
            "if (kind && error) *(tg_error *)error = *(const tg_error *)workspace;"
            if self.has_faults
            else "(void)error;"
        )
        entry.append("return kind;")
        entry_head = _signature(
            f"int {self.kernel}_entry",
            ["void *const *pointers", "const int64_t *sizes", "void *workspace", "void *error"],
        )
        parts.append(f"{entry_head}\n{{\n" + "".join(f"{INDENT}{x}\n" for x in entry) + "}")
        declarations = [f"{kernel};", f"int64_t {self.kernel}_workspace({size_arguments});", f"{entry_head};"]
        if self.growing:
            release = f"void {self.kernel}_release(void *workspace)"
            declarations.append(f"{release};")
            parts.append(self.release(release))
        return declarations, parts

    def callee_sections(self, kernel: str, parts: list[str], header: int) -> tuple[list[str], list[str]]:
        """Return declarations and definitions of a function that calls reach."""
        release = f"static void {self.kernel}_release(void *workspace)"
        workspace = parts[1].partition("\n")[0]
        declarations = [f"enum {{ {self.kernel}_header = {header} }};", f"{kernel};", f"{workspace};", f"{release};"]
        parts.append(self.release(release))
        if self.loop is not None:
            count = len(self.arguments) - 2
            passed = ["&part->first", "&part->last", *(f"part->pointers[{k}]" for k in range(count))]
            passed += [f"part->sizes[{k}]" for k in range(len(self.size_symbols))]
            head = f"static int {self.kernel}_part(const tg_part *part)"
            declarations.append(f"{head};")
            parts.append(
                f"{head}\n{{\n{INDENT}memset(part->workspace, 0, {self.kernel}_header);\n"
                + _signature(f"{INDENT}const int kind = {self.kernel}", [*passed, "part->workspace"])
                + ";\n"
                f"{INDENT}{self.kernel}_release(part->workspace);\n{INDENT}return kind;\n}}"
            )
        return declarations, parts

    def release(self, head: str) -> str:
        """Return the definition of the function that frees the stacks that grow."""
        if not self.growing:
            return f"{head}\n{{\n{INDENT}(void)workspace;\n}}"
        return (
            f"{head}\n{{\n{INDENT}tg_stack *const stacks = (tg_stack *)((char *)workspace + 64);\n"
            f"{INDENT}for (int64_t k = 0; k < {len(self.growing)}; k++) {{\n{2 * INDENT}free(stacks[k].data);\n"
            f"{2 * INDENT}stacks[k].data = NULL;\n{2 * INDENT}stacks[k].capacity = 0;\n{INDENT}}}\n}}"
        )

    def assemble(self, declarations: list[str], tables: list[str], parts: list[str]) -> str:
        """Return the whole text."""
        everything = "\n".join(parts)
        if "tg_matmul" in everything:
            setter = f"void {self.kernel}_set_blas(const tg_blas *routines)"
            declarations.append(f"{setter};")
            parts.append(f"{setter}\n{{\n{INDENT}tg_blas_routines = routines;\n}}")
            everything = "\n".join(parts)
        prelude = prelude_for(everything)
        if "TG_THREADS" in everything:
            prelude = f"#include <pthread.h>\n\nenum {{ TG_THREADS = {self.threads} }};\n\n{prelude}"
        body = (
            f"{avoid_masked_groups(everything)}{vector_maths(prelude + everything)}{prelude}"
            + "\n".join(declarations)
            + "\n\n"
            + "".join(f"{t}\n\n" for t in tables)
            + "\n\n".join(parts)
            + "\n"
        )
        return f"{head_comment(self.kernel)}\n{head_for(body)}\n{body}"


def _numbered(name: str) -> Iterator[str]:
    yield name
    for number in count(1):
        yield f"{name}_{number}"


def _fixed_bytes(memory: Memory) -> int:
    return max(0, memory.size) * _ITEM_SIZES[memory.ctype] if isinstance(memory.size, int) else 0


_ITEM_SIZES = {ctype: dtype.itemsize for dtype, ctype in CTYPES.items()}


def _bytes_text(memory: Memory) -> str:
    size = index_text(memory.size)
    if size == "1":
        return f"(int64_t)sizeof({memory.ctype})"
    if memory.ctype == "char":
        return size
    return f"{wrap(size, PRODUCT)}*(int64_t)sizeof({memory.ctype})"


def _signature(head: str, arguments: Sequence[str]) -> str:
    """Return a function head or a call, broken at 120 columns."""
    lines, current = [], f"{head}("
    for number, argument in enumerate(arguments):
        piece = argument + (", " if number + 1 < len(arguments) else ")")
        if len(current) + len(piece) > 120:
            lines.append(current.rstrip())
            current = " " * (len(head) + 1)
        current += piece
    return "\n".join([*lines, current])


def _without_unused(lines: list[Line]) -> list[Line]:
    """Return the lines without variables that nothing reads, and without comments on nothing."""
    words = [Counter(WORD.findall(x.text)) if not x.is_comment else Counter() for x in lines]
    total: Counter[str] = Counter()
    own: Counter[str] = Counter()
    variables = {x.defines for x in lines if x.defines}
    groups: dict[str, list[int]] = {}
    for number, (entry, found) in enumerate(zip(lines, words, strict=True)):
        total.update(found)
        name = entry.defines or entry.assigns
        if name in variables:
            own[name] += found[name]
            groups.setdefault(name, []).append(number)
    removed: set[int] = set()
    waiting = [name for name in variables if total[name] == own[name]]
    while waiting:
        for number in groups.pop(waiting.pop(), ()):
            removed.add(number)
            total.subtract(words[number])
            name = lines[number].defines or lines[number].assigns
            for word in words[number]:
                if word in groups and word != name and total[word] == own[word]:
                    waiting.append(word)
    kept: list[Line] = []
    for number, entry in enumerate(lines):
        if number not in removed:
            kept.append(entry)
        elif taken := re.search(r"\[--(\w+)\]", entry.text):
            kept.append(Line(entry.depth, f"{taken[1]}--;"))
    following, shown = Line(0, "}"), []
    for entry in reversed(kept):
        says_nothing = following.is_comment or following.text.startswith("}")
        if entry.is_heading or not entry.is_comment or not says_nothing or entry.group == following.group > 0:
            shown.append(entry)
            following = entry
    return shown[::-1]
