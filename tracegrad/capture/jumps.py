"""Lowers `return`, `break` and `continue`, so that the statements left run from top to bottom.

Reads the body of a function in gast; gives a body in which loops end by their test alone and branches fall through.
Previous: nodes.py; next: suppressed.py.

Where one branch of an `if` always jumps, the rest of the list moves into the other branch, and no flag is needed:

    if c: return a          if c: tg_ret = a
    rest                    else: rest

Elsewhere a jump sets a flag, and what it jumps over is guarded by it. A loop carries its flags in the attribute
`tg_flags`: it goes on while none of them is set. A `return` that stands in no loop and no branch, but at most in
`with`, `try` and `match` (which stay what they are), is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import gast

from tracegrad.capture.nodes import LOOPS, Fresh, Make, Node, walk_scope
from tracegrad.capture.source import SourceUnavailable

JUMPS = {gast.Return: "return", gast.Break: "break", gast.Continue: "continue"}


def lower_jumps(body: Sequence[Node], fresh: Fresh, place: Make) -> list[Node]:
    """Return `body` lowered. It always ends in `return`; the one at its end stands at `place`.

    Raises: SourceUnavailable, for a jump out of `finally`, and for `except*`.
    """
    for node in walk_scope(body):
        if isinstance(node, gast.TryStar):
            raise SourceUnavailable(f"line {node.lineno}: 'except*' puts exceptions into groups")
        if isinstance(node, gast.Try):
            node.tg_trial = _is_trial(node)
    return _Lowering(fresh).function([*body, place.returns(place.constant(None))])


def jumps(statements: Iterable[Node]) -> dict[str, None]:
    """Return the kinds of jumps that leave `statements`."""
    kinds: dict[str, None] = {}
    for statement in statements:
        if type(statement) in JUMPS:
            kinds[JUMPS[type(statement)]] = None
        elif isinstance(statement, LOOPS):
            if "return" in jumps(statement.body):
                kinds["return"] = None
            kinds.update(jumps(statement.orelse))
        else:
            for part in parts(statement):
                kinds.update(jumps(part))
    return kinds


def parts(statement: Node) -> list[list[Node]]:
    """Return the statement lists inside a statement that is not a loop, a function or a class."""
    if isinstance(statement, gast.If):
        return [statement.body, statement.orelse]
    if isinstance(statement, gast.With):
        return [statement.body]
    if isinstance(statement, gast.Try):
        return [statement.body, *(h.body for h in statement.handlers), statement.orelse, statement.finalbody]
    if isinstance(statement, gast.Match):
        return [case.body for case in statement.cases]
    return []


def completes(statements: Iterable[Node]) -> bool:
    """Return whether control may reach the end of `statements`."""
    return all(_completes(s) for s in statements)


def ends_in_raise(statements: Sequence[Node]) -> bool:
    """Return whether statements leave with an exception only."""
    return not completes(statements) and not jumps(statements)


def only_raises(statements: Sequence[Node]) -> bool:
    """Return whether statements do nothing but raise an exception."""
    return len(statements) == 1 and isinstance(statements[0], gast.Raise)


def _completes(statement: Node) -> bool:
    if isinstance(statement, gast.Raise) or type(statement) in JUMPS:
        return False
    if isinstance(statement, gast.If):
        return completes(statement.body) or completes(statement.orelse)
    if isinstance(statement, gast.While):
        # a loop that is lowered ends by flags
        has_end = "break" in jumps(statement.body) or bool(getattr(statement, "tg_flags", False))
        return has_end or not is_endless(statement)
    if isinstance(statement, gast.Try):
        ends = [[*statement.body, *statement.orelse], *(h.body for h in statement.handlers)]
        return any(completes(end) for end in ends) and completes(statement.finalbody)
    if isinstance(statement, gast.Match):
        return not has_default(statement) or any(completes(case.body) for case in statement.cases)
    return True  # a `with` may swallow the exception that leaves its body


def _is_trial(statement: Node) -> bool:
    """Return whether a `try` has handlers that go on or do more than raise, and may become a function."""
    suspends = any(isinstance(n, gast.Yield | gast.YieldFrom | gast.Await) for n in walk_scope([statement]))
    return not suspends and not all(only_raises(handler.body) for handler in statement.handlers)


def is_trial(statement: Node) -> bool:
    """Return whether a statement is a `try` whose body may be left at run time: it is a function of its own."""
    return bool(getattr(statement, "tg_trial", False))


def is_endless(loop: Node) -> bool:
    return isinstance(loop.test, gast.Constant) and bool(loop.test.value)


def has_default(statement: Node) -> bool:
    """Return whether a `match` has a case that always applies."""
    return any(
        case.guard is None and isinstance(case.pattern, gast.MatchAs) and case.pattern.pattern is None
        for case in statement.cases
    )


@dataclass
class _Loop:
    """The flags of the loop around a statement; '' when no jump in it is of that kind."""

    broken: str
    continued: str


class _Lowering:
    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self.result = fresh.unique("tg_ret")
        self.returned = fresh.unique("tg_returned")
        self.flags = {self.returned}

    def function(self, body: list[Node]) -> list[Node]:
        documented = isinstance(body[0], gast.Expr) and isinstance(body[0].value, gast.Constant)
        head = body[: 1 if documented else 0]
        lowered = self.native(body[len(head) :])
        place = Make(lowered[0])
        return _drop_unread(self.flags, [*head, place.assign(self.returned, place.constant(False)), *lowered])

    def native(self, statements: list[Node]) -> list[Node]:
        """Lower a list that stands in no loop and no branch: `return` may stay."""
        lowered: list[Node] = []
        for position, statement in enumerate(statements):
            if isinstance(statement, gast.Return):
                return [*lowered, statement]
            goes_on = _completes(statement)  # lowering removes the `break` that this looks for
            if "return" not in jumps([statement]):
                lowered += self.region([statement], None)
            elif _can_stay(statement):
                for part in parts(statement):
                    part[:] = self.native(part)
                lowered.append(statement)
            else:
                place = Make(statements[-1])
                rest = self.region(statements[position:], None)
                result = place.load(self.result)
                result.tg_sure = True  # every path has assigned it, though the flags hide that
                return [*lowered, *rest, place.returns(result)]
            if not goes_on:
                break
        return lowered

    def region(self, statements: Sequence[Node], loop: _Loop | None) -> list[Node]:
        """Lower a list whose jumps must become assignments."""
        lowered: list[Node] = []
        for position, statement in enumerate(statements):
            goes_on = _completes(statement)
            rest = list(statements[position + 1 :]) if goes_on else []
            kinds = jumps([statement])
            if type(statement) in JUMPS:
                return [*lowered, *self.jump(statement, loop)]
            if isinstance(statement, LOOPS):
                return [*lowered, *self.loop(statement, rest, loop)]
            if not kinds:
                for part in parts(statement):
                    part[:] = self.region(part, loop)
                lowered.append(statement)
                if not goes_on:
                    return lowered
                continue
            if isinstance(statement, gast.If) and rest:
                if not completes(statement.body):
                    statement.orelse, rest = [*statement.orelse, *rest], []
                elif not completes(statement.orelse):
                    statement.body, rest = [*statement.body, *rest], []
            if is_trial(statement) and rest and not statement.finalbody and _handlers_jump(statement):
                statement.orelse, rest = [*statement.orelse, *rest], []
            if isinstance(statement, gast.With | gast.Try):
                self.attempt(statement, loop)
            else:
                for part in parts(statement):
                    part[:] = self.region(part, loop)
            lowered.append(statement)
            if rest:
                lowered += self.region([_guard(statement, self.names(kinds, loop), rest)], loop)
            return lowered
        return lowered

    def jump(self, statement: Node, loop: _Loop | None) -> list[Node]:
        place = Make(statement)
        flag = self.names([JUMPS[type(statement)]], loop)[0]
        result = []
        if isinstance(statement, gast.Return):
            result = [place.assign(self.result, statement.value or place.constant(None))]
        return [*result, place.assign(flag, place.constant(True))]

    def loop(self, statement: Node, rest: list[Node], outer: _Loop | None) -> list[Node]:
        """Lower a loop, its `else`, and the rest of the list after it."""
        kinds = jumps(statement.body)
        loop = _Loop(self.flag("tg_break", "break" in kinds), self.flag("tg_continue", "continue" in kinds))
        place = Make(statement, statement.iter if isinstance(statement, gast.For) else statement.test)
        statement.body = self.region(statement.body, loop)
        if loop.continued:
            statement.body.insert(0, place.assign(loop.continued, place.constant(False)))
        statement.tg_flags = self.names([kind for kind in ("break", "return") if kind in kinds], loop)
        after, statement.orelse = statement.orelse, []
        if "break" not in kinds:  # what is in the `else` simply follows
            after, rest = [], [*after, *(rest if completes(after) else [])]
        if after and statement.tg_flags:
            after = [_guard(statement, statement.tg_flags, after)]
        if rest and "return" in kinds:
            rest = [_guard(statement, [self.returned], rest)]
        start = [place.assign(loop.broken, place.constant(False))] if loop.broken else []
        return [*start, statement, *self.region([*after, *rest], outer)]

    def attempt(self, statement: Node, loop: _Loop | None) -> None:
        """Lower a `try` or `with` with jumps in it."""
        if isinstance(statement, gast.Try) and jumps(statement.finalbody):
            raise SourceUnavailable(f"line {statement.lineno}: 'finally' is left by a jump, as is its 'try'")
        flags = self.names(jumps(statement.body), loop)
        nested = any(isinstance(s, gast.With | gast.Try) and jumps([s]) for s in walk_scope(statement.body))
        if flags and isinstance(statement, gast.Try) and statement.orelse:
            statement.orelse = [_guard(statement.orelse[0], flags, statement.orelse)]
        for part in parts(statement):
            part[:] = self.region(part, loop)
        if nested:  # a jump may have set its flag, and then been overruled by an exception on its way out
            handlers = [] if isinstance(statement, gast.With) else statement.handlers
            place = Make(statement.body[0])
            if isinstance(statement, gast.With):  # which may swallow the exception
                handlers = [place.at(gast.ExceptHandler(None, None, [place.at(gast.Raise(None, None))]))]
                statement.body = [place.at(gast.Try(statement.body, handlers, [], []))]
            for handler in handlers:
                handler.body[:0] = [place.assign(flag, place.constant(False)) for flag in flags]

    def flag(self, base: str, needed: bool) -> str:
        name = self.fresh.unique(base) if needed else ""
        self.flags.add(name)
        return name

    def names(self, kinds: Iterable[str], loop: _Loop | None) -> list[str]:
        """Return the flags of kinds of jumps."""
        found = []
        for kind in kinds:
            if kind == "return":
                found.append(self.returned)
            else:
                assert loop is not None, "only a loop has break and continue"
                found.append(loop.broken if kind == "break" else loop.continued)
        return found


def _can_stay(statement: Node) -> bool:
    """Return whether the returns inside a statement at the top level may stay `return` statements."""
    if not isinstance(statement, gast.With | gast.Match | gast.Try) or is_trial(statement):
        return False
    if isinstance(statement, gast.Try) and jumps(statement.finalbody):
        return False
    return all(_list_can_stay(part) for part in parts(statement))


def _handlers_jump(statement: Node) -> bool:
    """Return whether no handler of a `try` goes on to what stands after it."""
    return not any(completes(handler.body) for handler in statement.handlers)


def _list_can_stay(statements: list[Node]) -> bool:
    for position, statement in enumerate(statements):
        if isinstance(statement, gast.Return):
            return True
        if "return" in jumps([statement]) and not _can_stay(statement):
            return not completes(statements[position:])
    return True


def _guard(statement: Node, flags: Sequence[str], body: list[Node]) -> Node:
    """Return `if not (flag or ...): body`, at the place of `statement`."""
    place = Make(statement)
    made = place.at(gast.If(place.negation(place.any_of(flags)), body, []))
    made.tg_hook = "guarded"
    return made


def _drop_unread(flags: set[str], statements: list[Node]) -> list[Node]:
    """Remove the assignments to flags that nothing reads."""
    read: set[str] = set()
    for node in gast.walk(gast.Module(statements, [])):
        if isinstance(node, gast.Name) and isinstance(node.ctx, gast.Load):
            read.add(node.id)
        read.update(getattr(node, "tg_flags", ()))
    unread = flags - read

    def clean(part: list[Node]) -> list[Node]:
        kept = []
        for statement in part:
            if isinstance(statement, gast.Assign) and getattr(statement.targets[0], "id", None) in unread:
                continue
            for inner in [statement.body] if isinstance(statement, LOOPS) else parts(statement):
                first = inner[:1]
                inner[:] = clean(inner)
                if first and not inner:
                    inner.append(Make(first[0]).at(gast.Pass()))
            kept.append(statement)
        return kept

    return clean(statements)
