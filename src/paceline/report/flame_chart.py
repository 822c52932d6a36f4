"""The flame graph of a user's script: where in its code each rank was, by phase."""

from paceline.analyze.flame_graph import Node, flame_graph
from paceline.page.blocks import Flames, FlameView
from paceline.report.run_data import RunData

_MOST_RANKS = 32
_CAPTION = (
    "Samples of the main thread of a rank. Each bar is a function, and below it are those that it called; its width is "
    "its share of the samples. Frames of your own code have a line number. Click a bar, or use the arrow keys and "
    "Enter, to enlarge it; Escape shows everything again."
)


def flames(run: RunData) -> Flames | None:
    """Of the ranks that were sampled; None if there are none."""
    names: dict[str, int] = {}
    views = []
    for worker in run.result.workers[:_MOST_RANKS]:
        if stacks := run.stacks(worker.task):
            nodes: list[int] = []
            _append(flame_graph(stacks), 0, names, nodes)
            views.append(FlameView(name=f"{worker.task} on {worker.host}", nodes=nodes))
    if not views:
        return None
    return Flames(key="flames", title="Where the code was", caption=_CAPTION, names=list(names), views=views)


def _append(root: Node, depth: int, names: dict[str, int], nodes: list[int]) -> None:
    """Append the nodes of a tree, each before its children."""
    waiting = [(root, depth)]
    while waiting:
        node, level = waiting.pop()
        nodes += (level, names.setdefault(node.name, len(names)), node.samples)
        waiting += [(child, level + 1) for child in reversed(node.largest_first)]
