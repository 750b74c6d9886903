"""Prints Python syntax trees as text for people: minimal parentheses, comments, blank lines, broken long lines.

Reads trees of `ast` (or `gast`), writes source text. First file of the folder; next: trees.py.

The printer is a subclass of `astunparse.Unparser`. astunparse 1.6.3 parenthesises every operator, prints a tuple of
slices as `x[(1:2, ...)]`, which is a syntax error, and knows neither `match` nor comments; all of that is replaced
here.
"""

from __future__ import annotations

import ast
import io
from collections.abc import Callable, Sequence
from typing import Any

import astunparse
import gast

#: longest line, in columns, that is not broken inside brackets
LINE_LENGTH = 100


class Comment(ast.stmt):
    """A statement that prints as `# text` on a line of its own."""

    _fields = ("text",)

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text


class ItemOfDict(ast.expr):
    """A key and a value of a dict display; the key is None for `**value`."""

    _fields = ("key", "value")

    def __init__(self, key: ast.expr | None, value: ast.expr) -> None:
        super().__init__()
        self.key, self.value = key, value


class BlankLine(ast.stmt):
    """A statement that prints as an empty line."""

    _fields = ()


def with_comment(statement: ast.stmt, text: str) -> ast.stmt:
    """Return the statement with an end-of-line comment (after the colon for a compound statement)."""
    statement.end_comment = text  # type: ignore[attr-defined]
    return statement


def print_source(tree: ast.AST | gast.AST) -> str:
    """Return the text of a tree, ending in one newline for a module and in none for anything else.

    >>> print_source(ast.parse("y = ((a * b) + c)[(1:2), ...]".replace("(1:2)", "1:2")))
    'y = (a * b + c)[1:2, ...]\\n'
    """
    if type(tree).__module__.startswith("gast"):
        tree = gast.gast_to_ast(tree)
    text = SourcePrinter.flat(tree).strip("\n")
    return text + "\n" if isinstance(tree, ast.Module) else text


# Binding strength of expression forms, weakest first.
(YIELD, TUPLE, NAMED, TEST, OR, AND, NOT, COMPARE) = range(8)
(BIT_OR, BIT_XOR, BIT_AND, SHIFT, ARITHMETIC, TERM, FACTOR, POWER, AWAIT, ATOM) = range(8, 18)

_BINARY = {
    ast.BitOr: BIT_OR,
    ast.BitXor: BIT_XOR,
    ast.BitAnd: BIT_AND,
    ast.LShift: SHIFT,
    ast.RShift: SHIFT,
    ast.Add: ARITHMETIC,
    ast.Sub: ARITHMETIC,
    ast.Mult: TERM,
    ast.MatMult: TERM,
    ast.Div: TERM,
    ast.Mod: TERM,
    ast.FloorDiv: TERM,
    ast.Pow: POWER,
}
_FORMS: dict[type[ast.AST], int] = {
    ast.Yield: YIELD,
    ast.YieldFrom: YIELD,
    ast.NamedExpr: NAMED,
    ast.Lambda: TEST,
    ast.IfExp: TEST,
    ast.Compare: COMPARE,
    ast.Starred: BIT_OR,
    ast.Await: AWAIT,
}


def precedence(node: ast.AST) -> int:
    """Return how strongly the outermost form of an expression binds."""
    match node:
        case ast.BinOp():
            return _BINARY[type(node.op)]
        case ast.BoolOp():
            return OR if isinstance(node.op, ast.Or) else AND
        case ast.UnaryOp():
            return NOT if isinstance(node.op, ast.Not) else FACTOR
        case ast.Tuple():
            return TUPLE if node.elts else ATOM
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and repr(value).startswith(
            "-"
        ):
            return FACTOR
    return _FORMS.get(type(node), ATOM)


class SourcePrinter(astunparse.Unparser):  # type: ignore[misc]
    """Prints one tree; `broken` holds the nodes whose brackets are spread over several lines."""

    def __init__(self, tree: ast.AST, file: io.StringIO, indent: int = 0, broken: frozenset[int] = frozenset()) -> None:
        self.f = file
        self.future_imports: list[str] = []
        self._indent = indent
        self._broken = broken
        self._header_comment = ""
        self.dispatch(tree)

    @classmethod
    def flat(cls, tree: ast.AST, indent: int = 0, broken: frozenset[int] = frozenset()) -> str:
        file = io.StringIO()
        cls(tree, file, indent, broken)
        return file.getvalue()

    # Statements

    def dispatch(self, tree: Any) -> None:
        if isinstance(tree, list):
            for number, statement in enumerate(tree):
                if number and _is_definition(tree[number - 1]) and not _is_definition(statement):
                    self.write("\n" if self._indent else "\n\n")
                self._statement(statement)
        else:
            super().dispatch(tree)

    def _statement(self, tree: ast.AST) -> None:
        comment = getattr(tree, "end_comment", "")
        simple = not hasattr(tree, "body") and not hasattr(tree, "cases")
        if not simple:
            self._header_comment = comment
            super().dispatch(tree)
            return
        self.write(self._wrapped(tree))
        if comment:
            self.write(f"  # {comment}")

    def _wrapped(self, tree: ast.AST) -> str:
        """Return the text of a simple statement, with brackets broken, outermost first, until its lines fit."""
        broken: frozenset[int] = frozenset()
        while True:
            text = type(self).flat(tree, self._indent, broken)
            if isinstance(tree, (Comment, BlankLine)) or max(map(len, text.split("\n"))) <= LINE_LENGTH:
                return text
            chosen = _next_to_break(tree, broken, self._indent)
            if not chosen:
                return text
            broken |= {id(node) for node in chosen}

    def enter(self) -> None:
        super().enter()
        if self._header_comment:
            self.write(f"  # {self._header_comment}")
            self._header_comment = ""

    def _Module(self, t: ast.Module) -> None:
        self._body(t.body)

    def _body(self, body: Sequence[ast.stmt]) -> None:
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            docstring = body[0].value.value
            if isinstance(docstring, str) and _is_plain_docstring(docstring):
                self.fill(f'"""{docstring}"""')
                body = body[1:]
        self.dispatch(list(body))

    def _Comment(self, t: Comment) -> None:
        self.fill(f"# {t.text}" if t.text else "#")

    def _BlankLine(self, t: BlankLine) -> None:
        self.write("\n")

    def _Expr(self, t: ast.Expr) -> None:
        self.fill()
        self._at(t.value, YIELD if isinstance(t.value, (ast.Yield, ast.YieldFrom)) else TEST)

    def _Assign(self, t: ast.Assign) -> None:
        self.fill()
        for target in t.targets:
            self._at(target, TUPLE)
            self.write(" = ")
        self._at(t.value, YIELD)

    def _AugAssign(self, t: ast.AugAssign) -> None:
        self.fill()
        self.dispatch(t.target)
        self.write(f" {self.binop[type(t.op).__name__]}= ")
        self._at(t.value, YIELD)

    def _AnnAssign(self, t: ast.AnnAssign) -> None:
        self.fill()
        parenthesised = not t.simple and isinstance(t.target, ast.Name)
        self.write("(" if parenthesised else "")
        self.dispatch(t.target)
        self.write(")" if parenthesised else "")
        self.write(": ")
        self._at(t.annotation, TEST)
        if t.value:
            self.write(" = ")
            self._at(t.value, YIELD)

    def _Return(self, t: ast.Return) -> None:
        self.fill("return")
        if t.value:
            self.write(" ")
            self._at(t.value, TUPLE)

    def _Delete(self, t: ast.Delete) -> None:
        self.fill("del ")
        self._list(t.targets)

    def _Assert(self, t: ast.Assert) -> None:
        self.fill("assert ")
        self._at(t.test, TEST)
        if t.msg:
            self.write(", ")
            self._at(t.msg, TEST)

    def _For(self, t: ast.For | ast.AsyncFor, prefix: str = "") -> None:
        self.fill(f"{prefix}for ")
        self._at(t.target, TUPLE)
        self.write(" in ")
        self._at(t.iter, TUPLE)
        self._suite(t.body)
        self._else(t.orelse)

    def _AsyncFor(self, t: ast.AsyncFor) -> None:
        self._For(t, "async ")

    def _While(self, t: ast.While) -> None:
        self.fill("while ")
        self._at(t.test, NAMED)
        self._suite(t.body)
        self._else(t.orelse)

    def _If(self, t: ast.If) -> None:
        keyword = "if "
        while True:
            self.fill(keyword)
            self._at(t.test, NAMED)
            self._suite(t.body)
            if len(t.orelse) != 1 or not isinstance(t.orelse[0], ast.If):
                break
            t, keyword = t.orelse[0], "elif "
            self._header_comment = getattr(t, "end_comment", "")
        self._else(t.orelse)

    def _suite(self, body: Sequence[ast.stmt]) -> None:
        self.enter()
        self._body(body)
        self.leave()

    def _else(self, body: Sequence[ast.stmt]) -> None:
        if body:
            self.fill("else")
            self._suite(body)

    def _TryStar(self, t: Any) -> None:
        self._Try(t)

    def _Try(self, t: Any) -> None:
        self.fill("try")
        self._suite(t.body)
        for handler in t.handlers:
            self.fill("except*" if type(t).__name__ == "TryStar" else "except")
            if handler.type:
                self.write(" ")
                self._at(handler.type, TEST)
            if handler.name:
                self.write(f" as {handler.name}")
            self._suite(handler.body)
        self._else(t.orelse)
        if t.finalbody:
            self.fill("finally")
            self._suite(t.finalbody)

    def _With(self, t: ast.With | ast.AsyncWith, prefix: str = "") -> None:
        self.fill(f"{prefix}with ")
        self._separated(t.items, self.dispatch)
        self._suite(t.body)

    def _AsyncWith(self, t: ast.AsyncWith) -> None:
        self._With(t, "async ")

    def _withitem(self, t: ast.withitem) -> None:
        self._at(t.context_expr, TEST)
        if t.optional_vars:
            self.write(" as ")
            self._at(t.optional_vars, ATOM)

    def _FunctionDef(self, t: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str = "") -> None:
        self._decorators(t.decorator_list)
        self.fill(f"{prefix}def {t.name}(")
        self.dispatch(t.args)
        self.write(")")
        if t.returns:
            self.write(" -> ")
            self._at(t.returns, TEST)
        self._suite(t.body)

    def _AsyncFunctionDef(self, t: ast.AsyncFunctionDef) -> None:
        self._FunctionDef(t, "async ")

    def _arguments(self, t: ast.arguments) -> None:
        def write_parameter(parameter: tuple[str, ast.arg | None, ast.expr | None]) -> None:
            stars, argument, default = parameter
            self.write(stars)
            if argument is not None:
                self.write(argument.arg)
                if argument.annotation:
                    self.write(": ")
                    self._at(argument.annotation, BIT_OR if isinstance(argument.annotation, ast.Starred) else TEST)
            if default is not None:
                self.write(" = " if argument is not None and argument.annotation else "=")
                self._at(default, TEST)

        positional = [*t.posonlyargs, *t.args]
        defaults = [None] * (len(positional) - len(t.defaults)) + list(t.defaults)
        parameters: list[tuple[str, ast.arg | None, ast.expr | None]] = []
        parameters += [("", a, d) for a, d in zip(positional, defaults, strict=True)]
        if t.posonlyargs:
            parameters.insert(len(t.posonlyargs), ("/", None, None))
        if t.vararg or t.kwonlyargs:
            parameters.append(("*", t.vararg, None))
        parameters += [("", a, d) for a, d in zip(t.kwonlyargs, t.kw_defaults, strict=True)]
        if t.kwarg:
            parameters.append(("**", t.kwarg, None))
        self._separated(parameters, write_parameter)

    def _ClassDef(self, t: ast.ClassDef) -> None:
        self._decorators(t.decorator_list)
        self.fill(f"class {t.name}")
        if t.bases or t.keywords:
            self.write("(")
            self._list([*t.bases, *t.keywords])
            self.write(")")
        self._suite(t.body)

    def _decorators(self, decorators: Sequence[ast.expr]) -> None:
        # two blank lines before a definition of a module, one before a nested one
        self.write("\n" if self._indent else "\n\n")
        for decorator in decorators:
            self.fill("@")
            self._at(decorator, NAMED)

    def _Match(self, t: ast.Match) -> None:
        self.fill("match ")
        self._at(t.subject, TUPLE)
        self.enter()
        for case in t.cases:
            self.fill("case ")
            self._pattern(case.pattern, top=True)
            if case.guard:
                self.write(" if ")
                self._at(case.guard, NAMED)
            self._suite(case.body)
        self.leave()

    def _pattern(self, t: ast.pattern, *, top: bool = False) -> None:
        match t:
            case ast.MatchValue():
                self._at(t.value, ARITHMETIC)
            case ast.MatchSingleton():
                self.write(repr(t.value))
            case ast.MatchSequence():
                self.write("[")
                self._separated(t.patterns, self._pattern)
                self.write("]")
            case ast.MatchStar():
                self.write(f"*{t.name or '_'}")
            case ast.MatchMapping():
                self.write("{")
                pairs = list(zip(t.keys, t.patterns, strict=True))
                self._separated(pairs, self._mapping_pair)
                if t.rest:
                    self.write(f"{', ' if pairs else ''}**{t.rest}")
                self.write("}")
            case ast.MatchClass():
                self.dispatch(t.cls)
                self.write("(")
                keywords = list(zip(t.kwd_attrs, t.kwd_patterns, strict=True))
                self._separated([*t.patterns, *keywords], self._class_argument)
                self.write(")")
            case ast.MatchAs() if t.pattern is None:
                self.write(t.name or "_")
            case ast.MatchAs():
                assert t.pattern is not None
                self.write("" if top else "(")
                self._pattern(t.pattern)
                self.write(f" as {t.name}" if top else f" as {t.name})")
            case ast.MatchOr():
                self.write("" if top else "(")
                self._separated(t.patterns, self._pattern, " | ")
                self.write("" if top else ")")

    def _mapping_pair(self, pair: tuple[ast.expr, ast.pattern]) -> None:
        self._at(pair[0], ARITHMETIC)
        self.write(": ")
        self._pattern(pair[1], top=True)

    def _class_argument(self, argument: ast.pattern | tuple[str, ast.pattern]) -> None:
        if isinstance(argument, tuple):
            self.write(f"{argument[0]}=")
            argument = argument[1]
        self._pattern(argument, top=True)

    # Expressions

    def _at(self, node: ast.AST, level: int) -> None:
        """Print an expression where at least `level` of binding strength is needed."""
        if precedence(node) < level:
            self.write("(")
            self.dispatch(node)
            self.write(")")
        else:
            self.dispatch(node)

    def _separated(self, items: Sequence[Any], write_item: Callable[[Any], Any], separator: str = ", ") -> None:
        for number, item in enumerate(items):
            if number:
                self.write(separator)
            write_item(item)

    def _list(self, items: Sequence[ast.AST]) -> None:
        self._separated(items, lambda item: self._at(item, TEST))

    def _brackets(self, t: ast.AST, opening: str, items: Sequence[ast.AST], closing: str) -> None:
        """Print items in brackets: on one line, or packed into lines of their own when the node is to be broken."""
        self.write(opening)
        if id(t) not in self._broken:
            self._list(items)
        else:
            self._indent += 1
            column = LINE_LENGTH
            for item in items:
                parenthesised = precedence(item) < TEST
                text = type(self).flat(item, self._indent, self._broken)
                text = f"({text})" if parenthesised else text
                width = max(map(len, text.split("\n"))) + 1
                if column + 1 + width > LINE_LENGTH:
                    self.fill(f"{text},")
                    column = 4 * self._indent + width
                else:
                    self.write(f" {text},")
                    column += 1 + width
                if "\n" in text:
                    column = LINE_LENGTH
            self._indent -= 1
            self.fill()
        self.write(closing)

    def _NamedExpr(self, t: ast.NamedExpr) -> None:
        self.dispatch(t.target)
        self.write(" := ")
        self._at(t.value, TEST)

    def _Await(self, t: ast.Await) -> None:
        self.write("await ")
        self._at(t.value, ATOM)

    def _Yield(self, t: ast.Yield) -> None:
        self.write("yield")
        if t.value:
            self.write(" ")
            self._at(t.value, TUPLE)

    def _YieldFrom(self, t: ast.YieldFrom) -> None:
        self.write("yield from ")
        self._at(t.value, TEST)

    def _JoinedStr(self, t: ast.JoinedStr) -> None:
        self.write(ast.unparse(t))

    def _Constant(self, t: ast.Constant) -> None:
        value: Any = t.value
        if isinstance(value, tuple):
            self.dispatch(ast.Tuple([ast.Constant(v) for v in value], ast.Load()))
        elif isinstance(value, str) and repr(value).startswith("'") and '"' not in value:
            self.write(("u" if t.kind == "u" else "") + '"' + repr(value)[1:-1] + '"')
        else:
            super()._Constant(t)

    def _List(self, t: ast.List) -> None:
        self._brackets(t, "[", t.elts, "]")

    def _Set(self, t: ast.Set) -> None:
        self._brackets(t, "{", t.elts, "}")

    def _Tuple(self, t: ast.Tuple) -> None:
        if not t.elts:
            self.write("()")
            return
        self._list(t.elts)
        if len(t.elts) == 1:
            self.write(",")

    def _Dict(self, t: ast.Dict) -> None:
        self._brackets(t, "{", [ItemOfDict(k, v) for k, v in zip(t.keys, t.values, strict=True)], "}")

    def _ItemOfDict(self, t: ItemOfDict) -> None:
        if t.key is None:
            self.write("**")
            self._at(t.value, BIT_OR)
        else:
            self._at(t.key, TEST)
            self.write(": ")
            self._at(t.value, TEST)

    def _comprehension_in(self, opening: str, elements: Sequence[ast.expr], generators: Any, closing: str) -> None:
        self.write(opening)
        self._separated(elements, lambda e: self._at(e, TEST), ": ")
        for generator in generators:
            self.dispatch(generator)
        self.write(closing)

    def _ListComp(self, t: ast.ListComp) -> None:
        self._comprehension_in("[", [t.elt], t.generators, "]")

    def _SetComp(self, t: ast.SetComp) -> None:
        self._comprehension_in("{", [t.elt], t.generators, "}")

    def _GeneratorExp(self, t: ast.GeneratorExp) -> None:
        self._comprehension_in("(", [t.elt], t.generators, ")")

    def _DictComp(self, t: ast.DictComp) -> None:
        self._comprehension_in("{", [t.key, t.value], t.generators, "}")

    def _comprehension(self, t: ast.comprehension) -> None:
        self.write(" async for " if t.is_async else " for ")
        self._at(t.target, TUPLE)
        self.write(" in ")
        self._at(t.iter, OR)
        for condition in t.ifs:
            self.write(" if ")
            self._at(condition, OR)

    def _UnaryOp(self, t: ast.UnaryOp) -> None:
        operator = self.unop[type(t.op).__name__]
        self.write(f"{operator} " if operator == "not" else operator)
        self._at(t.operand, precedence(t))

    def _BinOp(self, t: ast.BinOp) -> None:
        level = precedence(t)
        operator = self.binop[type(t.op).__name__]
        # ** binds to the right, and takes a sign on its right: 2 ** -x
        self._at(t.left, AWAIT if level == POWER else level)
        self.write(f" {operator} ")
        self._at(t.right, FACTOR if level == POWER else level + 1)

    def _Compare(self, t: ast.Compare) -> None:
        self._at(t.left, COMPARE + 1)
        for operator, comparator in zip(t.ops, t.comparators, strict=True):
            self.write(f" {self.cmpops[type(operator).__name__]} ")
            self._at(comparator, COMPARE + 1)

    def _BoolOp(self, t: ast.BoolOp) -> None:
        level = precedence(t)
        self._separated(t.values, lambda v: self._at(v, level + 1), f" {self.boolops[type(t.op)]} ")

    def _IfExp(self, t: ast.IfExp) -> None:
        self._at(t.body, OR)
        self.write(" if ")
        self._at(t.test, OR)
        self.write(" else ")
        self._at(t.orelse, TEST)

    def _Lambda(self, t: ast.Lambda) -> None:
        arguments = type(self).flat(t.args)
        self.write(f"lambda {arguments}" if arguments else "lambda")
        self.write(": ")
        self._at(t.body, TEST)

    def _Attribute(self, t: ast.Attribute) -> None:
        if isinstance(t.value, ast.Constant) and isinstance(t.value.value, (int, float, complex)):
            self.write("(")
            self.dispatch(t.value)
            self.write(")")
        else:
            self._at(t.value, ATOM)
        self.write(f".{t.attr}")

    def _Call(self, t: ast.Call) -> None:
        self._at(t.func, ATOM)
        match t.args, t.keywords:
            case [ast.GeneratorExp() as only], []:
                self.dispatch(only)
            case _:
                self._brackets(t, "(", [*t.args, *t.keywords], ")")

    def _keyword(self, t: ast.keyword) -> None:
        self.write("**" if t.arg is None else f"{t.arg}=")
        self._at(t.value, BIT_OR if t.arg is None else TEST)

    def _Subscript(self, t: ast.Subscript) -> None:
        self._at(t.value, ATOM)
        self.write("[")
        self._at(t.slice, TUPLE)
        self.write("]")

    def _Starred(self, t: ast.Starred) -> None:
        self.write("*")
        self._at(t.value, BIT_OR)

    def _Slice(self, t: ast.Slice) -> None:
        if t.lower:
            self._at(t.lower, TEST)
        self.write(":")
        if t.upper:
            self._at(t.upper, TEST)
        if t.step:
            self.write(":")
            self._at(t.step, TEST)


def _is_definition(statement: ast.AST) -> bool:
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _is_plain_docstring(text: str) -> bool:
    """Return whether the text reads back unchanged between triple quotes."""
    return '"""' not in text and "\\" not in text and not text.endswith('"') and text.isprintable() | ("\n" in text)


#: shorter brackets stay on their line, which would hardly be shorter without them
_LEAST_BROKEN = 24


def _next_to_break(tree: ast.AST, broken: frozenset[int], indent: int) -> Sequence[ast.AST]:
    """Return the outermost nodes with breakable brackets that are not broken yet: those too wide for any line, or else
    the widest."""
    level: list[tuple[ast.AST, int]] = [(tree, indent)]
    while level:
        found = [
            (len(SourcePrinter.flat(n)), n, depth)
            for n, depth in level
            if isinstance(n, (ast.Call, ast.List, ast.Set, ast.Dict)) and id(n) not in broken and _items(n)
        ]
        found = [f for f in found if f[0] >= _LEAST_BROKEN]
        if found:
            wide = [n for width, n, depth in found if 4 * depth + width > LINE_LENGTH]
            return wide or [max(found, key=lambda f: f[0])[1]]
        level = [(child, d + (id(n) in broken)) for n, d in level for child in ast.iter_child_nodes(n)]
    return []


def _items(node: ast.AST) -> Sequence[ast.AST]:
    if isinstance(node, ast.Dict):
        return node.values
    return [*node.args, *node.keywords] if isinstance(node, ast.Call) else getattr(node, "elts", [])
