"""The flame graph of a script: stacks are stored as text, become a tree, and are drawn with a table beside it."""

from pathlib import Path
from typing import Any

import pytest

from paceline.analyze.flame_graph import flame_graph
from paceline.recording import folded_stacks
from paceline.report.page import run_blocks
from paceline.report.run_data import RunData
from paceline.store.paths import RunPaths
from paceline.store.run import StoredRun
from report.stored import store_run

STACKS = {
    ("data", "main (train.py:20)", "collate (train.py:8)"): 60,
    ("data", "main (train.py:20)", "default_collate (torch/utils/data/_utils/collate.py)"): 20,
    ("backward", "main (train.py:22)"): 20,
}


def with_stacks(runs: Path, data: bytes) -> RunPaths:
    paths = store_run(runs)
    folder = paths.profile_of("w1")
    folder.mkdir(parents=True)
    (folder / folded_stacks.FILE_NAME).write_bytes(data)
    return paths


def flames_of(paths: RunPaths) -> Any:
    result = StoredRun(paths).result
    assert result
    data = RunData(result, paths)
    return {getattr(block, "key", ""): block for block in run_blocks(data)}.get("flames")


def test_stacks_survive_the_file() -> None:
    assert folded_stacks.decode(folded_stacks.encode(STACKS)) == STACKS


def test_lines_of_another_form_are_left_out() -> None:
    assert folded_stacks.decode(b"data;main 3\n\xff\xfe\nno count\n 7\ndata;main -1\ndata;main 2\n") == {
        ("data", "main"): 5
    }


def test_the_most_frequent_stacks_are_kept_if_there_are_too_many() -> None:
    many: dict[folded_stacks.Stack, int] = {("data", f"function_{number}" * 20): number for number in range(1, 5_000)}
    kept = folded_stacks.decode(folded_stacks.encode(many))
    assert 100 < len(kept) < len(many)
    assert min(kept.values()) > max(count for stack, count in many.items() if stack not in kept)


def test_a_tree_has_the_phases_below_its_root() -> None:
    root = flame_graph(STACKS)
    assert [(node.name, node.samples) for node in root.largest_first] == [("data", 80), ("backward", 20)]
    (main,) = root.children["data"].largest_first
    assert [node.samples for node in main.largest_first] == [60, 20]


def test_rare_frames_stay_a_part_of_their_caller() -> None:
    root = flame_graph({("data", "a"): 9_999, ("data", "a", "rare"): 1})
    (function,) = root.children["data"].largest_first
    assert (function.samples, function.children) == (10_000, {})


def test_the_page_of_a_run_has_the_flame_graph_of_sampled_ranks(tmp_path: Path) -> None:
    flames = flames_of(with_stacks(tmp_path, folded_stacks.encode(STACKS)))
    (view,) = flames.views
    assert view.name == "w1 on h2"
    nodes = [view.nodes[at : at + 3] for at in range(0, len(view.nodes), 3)]
    assert [(depth, flames.names[name], samples) for depth, name, samples in nodes][:4] == [
        (0, "", 100), (1, "data", 80), (2, "main (train.py:20)", 80), (3, "collate (train.py:8)", 60),
    ]  # fmt: skip


@pytest.mark.parametrize("data", [b"", b"\x00" * 100])
def test_a_run_without_readable_stacks_has_no_flame_graph(data: bytes, tmp_path: Path) -> None:
    assert flames_of(with_stacks(tmp_path, data)) is None
