"""Random indices: values, strides, gradients, writes, and refusals are torch's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tracegrad as tg

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch (CPU)")

#: how an entry is spelled, and how many axes it takes
ENTRIES = (
    ("{k}", 1), ("-1", 1), ("np.int64({k})", 1), ("T.tensor({k})", 1), ("T.tensor({k}, dtype=T.int8)", 1),
    (":", 1), ("{k}:", 1), (":{n}", 1), ("::2", 1), ("None", 0), ("...", 0), ("True", 0), ("T.tensor(True)", 0),
    ("[{k}, 0]", 1), ("[{k}]", 1), ("[{k}, -1, 0]", 1), ("T.tensor([{k}, 0])", 1), ("np.array([[{k}, 0], [0, -1]])", 1),
    ("T.tensor([[{k}], [0]])", 1), ("T.tensor({mask})", 1), ("{mask}", 1), ("np.array({mask})", 1),
    ("T.tensor({square})", 2), ("False", 0), ("T.tensor({mask}, dtype=T.uint8)", 1), ("[]", 1),
)  # fmt: skip
WEIGHTS = [10, 4, 2, 6, 2, 14, 6, 4, 4, 8, 6, 2, 1, 12, 4, 4, 6, 4, 4, 4, 2, 2, 4, 1, 1, 1]


def draw_index(rng: random.Random, shape: tuple[int, ...]) -> str:
    texts: list[str] = []
    axis = 0
    for _ in range(rng.randint(1, len(shape) + 2)):
        text, taken = rng.choices(ENTRIES, WEIGHTS)[0]
        if axis + taken > len(shape) or (text == "..." and "..." in texts):
            continue
        if text == "...":
            axis += rng.randint(0, 1)
        n = shape[axis] if axis < len(shape) else 1
        mask = [rng.random() < 0.6 for _ in range(n)]
        square = [[rng.random() < 0.6 for _ in range(shape[min(axis + 1, len(shape) - 1)])] for _ in range(n)]
        texts.append(text.format(k=rng.randrange(n), n=n, mask=mask, square=square))
        axis += taken
    return "".join(f"{text}, " for text in texts) or "..."


def tried(T: Any, run: Any) -> Any:
    try:
        return run(T)
    except (IndexError, RuntimeError) as error:
        return type(error)


def check(index: str, shape: tuple[int, ...], transposed: bool) -> int:
    """Compare what an index reads, adds to and writes; return the number of steps that torch does not refuse."""
    rng = np.random.default_rng(3)
    values = rng.integers(1, 99, shape).astype(float)

    def tensors(T: Any) -> tuple[Any, Any]:
        x = T.tensor(values, requires_grad=True)
        return x, (x.transpose(0, -1).contiguous().transpose(0, -1) if transposed else x * 1)

    def found(T: Any, *tensors: Any) -> list[Any]:
        arrays = [t.detach().numpy() for t in tensors]
        return [a.tolist() for a in arrays] + [
            (tuple(a.shape), [s for s, n in zip(a.strides, a.shape, strict=True) if n != 1 and a.size]) for a in arrays
        ]

    def read(T: Any) -> Any:
        x, y = tensors(T)
        out = eval(f"y[{index}]", {"T": T, "np": np, "y": y})
        (out * T.arange(1.0, out.numel() + 1, dtype=T.float64).reshape(out.shape)).sum().backward()
        return found(T, out, x.grad)

    def write(T: Any, line: str) -> Any:
        x, y = tensors(T)
        names = {"T": T, "np": np, "y": y}
        size = eval(f"y.detach()[{index}]", names).shape
        count = int(np.prod(size))
        names["v"] = v = T.arange(1.0, count + 1, dtype=T.float64).reshape(tuple(size)).requires_grad_()
        exec(line, names)
        (names["y"] * T.tensor(values[::-1].copy())).sum().backward()
        grads = [t.grad if t.grad is not None else T.zeros_like(t) for t in (x, v)]
        return found(T, names["y"], *grads)

    def places(T: Any) -> list[int]:
        y = T.arange(values.size).reshape(shape)
        return list(eval(f"y[{index}]", {"T": T, "np": np, "y": y}).flatten().tolist())

    lines = [] if "uint8" in index else [f"y[{index}] = 2.5"]  # torch refuses some writes through such masks
    chosen = tried(torch, places)
    if lines and (isinstance(chosen, type) or len(set(chosen)) == len(chosen)):  # of equal places any may be the last
        lines += [f"y[{index}] = v", f"y[{index}] += v", f"y[{index}] *= 3"]
    done = 0
    for run in (read, *(lambda T, line=line: write(T, line) for line in lines)):
        expected = tried(torch, run)
        assert tried(tg, run) == expected, f"x[{index}] of shape {shape}, transposed: {transposed}"
        done += not isinstance(expected, type)
    return done


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_indices(seed: int) -> None:
    rng = random.Random(seed)
    done = 0
    for _ in range(12):
        shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randint(1, 4)))
        done += check(draw_index(rng, shape), shape, rng.random() < 0.3)
    assert done > 15


@pytest.mark.parametrize("index", ["False", "T.tensor(False)", "True", "...", "None", "T.tensor(1, dtype=T.uint8)"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_index_of_a_number(index: str) -> None:
    assert check(index, (), False)
