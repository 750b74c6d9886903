"""Comprehensions and generator expressions over objects that refer to each other run in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.capture.agreement import check_agreement

X = np.array([1.2, 0.6, 0.3, 0.9])


class Node:
    def __init__(self, length, parent=None):
        self.length, self.parent, self.children = length, parent, []
        if parent is not None:
            parent.children.append(self)


def tree_of(x):
    root = Node(0.1)
    inner = Node(x[0] * x[1], root)
    return [root, inner, Node(x[2], inner), Node(x[3] ** 2, inner)]


def sum_over_nodes(x):
    root, inner, left, right = tree_of(x)
    return sum(node.length**2 for node in (root, inner, left, right))


def leaves_only(x):
    nodes = tree_of(x)
    leaves = [node for node in nodes if not node.children]
    return sum(leaf.length for leaf in leaves) * sum([n.length * n.parent.length for n in nodes if n.parent])


def longest_edge(x):
    nodes = tree_of(x)
    return max(node.length for node in nodes) * min([node.length for node in nodes[1:]])


def children_of_nodes(x):
    nodes = tree_of(x)
    lengths = {k: node.length for k, node in enumerate(nodes)}
    first = next(node.length for node in nodes if node.parent)
    return sum(child.length * node.length for node in nodes for child in node.children) + lengths[2] * first


def traced_test(x):
    return sum(node.length**2 for node in tree_of(x) if node.length > 0.5)


class Player:
    def __init__(self, skill):
        self.skill, self.games = skill, []


def players_of_each_other(x):
    players = [Player(skill) for skill in x]
    for p in players:
        for other in players:
            if other is not p:
                p.games.append((other, 1.0 if p is players[0] else 0.5))
    return sum(sum(other.skill * score for other, score in p.games) * p.skill for p in players)


class Sum:
    def __init__(self, value, left, right):
        self.value, self.left, self.right = value, left, right


def nodes_with_shared_parts(x):
    nodes = [Sum(x[0], None, None), Sum(x[1], None, None)]
    for k in range(40):  # opened as trees these are 2**28 nodes
        nodes.append(Sum(nodes[-1].value * x[k % 4], nodes[-1], nodes[-2]))
    return sum(node.value for node in nodes) + sum([node.value for node in nodes if node.left is None])


PROGRAMS: list[Callable[..., Any]] = [
    sum_over_nodes,
    leaves_only,
    longest_edge,
    children_of_nodes,
    traced_test,
    players_of_each_other,
    nodes_with_shared_parts,
]


@pytest.mark.parametrize("backend", ["numpy", "c"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_items_are_taken_by_python(program: Callable[..., Any], backend: str) -> None:
    check_agreement(program, backend, X)
