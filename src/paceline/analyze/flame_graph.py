"""The sampled stacks of a rank as a tree: the phases, in them the frames, with the number of samples of each."""

from collections.abc import Mapping

import msgspec

from paceline.recording.folded_stacks import Stack

_LEAST_SHARE = 0.002
"""Frames with a smaller share of the rank's samples are left out; their samples stay in the frame that called them."""


class Node(msgspec.Struct):
    """A function of a stack, with the number of samples in which it or a function that it called was running."""

    name: str
    samples: int = 0
    children: dict[str, "Node"] = {}

    @property
    def largest_first(self) -> list["Node"]:
        return sorted(self.children.values(), key=lambda node: -node.samples)


def flame_graph(stacks: Mapping[Stack, int]) -> Node:
    """The root, whose children are the phases."""
    root = Node("", sum(stacks.values()))
    for stack, count in stacks.items():
        node = root
        for name in stack:
            node = node.children.setdefault(name, Node(name))
            node.samples += count
    _prune(root, _LEAST_SHARE * root.samples)
    return root


def _prune(root: Node, least: float) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        node.children = {name: child for name, child in node.children.items() if child.samples >= least}
        waiting += node.children.values()
