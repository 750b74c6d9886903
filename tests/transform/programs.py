"""Programs in IR text, by name: what the tests of transforms and passes run. Each has one scalar float result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tracegrad.ir.core import Function
from tracegrad.ir.parser import parse_function


@dataclass(frozen=True)
class Program:
    """A function in IR text, arguments for it, and the parameters to differentiate by."""

    text: str
    arguments: tuple[Any, ...]
    wrt: tuple[int, ...] = (0,)

    def function(self) -> Function:
        return parse_function(self.text)


_RNG = np.random.default_rng(7)

STRAIGHT = Program(
    """
func @straight(%x: f64[3], %y: f64[3], %n: i64[]) -> (f64[]) {
  %p: f64[3] = multiply %x, %y
  %s: f64[3] = sin %p
  %e: f64[3] = exp %x
  %q: f64[3] = multiply %s, %e
  %r: f64[3] = add %q, %p
  %t: f64[3] = subtract %r, %x
  %loss: f64[] = reduce_sum %t {axes=(0,)}
  return %loss
}
""",
    (_RNG.normal(size=3), _RNG.normal(size=3), 2),
    (0, 1),
)

LAYER = Program(
    """
func @layer(%w: f64[3,2], %x: f64[n,3], %b: f64[2], %y: f64[n,2]) -> (f64[]) {
  %xw: f64[n,2] = dot_general %x, %w {contract=((1,), (0,)), batch=((), ())}
  %bb: f64[n,2] = broadcast_to %b {shape=(n, 2)}
  %z: f64[n,2] = add %xw, %bb
  %h: f64[n,2] = tanh %z
  %d: f64[n,2] = subtract %h, %y
  %sq: f64[n,2] = square %d
  %loss: f64[] = reduce_sum %sq {axes=(0, 1)}
  return %loss
}
""",
    (_RNG.normal(size=(3, 2)), _RNG.normal(size=(4, 3)), _RNG.normal(size=2), _RNG.normal(size=(4, 2))),
    (0, 1, 2),
)

BRANCH = Program(
    """
func @branch(%x: f64[], %y: f64[]) -> (f64[]) {
  %zero: f64[] = constant {value=0.0}
  %c: bool[] = greater %x, %zero
  %u: f64[] = multiply %x, %y
  %r: f64[], %q: f64[] = if %c () {
    %a: f64[] = sin %u
    %t: f64[] = tanh %a
    %b: f64[] = multiply %t, %x
    yield %b, %y
  } () {
    %a: f64[] = multiply %y, %y
    %e: f64[] = exp %a
    %b: f64[] = multiply %e, %a
    yield %b, %u
  }
  %s: f64[] = multiply %r, %q
  return %s
}
""",
    (0.7, -0.4),
    (0, 1),
)

BRANCH_OTHER = Program(BRANCH.text, (-0.7, -0.4), (0, 1))

LORENZ = Program(
    """
func @lorenz(%s0: f64[3], %rho: f64[], %n: i64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %i0: i64[] = constant {value=0}
  %i1: i64[] = constant {value=1}
  %i2: i64[] = constant {value=2}
  %dt: f64[] = constant {value=0.02}
  %s: f64[3] = for %zero, %n, %s0 {step=1, reverse=False} (%k: i64[], %state: f64[3]) {
    %x: f64[] = gather %state, %i0 {axes=(0,)}
    %y: f64[] = gather %state, %i1 {axes=(0,)}
    %z: f64[] = gather %state, %i2 {axes=(0,)}
    %yx: f64[] = subtract %y, %x
    %ten: f64[] = constant {value=10.0}
    %dx: f64[] = multiply %ten, %yx
    %rz: f64[] = subtract %rho, %z
    %xrz: f64[] = multiply %x, %rz
    %dy: f64[] = subtract %xrz, %y
    %xy: f64[] = multiply %x, %y
    %beta: f64[] = constant {value=2.5}
    %bz: f64[] = multiply %beta, %z
    %dz: f64[] = subtract %xy, %bz
    %hx: f64[] = multiply %dt, %dx
    %hy: f64[] = multiply %dt, %dy
    %hz: f64[] = multiply %dt, %dz
    %x1: f64[] = add %x, %hx
    %y1: f64[] = add %y, %hy
    %z1: f64[] = add %z, %hz
    %st1: f64[3] = scatter_set %state, %i0, %x1 {axes=(0,)}
    %st2: f64[3] = scatter_set %st1, %i1, %y1 {axes=(0,)}
    %st3: f64[3] = scatter_set %st2, %i2, %z1 {axes=(0,)}
    yield %st3
  }
  %sq: f64[3] = square %s
  %loss: f64[] = reduce_sum %sq {axes=(0,)}
  return %loss
}
""",
    (np.array([1.0, 0.5, 2.0]), 28.0, 5),
    (0, 1),
)

RNN = Program(
    """
func @rnn(%w: f64[3,3], %b: f64[3], %h0: f64[3]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %n: i64[] = constant {value=4}
  %h: f64[3] = for %zero, %n, %h0 {step=1, reverse=False} (%k: i64[], %h: f64[3]) {
    %wh: f64[3] = dot_general %w, %h {contract=((1,), (0,)), batch=((), ())}
    %z: f64[3] = add %wh, %b
    %h.1: f64[3] = tanh %z
    yield %h.1
  }
  %loss: f64[] = reduce_sum %h {axes=(0,)}
  return %loss
}
""",
    (_RNG.normal(size=(3, 3)) * 0.5, _RNG.normal(size=3), _RNG.normal(size=3)),
    (0, 1, 2),
)

RECURRENCE = Program(
    """
func @recurrence(%x: f64[], %a0: f64[n]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %one: i64[] = constant {value=1}
  %n: i64[] = dim {dim=n}
  %a1: f64[n] = scatter_set %a0, %zero, %x {axes=(0,)}
  %a: f64[n] = for %one, %n, %a1 {step=1, reverse=False} (%k: i64[], %a: f64[n]) {
    %i: i64[] = subtract %k, %one
    %prev: f64[] = gather %a, %i {axes=(0,)}
    %s: f64[] = sin %prev
    %v: f64[] = multiply %s, %x
    %old: f64[] = gather %a, %k {axes=(0,)}
    %u: f64[] = add %v, %old
    %a.1: f64[n] = scatter_set %a, %k, %u {axes=(0,)}
    yield %a.1
  }
  %sq: f64[n] = square %a
  %loss: f64[] = reduce_sum %sq {axes=(0,)}
  return %loss
}
""",
    (1.3, _RNG.normal(size=6)),
    (0, 1),
)

ELEMENTS = Program(
    """
func @elements(%x: f64[n], %y: f64[n]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %s0: f64[] = constant {value=0.0}
  %n: i64[] = dim {dim=n}
  %s: f64[] = for %zero, %n, %s0 {step=2, reverse=True} (%k: i64[], %s: f64[]) {
    %xk: f64[] = gather %x, %k {axes=(0,)}
    %yk: f64[] = gather %y, %k {axes=(0,)}
    %p: f64[] = multiply %xk, %yk
    %e: f64[] = exp %p
    %s.1: f64[] = add %s, %e
    yield %s.1
  }
  return %s
}
""",
    (_RNG.normal(size=5), _RNG.normal(size=5)),
    (0, 1),
)

NESTED = Program(
    """
func @nested(%x: f64[m,n], %c: f64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %one: f64[] = constant {value=1.0}
  %f0: f64[] = constant {value=0.0}
  %m: i64[] = dim {dim=m}
  %n: i64[] = dim {dim=n}
  %r: f64[] = for %zero, %m, %one {step=1, reverse=False} (%i: i64[], %acc: f64[]) {
    %row: f64[] = for %zero, %n, %f0 {step=1, reverse=False} (%j: i64[], %t: f64[]) {
      %xij: f64[] = gather %x, %i, %j {axes=(0, 1)}
      %pos: bool[] = greater %xij, %t
      %u: f64[] = if %pos () {
        %q: f64[] = multiply %xij, %c
        %e: f64[] = sin %q
        %w: f64[] = multiply %e, %acc
        yield %w
      } () {
        %q: f64[] = multiply %t, %t
        %w: f64[] = multiply %q, %xij
        yield %w
      }
      %t.1: f64[] = add %t, %u
      yield %t.1
    }
    %th: f64[] = tanh %row
    %acc.1: f64[] = multiply %acc, %th
    %acc.2: f64[] = add %acc.1, %c
    yield %acc.2
  }
  return %r
}
""",
    (_RNG.normal(size=(3, 4)), 0.8),
    (0, 1),
)

NEWTON = Program(
    """
func @newton(%x: f64[]) -> (f64[]) {
  %tol: f64[] = constant {value=1e-3}
  %half: f64[] = constant {value=0.5}
  %g0: f64[] = constant {value=1.0}
  %g: f64[] = while %g0 (%g: f64[]) {
    %sq: f64[] = square %g
    %d: f64[] = subtract %sq, %x
    %ad: f64[] = absolute %d
    %go: bool[] = greater %ad, %tol
    yield %go
  } (%g: f64[]) {
    %q: f64[] = divide %x, %g
    %s: f64[] = add %g, %q
    %g.1: f64[] = multiply %half, %s
    yield %g.1
  }
  %l: f64[] = log %g
  return %l
}
""",
    (5.0,),
)

NESTED_WHILE = Program(
    """
func @nested_while(%x: f64[3], %limit: f64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %three: i64[] = constant {value=3}
  %s0: f64[] = constant {value=0.0}
  %r: f64[] = for %zero, %three, %s0 {step=1, reverse=False} (%k: i64[], %s: f64[]) {
    %xk: f64[] = gather %x, %k {axes=(0,)}
    %v: f64[], %t: f64[] = while %xk, %s (%v: f64[], %t: f64[]) {
      %go: bool[] = less %v, %limit
      yield %go
    } (%v: f64[], %t: f64[]) {
      %vv: f64[] = multiply %v, %v
      %c: bool[] = greater %vv, %limit
      %w: f64[], %z: f64[] = if %c () {
        %a: f64[] = exp %t
        yield %vv, %a
      } () {
        %two: f64[] = constant {value=2.0}
        %a: f64[] = multiply %v, %two
        %b: f64[] = sin %a
        %d: f64[] = multiply %b, %xk
        yield %a, %d
      }
      %t.1: f64[] = add %t, %z
      yield %w, %t.1
    }
    %p: f64[] = multiply %v, %t
    %s.1: f64[] = tanh %p
    yield %s.1
  }
  %sq: f64[] = multiply %r, %r
  return %sq
}
""",
    (np.array([0.3, 0.45, 1.1]), 2.0),
)

_SWAP_LOOP = (
    "%a: f64[], %b: f64[], %c: f64[] = for %o, %n, %x, %y, %x {step=1, reverse=False} "
    "(%k: i64[], %d: f64[], %e: f64[], %f: f64[]) {"
)
SWAP = Program(
    """
func @swap(%x: f64[], %y: f64[], %n: i64[]) -> (f64[]) {
  %o: i64[] = constant {value=0}
  LOOP
    %p: f64[] = multiply %d, %f
    %q: f64[] = cos %p
    yield %e, %q, %y
  }
  %ab: f64[] = multiply %a, %b
  %r: f64[] = add %ab, %c
  return %r
}
""".replace("LOOP", _SWAP_LOOP),
    (0.4, 1.2, 3),
    (0, 1),
)

NO_TRIPS = Program(SWAP.text, (0.4, 1.2, 0), (0, 1))

BRANCH_IN_WHILE = Program(
    """
func @branch_in_while(%w: f64[2,2], %x: f64[2], %n: i64[]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %one: i64[] = constant {value=1}
  %two: i64[] = constant {value=2}
  %k: i64[], %h: f64[2] = while %zero, %x (%k: i64[], %h: f64[2]) {
    %go: bool[] = less %k, %n
    yield %go
  } (%k: i64[], %h: f64[2]) {
    %odd: i64[] = remainder %k, %two
    %c: bool[] = equal %odd, %zero
    %h.1: f64[2] = if %c () {
      %wh: f64[2] = dot_general %w, %h {contract=((1,), (0,)), batch=((), ())}
      %t: f64[2] = tanh %wh
      yield %t
    } () {
      %s: f64[2] = sin %h
      %c.1: f64[2] = cos %s
      %p: f64[2] = multiply %c.1, %x
      yield %p
    }
    %k.1: i64[] = add %k, %one
    yield %k.1, %h.1
  }
  %loss: f64[] = reduce_sum %h {axes=(0,)}
  return %loss
}
""",
    (_RNG.normal(size=(2, 2)), _RNG.normal(size=2), 5),
    (0, 1),
)

TRIANGLE = Program(
    """
func @triangle(%x: f64[4]) -> (f64[]) {
  %zero: i64[] = constant {value=0}
  %four: i64[] = constant {value=4}
  %one: f64[] = constant {value=1.0}
  %r: f64[] = for %zero, %four, %one {step=1, reverse=False} (%i: i64[], %s: f64[]) {
    %xi: f64[] = gather %x, %i {axes=(0,)}
    %t: f64[] = for %zero, %i, %s {step=1, reverse=False} (%j: i64[], %t: f64[]) {
      %xj: f64[] = gather %x, %j {axes=(0,)}
      %p: f64[] = multiply %t, %xj
      %q: f64[] = sin %p
      %u: f64[] = add %q, %xi
      yield %u
    }
    %v: f64[] = multiply %t, %xi
    yield %v
  }
  return %r
}
""",
    (_RNG.normal(size=4),),
)

COUNTERS = Program(
    """
func @counters(%x: f64[12], %n: i64[]) -> (f64[]) {
  %i0: i64[] = constant {value=1}
  %j0: i64[] = constant {value=10}
  %s0: f64[] = constant {value=1.0}
  %i: i64[], %j: i64[], %s: f64[] = while %i0, %j0, %s0 (%i: i64[], %j: i64[], %s: f64[]) {
    %go: bool[] = less %i, %n
    yield %go
  } (%i: i64[], %j: i64[], %s: f64[]) {
    %one: i64[] = constant {value=1}
    %two: i64[] = constant {value=2}
    %xi: f64[] = gather %x, %i {axes=(0,)}
    %d: i64[] = subtract %j, %i
    %xd: f64[] = gather %x, %d {axes=(0,)}
    %e: f64[] = sin %xi
    %p: f64[] = multiply %s, %e
    %q: f64[] = multiply %p, %xd
    %r: f64[] = add %q, %xi
    %i.1: i64[] = add %two, %i
    %j.1: i64[] = subtract %j, %one
    yield %i.1, %j.1, %r
  }
  return %s
}
""",
    (_RNG.normal(size=12), 7),
)

SLICES = Program(
    """
func @slices(%x: f64[6], %y: f64[3]) -> (f64[]) {
  %a: f64[3] = slice %x {start=(0,), stop=(5,), step=(2,)}
  %b: f64[3] = slice %x {start=(3,), stop=(6,), step=(1,)}
  %c: f64[3] = multiply %a, %b
  %d: f64[3] = sin %c
  %z: f64[6] = set_slice %x, %d {start=(1,), stop=(4,), step=(1,)}
  %w: f64[6] = add_slice %z, %y {start=(0,), stop=(5,), step=(2,)}
  %m: f64[] = reduce_max %w {axes=(0,)}
  %cat: f64[9] = concatenate %w, %y {axis=0}
  %sq: f64[9] = square %cat
  %s: f64[] = reduce_sum %sq {axes=(0,)}
  %r: f64[] = multiply %s, %m
  return %r
}
""",
    (_RNG.normal(size=6), _RNG.normal(size=3)),
    (0, 1),
)

PROGRAMS = {name.lower(): value for name, value in list(globals().items()) if isinstance(value, Program)}
