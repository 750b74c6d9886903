"""Finds out, for one function, which names each piece of its control flow carries and which may be unbound.

Reads a body without jumps (jumps.py); writes what it found into the nodes, as attributes that convert.py reads:

- `tg_state` of `if`, `while`, `for`, `try`: the names that the statement may rebind and that are read afterwards, or by
  a later turn of the loop. Names that live inside one turn only are left out.
- `tg_state` of a comprehension: the names that `:=` binds in it and that are read in its other turns or afterwards.
- `tg_reset` of `if`: other names that one branch may rebind and the other reads; of `try`: all others that it rebinds.
- `tg_unbound` of a name that is read: it may not be bound at this point.
- `tg_live` of a name that is bound: it is read afterwards.
- `tg_outer` of a nested function or class: the names of this function that may be unbound while it runs.
- `tg_kept` of an `except ... as name`: the name is read after the handler, and must stay known to be unbound.

Previous: jumps.py; next: convert.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import gast

from tracegrad.capture.jumps import has_default, is_trial
from tracegrad.capture.nodes import (
    COMPREHENSIONS,
    FUNCTIONS,
    Node,
    assignment_expressions,
    bindings,
    defaults,
    parameter_names,
    settled_bindings,
    walk_scope,
)


@dataclass(frozen=True, slots=True)
class _Event:
    """What evaluation does to a name: "read", "write", or "capture" (a nested function may read it from now on); or
    "leave", the end of a comprehension that binds names."""

    kind: str
    name: str
    node: Node = None
    certain: bool = True


class Flow:
    """The analysis of one function.

    Args:
        arguments: its gast `arguments`.
        body: its statements, lowered.
        original: names that the text binds (lowering may have dropped dead code that binds some of them).
        declared: the names it declares `global` or `nonlocal`.
        outer: the names of enclosing functions that may be unbound while it runs.
    """

    def __init__(
        self,
        arguments: Node,
        body: list[Node],
        original: Iterable[str],
        declared: frozenset[str],
        outer: frozenset[str],
    ) -> None:
        self.parameters = frozenset(parameter_names(arguments))
        self.declared, self.outer = declared, outer
        bound = settled_bindings(body)
        self.locals = (self.parameters | set(bound) | set(original)) - declared
        # Names that are locals of this function, rebound by converted statements or never, and unbound at its start.
        self.undefined = {name: None for name in original if name in self.locals and name not in bound}
        for name in self.parameters:
            self.undefined.pop(name, None)
        nodes = list(walk_scope(body))
        handlers = [n.name for n in nodes if isinstance(n, gast.ExceptHandler) and n.name is not None]
        stored = [n for n in nodes if isinstance(n, gast.Name) and isinstance(n.ctx, gast.Store)]
        # Names that get unbound, and so are never taken to be bound: those of handlers too, if they have other uses.
        self.deleted = {n.id for n in nodes if isinstance(n, gast.Name) and isinstance(n.ctx, gast.Del)}
        self.deleted |= {h.id for h in handlers} & {*self.parameters, *(n.id for n in stored if n not in handlers)}
        for node in nodes:
            if isinstance(node, (gast.ClassDef, *FUNCTIONS)):
                self.deleted |= _nonlocals(node) & _unbinds(node)
        self.fleeting = self.deleted | {h.id for h in handlers}
        # Those that may run several times at capture, between which their names are set back.
        trials = [node for node in nodes if is_trial(node)]
        self.repeated = {n for n in walk_scope(trials) if isinstance(n, gast.ExceptHandler)}
        # A generator that is passed to a call is read at once; others may be read at any time.
        consumed = [a for n in nodes if isinstance(n, gast.Call) for a in n.args]
        self.captured: set[str] = set()
        self.rebound: dict[str, None] = {}  # by nested functions, with `nonlocal`
        for node in nodes:
            if isinstance(node, (gast.Lambda, gast.ClassDef, *FUNCTIONS)):
                self.captured |= free_names(node)
                self.rebound.update(dict.fromkeys(n for n in _nonlocals(node) if n in self.locals))
            elif isinstance(node, gast.GeneratorExp) and node not in consumed:
                self.captured |= {n.id for n in gast.walk(node) if isinstance(n, gast.Name)}
        self.body = body
        self._forward(body, set(self.parameters) - self.deleted)
        self._backward(body, self._always(), frozenset())
        for node in nodes:
            if isinstance(node, gast.ExceptHandler) and node.name is not None and node.tg_kept:
                node.tg_kept = node.name.id in self.locals
                if node.tg_kept:
                    self.undefined[node.name.id] = None

    def tracked(self) -> frozenset[str]:
        """Return the names whose reads are checked where they may be unbound."""
        return frozenset(self.undefined) | self.outer

    def _always(self) -> set[str]:
        """Return the names that count as read at any time."""
        return self.captured | self.declared | set(self.rebound)

    # Which names are bound: forward. The set is None where control does not come.

    def _forward(self, statements: Sequence[Node], bound: set[str] | None) -> set[str] | None:
        for statement in statements:
            bound = self._forward_one(statement, bound)
        return bound

    def _forward_one(self, node: Node, bound: set[str] | None) -> set[str] | None:
        if isinstance(node, gast.If):
            bound = self._apply(self._events(node.test), bound)
            self._note_undefined([*node.body, *node.orelse], bound)
            return _meet(self._forward(node.body, _copy(bound)), self._forward(node.orelse, _copy(bound)))
        if isinstance(node, gast.While):
            self._note_undefined([node.test, *node.body], bound)
            bound = self._apply(self._events(node.test), bound)
            self._forward(node.body, _copy(bound))
            return bound
        if isinstance(node, gast.For):
            bound = self._apply(self._events(node.iter), bound)
            self._note_undefined([node.target, *node.body], bound)
            self._forward(node.body, self._apply(self._events(node.target), _copy(bound)))
            return bound
        if isinstance(node, gast.With):
            inner = _copy(bound)
            for item in node.items:
                inner = self._apply(self._events(item.context_expr), inner)
                if item.optional_vars is not None:
                    inner = self._apply(self._events(item.optional_vars), inner)
            self._forward(node.body, inner)
            return bound  # whatever the body bound: the `with` may have swallowed an exception before
        if isinstance(node, gast.Try):
            return self._forward_try(node, bound)
        if isinstance(node, gast.Match):
            bound = self._apply(self._events(node.subject), bound)
            ends = [] if has_default(node) else [bound]
            for case in node.cases:
                inner = self._apply(self._events(case.pattern, case.guard), _copy(bound))
                ends.append(self._forward(case.body, inner))
            return _meet(*ends)
        if isinstance(node, (*FUNCTIONS, gast.ClassDef)):
            unbound = {n for n in self.locals if bound is None or n not in bound or n in self.fleeting}
            node.tg_outer = frozenset(unbound | (self.outer - self.locals))
        bound = self._apply(self._events(node), bound)
        return None if isinstance(node, gast.Return | gast.Raise) else bound

    def _forward_try(self, node: Node, bound: set[str] | None) -> set[str] | None:
        if is_trial(node):
            self._note_undefined([node], bound)
        ends = [self._forward([*node.body, *node.orelse], _copy(bound))]
        for handler in node.handlers:
            inner = self._apply(self._events(handler.type), _copy(bound))
            name = handler.name.id if handler.name is not None else None
            if name is not None and inner is not None:
                inner.add(name)
            end = self._forward(handler.body, inner)
            if name is not None and end is not None:
                end.discard(name)
            ends.append(end)
        end = _meet(*ends)
        final = self._forward(node.finalbody, _copy(bound))
        return None if end is None or final is None else end | final

    def _note_undefined(self, region: Iterable[Node], bound: set[str] | None) -> None:
        region = list(region)
        for name in self._rebinds(region):
            if name in self.locals and (bound is None or name not in bound):
                self.undefined[name] = None

    def _rebinds(self, region: list[Node]) -> dict[str, None]:
        """Return the names that statements may rebind, themselves or by calling a nested function."""
        names = settled_bindings(region)
        if self.rebound and any(isinstance(n, gast.Call) for n in walk_scope(region)):
            names.update(self.rebound)
        return names

    def _apply(self, events: list[_Event], bound: set[str] | None) -> set[str] | None:
        for event in events:
            if event.kind == "write":
                if not event.certain:  # in an operand that becomes a function of its own
                    self._note_undefined([event.node], bound)
                elif bound is not None and event.name not in self.deleted:
                    bound.add(event.name)
            elif event.kind == "read":
                if hasattr(event.node, "tg_sure"):
                    continue
                if event.name in self.locals:
                    event.node.tg_unbound = bound is not None and event.name not in bound
                else:
                    event.node.tg_unbound = event.name in self.outer
        return bound

    # Which names are read later: backward. `caught` are those read where an exception may lead.

    def _backward(self, statements: Sequence[Node], live: set[str], caught: frozenset[str]) -> set[str]:
        for statement in reversed(statements):
            live = self._backward_one(statement, live | caught, caught)
        return live | caught

    def _backward_one(self, node: Node, live: set[str], caught: frozenset[str]) -> set[str]:
        if isinstance(node, gast.If):
            before = self._backward(node.body, live, caught) | self._backward(node.orelse, live, caught)
            region = [*node.body, *node.orelse]
            self._note_state(node, region, live)
            # both branches run at capture: what the one binds and the other reads is set back between them
            node.tg_reset = tuple(name for name in self._rebinds(region) if name in before - live)
            return self._use(self._events(node.test), before)
        if isinstance(node, gast.While | gast.For):
            return self._backward_loop(node, live, caught)
        if isinstance(node, gast.With):
            live = self._backward(node.body, live, caught | live)
            events = [e for item in node.items for e in self._events(item.context_expr, item.optional_vars)]
            return self._use(events, live)
        if isinstance(node, gast.Try):
            return self._backward_try(node, live, caught)
        if isinstance(node, gast.Match):
            before = set(live)
            for case in node.cases:
                body = self._backward(case.body, live, caught)
                before |= self._use(self._events(case.pattern, case.guard), body)
            return self._use(self._events(node.subject), before)
        if isinstance(node, gast.Return | gast.Raise):
            live = self._always() | caught
        return self._use(self._events(node), live)

    def _backward_loop(self, node: Node, live: set[str], caught: frozenset[str]) -> set[str]:
        live = live | set(getattr(node, "tg_flags", ()))
        head, region = live, [node.test if isinstance(node, gast.While) else node.target, *node.body]
        for _ in range(2):  # the second time adds what a turn reads of the turn before; the sets do not grow after that
            body = self._backward(node.body, head, caught)
            if isinstance(node, gast.While):
                self._note_state(node, region, body | live | self._use(self._events(node.test), body | live))
                head = self._use(self._events(node.test), body | live)
            else:
                head = self._use(self._events(node.target), body) | live
                self._note_state(node, region, head)
        return self._use(self._events(node.iter), head) if isinstance(node, gast.For) else head

    def _backward_try(self, node: Node, live: set[str], caught: frozenset[str]) -> set[str]:
        if is_trial(node):
            self._note_state(node, [node], live)
            # it may be run several times at capture: what it rebinds is set back between
            node.tg_reset = tuple(name for name in self._rebinds([node]) if name not in live)
        final = self._backward(node.finalbody, live, caught)
        after = caught | final if node.finalbody else caught
        entries: set[str] = set()
        for handler in node.handlers:
            if handler.name is not None:
                handler.tg_kept = handler in self.repeated or handler.name.id in live | final
            entry = self._backward(handler.body, final, after)
            if handler.name is not None:
                entry = entry - {handler.name.id}
            entries |= self._use(self._events(handler.type), entry)
        orelse = self._backward(node.orelse, final, after)
        return self._backward(node.body, orelse, after | entries) | entries

    def _note_state(self, node: Node, region: list[Node], live: set[str]) -> None:
        node.tg_state = tuple(name for name in self._rebinds(region) if name in live)

    def _use(self, events: list[_Event], live: set[str]) -> set[str]:
        live, always = set(live), self._always()
        for event in reversed(events):
            if event.kind == "leave":
                kept = live | always | event.node.tg_read
                event.node.tg_state = tuple(name for name in assignment_expressions(event.node) if name in kept)
            elif event.kind == "write":
                if event.name in live | always:
                    event.node.tg_live = True
                if event.certain and event.name not in always:
                    live.discard(event.name)
            else:
                live.add(event.name)
        return live

    # What a piece of code does, in the order of evaluation.

    def _events(self, *nodes: Node | None) -> list[_Event]:
        events: list[_Event] = []
        for node in nodes:
            if node is not None:
                self._collect(node, events, frozenset(), True)
        return events

    def _collect(self, node: Node, events: list[_Event], hidden: frozenset[str], certain: bool) -> None:
        def visit(*parts: Node | None, hidden: frozenset[str] = hidden, certain: bool = certain) -> None:
            for part in parts:
                if part is not None:
                    self._collect(part, events, hidden, certain)

        if isinstance(node, gast.Name):
            if node.id not in hidden:
                if isinstance(node.ctx, gast.Load | gast.Del):
                    events.append(_Event("read", node.id, node))
                if isinstance(node.ctx, gast.Store | gast.Del):
                    events.append(_Event("write", node.id, node, certain))
        elif isinstance(node, gast.Assign):
            visit(node.value, *node.targets)
        elif isinstance(node, gast.AnnAssign):
            if node.value is not None:
                visit(node.value, node.target)
        elif isinstance(node, gast.AugAssign):
            if isinstance(node.target, gast.Name):
                events.append(_Event("read", node.target.id, node.target))
            visit(node.value, node.target)
        elif isinstance(node, gast.NamedExpr):
            visit(node.value)
            visit(node.target)
        elif isinstance(node, gast.BoolOp):
            visit(node.values[0])
            visit(*node.values[1:], certain=False)
        elif isinstance(node, gast.IfExp):
            visit(node.test)
            visit(node.body, node.orelse, certain=False)
        elif isinstance(node, gast.Compare):
            visit(node.left)
            visit(*node.comparators, certain=certain and len(node.comparators) == 1)
        elif isinstance(node, gast.Assert):
            visit(node.test)
            visit(node.msg, certain=False)
        elif isinstance(node, COMPREHENSIONS):
            self._collect_comprehension(node, events, hidden)
        elif isinstance(node, gast.Lambda):
            visit(*defaults(node.args))
            own = {*parameter_names(node.args), *assignment_expressions(node.body)}
            visit(node.body, hidden=hidden | own, certain=False)
        elif isinstance(node, (*FUNCTIONS, gast.ClassDef)):
            if isinstance(node, gast.ClassDef):
                visit(*node.decorator_list, *node.bases, *(k.value for k in node.keywords))
            else:
                visit(*node.decorator_list, *defaults(node.args))
            events.extend(_Event("capture", name) for name in sorted(free_names(node)))
            events.append(_Event("write", node.name, node, certain))
        elif isinstance(node, gast.alias | gast.MatchAs | gast.MatchStar | gast.MatchMapping):
            visit(*gast.iter_child_nodes(node))
            events.extend(_Event("write", name, node, certain) for name in bindings([node]))
        else:
            visit(*gast.iter_child_nodes(node))

    def _collect_comprehension(self, node: Node, events: list[_Event], hidden: frozenset[str]) -> None:
        first = node.generators[0]
        self._collect(first.iter, events, hidden, True)
        targets = {n.id for g in node.generators for n in gast.walk(g.target) if isinstance(n, gast.Name)}
        hidden = hidden | targets
        values = [node.key, node.value] if isinstance(node, gast.DictComp) else [node.elt]
        inside: list[_Event] = []
        parts = [*first.ifs, *(p for g in node.generators[1:] for p in (g.iter, *g.ifs)), *values]
        for part in parts:
            self._collect(part, inside, hidden, False)
        events += inside
        if assignment_expressions(node):
            node.tg_read = self._use([e for part in parts for e in self._inside(part, hidden)], set())
            events.append(_Event("leave", "", node))

    def _inside(self, part: Node, hidden: frozenset[str]) -> list[_Event]:
        """Return what a part of a comprehension does in a turn in which it is evaluated."""
        events: list[_Event] = []
        self._collect(part, events, hidden, True)
        return events


def free_names(node: Node) -> set[str]:
    """Return the names that a function, lambda or class may take from outside, and some more for classes."""
    if isinstance(node, gast.Lambda):
        inside, body = {*parameter_names(node.args), *assignment_expressions(node.body)}, [node.body]
    elif isinstance(node, FUNCTIONS):
        body = node.body
        inside = (set(parameter_names(node.args)) | set(bindings(body))) - declarations(body)[1]
    else:
        inside, body = set(), node.body
    found = set(declarations(body)[1])
    for part in walk_scope(body):
        if isinstance(part, gast.Name) and not isinstance(part.ctx, gast.Store):
            found.add(part.id)
        elif isinstance(part, (gast.Lambda, gast.ClassDef, *FUNCTIONS)):
            found |= free_names(part)
    return found - inside


def declarations(body: Iterable[Node]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that a function declares `global`, and those it declares `nonlocal`."""
    found: dict[type, set[str]] = {gast.Global: set(), gast.Nonlocal: set()}
    for node in walk_scope(body):
        if isinstance(node, gast.Global | gast.Nonlocal):
            found[type(node)] |= set(node.names)
    return frozenset(found[gast.Global]), frozenset(found[gast.Nonlocal])


def _nonlocals(node: Node) -> set[str]:
    """Return the names that a nested function, or one inside it, declares `nonlocal`."""
    return {name for part in gast.walk(node) if isinstance(part, gast.Nonlocal) for name in part.names}


def _unbinds(node: Node) -> set[str]:
    """Return the names that a nested function, or one inside it, may unbind."""
    parts = list(gast.walk(node))
    names = {n.id for n in parts if isinstance(n, gast.Name) and isinstance(n.ctx, gast.Del)}
    return names | {n.name.id for n in parts if isinstance(n, gast.ExceptHandler) and n.name is not None}


def _copy(bound: set[str] | None) -> set[str] | None:
    return None if bound is None else set(bound)


def _meet(*ends: set[str] | None) -> set[str] | None:
    """Return what is bound at the end of every branch that has an end."""
    reached = [end for end in ends if end is not None]
    return set.intersection(*reached) if reached else None
