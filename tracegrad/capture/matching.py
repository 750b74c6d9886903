"""Makes `if` statements of `match` statements whose patterns only compare and bind, so that their cases are staged.

Reads and writes gast trees. Previous: nodes.py; next: jumps.py.

    match n:                     if n == 0: ...
        case 0: ...              else:
        case k if k > x: ...         k = n
                                     if k > x: ...

Values, None, True and False, captures, `|`, and sequences of them where the subject is a tuple display. A `match` with
any other pattern (classes, mappings, sequences of unknown length) stays what it is, and Python decides in it.
"""

from __future__ import annotations

import copy

import gast

from tracegrad.capture.nodes import Fresh, Make, Node


def lower_matches(function: Node, fresh: Fresh) -> Node:
    """Rewrite the `match` statements of a function, and of those in it, in place."""
    return _Matches(fresh).visit(function)


class _Unlike(Exception):
    """The pattern cannot be written as comparisons."""


class _Matches(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh

    def visit_Match(self, node: Node) -> Node | list[Node]:
        self.generic_visit(node)
        stores: list[Node] = []
        subject = self._subject(node, stores)
        try:
            cases = [(case, _read(case.pattern, subject)) for case in node.cases]
            if any(case.guard is not None and bound and _scopes(case.guard) for case, (_, bound) in cases):
                return node
        except _Unlike:
            return node
        rest: list[Node] = []
        for case, (tests, bound) in reversed(cases):
            rest = _write(case, tests, bound, rest)
        return [*stores, *rest]

    def _subject(self, node: Node, stores: list[Node]) -> Node:
        """Return the subject as an expression of names that no case binds."""

        def named(value: Node) -> Node:
            place, name = Make(value), self.fresh.unique("tg_subject")
            stores.append(place.assign(name, value))
            return place.load(name)

        if isinstance(node.subject, gast.Tuple) and not any(isinstance(e, gast.Starred) for e in node.subject.elts):
            return Make(node.subject).tuple([named(element) for element in node.subject.elts])
        return named(node.subject)


def _scopes(expression: Node) -> bool:
    """Return whether an expression has names of its own."""
    own = (gast.Lambda, gast.comprehension, gast.NamedExpr)
    return any(isinstance(part, own) for part in gast.walk(expression))


def _read(pattern: Node, subject: Node) -> tuple[list[Node], dict[str, Node]]:
    """Return the tests that a pattern makes of a subject, and what it binds."""
    place = Make(pattern)
    if isinstance(pattern, gast.MatchValue):
        return [_compare(place, subject, gast.Eq(), pattern.value)], {}
    if isinstance(pattern, gast.MatchSingleton):
        return [_compare(place, subject, gast.Is(), place.constant(pattern.value))], {}
    if isinstance(pattern, gast.MatchAs):
        tests, bound = _read(pattern.pattern, subject) if pattern.pattern is not None else ([], {})
        return tests, {**bound, pattern.name: subject} if pattern.name is not None else bound
    if isinstance(pattern, gast.MatchOr):
        options = [_read(option, subject) for option in pattern.patterns]
        if any(bound or not tests for tests, bound in options):
            raise _Unlike
        return [place.at(gast.BoolOp(gast.Or(), [_all_of(place, tests) for tests, _ in options]))], {}
    if isinstance(pattern, gast.MatchSequence) and isinstance(subject, gast.Tuple):
        if any(isinstance(part, gast.MatchStar) for part in pattern.patterns):
            raise _Unlike
        if len(pattern.patterns) != len(subject.elts):
            return [place.constant(False)], {}
        tests, bound = [], {}
        for part, element in zip(pattern.patterns, subject.elts, strict=True):
            more, names = _read(part, element)
            tests, bound = [*tests, *more], {**bound, **names}
        return tests, bound
    raise _Unlike


def _compare(place: Make, subject: Node, operator: Node, value: Node) -> Node:
    if isinstance(subject, gast.Tuple):
        raise _Unlike
    return place.at(gast.Compare(copy.deepcopy(subject), [operator], [value]))


def _all_of(place: Make, tests: list[Node]) -> Node:
    return tests[0] if len(tests) == 1 else place.at(gast.BoolOp(gast.And(), tests))


def _write(case: Node, tests: list[Node], bound: dict[str, Node], rest: list[Node]) -> list[Node]:
    """Return the statements of a case, and of those after it."""
    place = Make(case.pattern)
    stores = [place.assign(name, copy.deepcopy(value)) for name, value in bound.items()]
    if case.guard is not None and not tests:
        return [*stores, Make(case.guard).at(gast.If(case.guard, case.body, rest))]
    if case.guard is not None:
        guard = _Named(bound).visit(copy.deepcopy(case.guard))
        tests = [*tests, guard]
    if not tests:
        return [*stores, *case.body]
    return [place.at(gast.If(_all_of(place, tests), [*stores, *case.body], rest))]


class _Named(gast.NodeTransformer):  # type: ignore[misc]  # gast has no type annotations
    """Puts what names are bound to in the place of their reads."""

    def __init__(self, bound: dict[str, Node]) -> None:
        self.bound = bound

    def visit_Name(self, node: Node) -> Node:
        if node.id in self.bound and isinstance(node.ctx, gast.Load):
            return copy.deepcopy(self.bound[node.id])
        return node
