"""Programs that overwrite what a node saved, with what torch says of the value; x: f32[3,3] requires grad, T is torch."""

from __future__ import annotations

from typing import Any

_ADD, _COPY, _VIEW = (
    f"[torch.FloatTensor [3, 3]], which is output 0 of {name}, is at version 1; expected version 0 instead."
    for name in ("Add", "torch::autograd::CopySlices", "AsStrided")
)

#: statements that make y and overwrite; part of the first line of the error of y's backward pass
PROGRAMS: tuple[tuple[str, str], ...] = (
    ("y = x.exp(); y.add_(1)", "[3, 3]], which is output 0 of Exp, is at version 1"),
    ("y = x.exp(); y[0] = 1", "[3, 3]], which is output 0 of Exp, is at version 1"),
    ("t = x * 2; y = t * t; t.add_(1)", _ADD),
    ("t = x * 2; y = t * t; t.add_(1); t.mul_(3)", "[3, 3]], which is output 0 of Mul, is at version 2; expected version 0"),
    ("t = x * 2; y = t * t; t[0] = 5", _COPY),
    ("t = x * 2; y = t * t; t[0].add_(1); t.add_(1)", "[3, 3]], which is output 0 of Add, is at version 2"),
    ("t = x * 2; y = t * t; t.zero_()", "which is output 0 of Zero, is at version 1"),
    ("t = x * 2; y = t * t; t.fill_(2.0)", "which is output 0 of Fill"),
    ("t = x * 2; y = t * t; t.copy_(x)", "which is output 0 of torch::autograd::CopyBackwards, is at version 1"),
    ("t = x * 2; y = t * t; t.detach().add_(1)", "which is output 0 of Mul, is at version 1"),
    ("t = x * 2; y = t * t\nwith T.no_grad(): t.add_(1)", "which is output 0 of Mul, is at version 1"),
    ("w = T.ones(3, 3); y = x * w; w.add_(1)", "[torch.FloatTensor [3, 3]] is at version 1; expected version 0 instead."),
    ("w = T.ones(3, 3); y = x * w; w.add_(x)", _ADD),
    ("y = x * x\nwith T.no_grad(): x.add_(1)", "[torch.FloatTensor [3, 3]] is at version 1; expected version 0 instead."),
    ("i = T.tensor([0, 1]); y = x.index_select(0, i); i.add_(1)", "[torch.LongTensor [2]] is at version 1"),
    ("t = x * 2; v = t.T; y = v * v; t.add_(1)", _VIEW),
    ("t = x * 2; v = t.T; y = v * v; v.add_(1)", _VIEW),
    ("t = x * 2; v = t[0]; y = v * v\nwith T.no_grad(): t.add_(1)", "[3]], which is output 0 of AsStrided, is at version 1"),
    ("v = (x * 2).T; y = v.exp(); y.T.add_(1)", "which is output 0 of Exp, is at version 1"),
    ("t = x * 2; v = t[:2]; v.exp_(); v.add_(1); y = t", "[2, 3]], which is output 0 of Exp, is at version 2; expected version 1"),
    ("v, _ = x.sin().max(1); y = v * v; v.add_(1)", "[3]], which is output 0 of Add, is at version 1"),
    ("v, w = T.linalg.eigh(x.T @ x); y = w.sin()\nwith T.no_grad(): w.add_(1)", "which is output 0 of LinalgEigh, is at version 1"),
    ("y, w = T.linalg.eigh(x.T @ x)\nwith T.no_grad(): w.add_(1)", "which is output 1 of LinalgEigh, is at version 1"),
    ("a, b, c = x.sin(); y = b * b\nwith T.no_grad(): b.add_(1)", "Output 1 of Unbind is a view and its base or another view of its base has been modified inplace. This view is the output of a function that returns multiple views."),
    ("a, b = x.sin().split([1, 2]); y = b * b\nwith T.no_grad(): b.add_(1)", "Output 1 of SplitWithSizes is a view and its base"),
    ("w = T.ones(2, 3, requires_grad=True); y = T.nn.functional.linear(x, w)\nwith T.no_grad(): w.add_(1)", "[3, 2]], which is output 0 of AsStrided, is at version 1"),
    ("w = T.ones(2, 3); y = T.nn.functional.linear(x, w); w.add_(1)", "[torch.FloatTensor [3, 2]] is at version 1"),
    ("w = x * 2; y = w @ w; w.add_(1)", _ADD),
    ("h = T.zeros(3, 3); s = 0\nfor k in range(3): h += x * h.tanh() if k else x; s = s + h * h\ny = s", "which is output 0 of Add, is at version 3; expected version 2"),
)  # fmt: skip
# ruff: noqa: E501


def error_of(T: Any, program: str) -> str:
    """Return the first line of the error of a program's backward pass."""
    names = {"T": T, "x": T.ones(3, 3, requires_grad=True)}
    try:
        exec(program, names)
        names["y"].sum().backward()
    except RuntimeError as error:
        return str(error).splitlines()[0].partition(" Hint:")[0]
    return ""
