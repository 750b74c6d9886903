"""Data sets and loaders."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from tests.eager.torch_like import torch

data = torch.utils.data


def numbers(n: int) -> Any:
    return data.TensorDataset(torch.arange(n), torch.arange(n) * 10.0)


def test_batches_in_order() -> None:
    loader = data.DataLoader(numbers(5), batch_size=2)
    assert [[t.tolist() for t in batch] for batch in loader] == [
        [[0, 1], [0.0, 10.0]], [[2, 3], [20.0, 30.0]], [[4], [40.0]],
    ]  # fmt: skip
    assert len(loader) == 3
    dropped = data.DataLoader(numbers(5), 2, drop_last=True)
    assert (len(dropped), len(list(dropped))) == (2, 2)


def test_shuffled_batches_can_be_repeated() -> None:
    loader = data.DataLoader(numbers(20), 6, shuffle=True)
    orders = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        orders.append([k for batch, _ in loader for k in batch.tolist()])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[2]) == list(range(20))
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    first, second = (
        [k.item() for k, _ in data.DataLoader(numbers(9), None, shuffle=True, generator=g)] for g in generators
    )
    assert first == second


def test_parts_of_data_sets() -> None:
    parts = data.random_split(numbers(10), [0.7, 0.3])
    assert [len(p) for p in parts] == [7, 3]
    assert sorted(int(x[0]) for p in parts for x in p) == list(range(10))
    assert [int(x[0]) for x in data.Subset(numbers(10), [3, 1])] == [3, 1]
    both = numbers(2) + numbers(3)
    assert [int(both[k][0]) for k in (0, 1, 2, 4, -1)] == [0, 1, 0, 2, 2]
    with pytest.raises(ValueError, match="does not equal the length"):
        data.random_split(numbers(10), [3, 3])


def test_samplers() -> None:
    assert list(data.BatchSampler(data.SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 1.0], 50)) == {1, 2}
    assert len(list(data.RandomSampler(range(4), True, 10))) == 10
    assert sorted(data.RandomSampler(range(4), num_samples=8)) == [0, 0, 1, 1, 2, 2, 3, 3]
    loader = data.DataLoader(numbers(6), batch_sampler=[[5, 0], [1]])
    assert [x.tolist() for x, _ in loader] == [[5, 0], [1]]


def test_iterable_data_sets() -> None:
    class Squares(data.IterableDataset):
        def __iter__(self) -> Any:
            return (k * k for k in range(5))

    assert [b.tolist() for b in data.DataLoader(Squares(), 2)] == [[0, 1], [4, 9], [16]]
    assert list(data.DataLoader(Squares(), None)) == [0, 1, 4, 9, 16]
    with pytest.raises(ValueError, match="IterableDataset"):
        data.DataLoader(Squares(), shuffle=True)


def test_elements_are_joined_place_by_place() -> None:
    Pair = namedtuple("Pair", "x y")
    made = data.default_collate(
        [{"p": Pair(1.5, np.ones(2)), "s": "a", "t": (torch.zeros(1), 2)},
         {"p": Pair(2.5, np.zeros(2)), "s": "b", "t": (torch.ones(1), 3)}]
    )  # fmt: skip
    assert made["p"].x.dtype == torch.float64
    assert made["p"].y.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert made["s"] == ["a", "b"]
    assert [t.tolist() for t in made["t"]] == [[[0.0], [1.0]], [2, 3]]
    with pytest.raises(TypeError, match="default_collate: batch must contain"):
        data.default_collate([object()])
    joined = data.DataLoader(numbers(3), 3, collate_fn=lambda batch: len(batch))
    assert list(joined) == [3]
    with pytest.raises(ValueError, match="mutually exclusive"):
        data.DataLoader(numbers(3), sampler=[0], shuffle=True)
