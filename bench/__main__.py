"""What is fast, side by side with peers. `python -m bench [PART]... [--rounds N]`"""

import argparse

from bench.measure import Pace, in_turns, ours, show
from bench.overhead import overhead
from bench.peers.launch import updates_per_s
from bench.record_cost import record
from bench.workloads import alexnet, lenet, sparse


def paces(rounds: int) -> None:
    """Engines and strategies on three workers, batch 100."""
    contenders = {
        f"{engine} {strategy}": ours("logreg", engine=engine, strategy=strategy, layout="cluster2", stop="seconds=5")
        for engine, strategy in (
            ("torch", "ps-async"),
            ("tensorflow", "ps-async"),
            ("torch", "ps-sync"),
            ("torch", "allreduce"),
            ("tensorflow", "ps-sync"),
            ("tensorflow", "allreduce"),
        )
    }
    contenders["tensorflow by hand, async"] = lambda: updates_per_s(workers=3, steps=3000, sync=False)
    found = in_turns(contenders, rounds)
    claims = {
        "torch ps-async over tensorflow ps-async": (
            _ratio(found, "torch ps-async", "tensorflow ps-async"),
            "wanted: 5 or more",
        ),
        "torch ps-async over tensorflow by hand": (
            _ratio(found, "torch ps-async", "tensorflow by hand, async"),
            "what the 5 was drawn from",
        ),
        "torch ps-sync over torch allreduce": (_ratio(found, "torch ps-sync", "torch allreduce"), "wanted: 3 or more"),
    }
    show("Three workers on this machine, logreg, batch 100", found, claims)


def peer(rounds: int) -> None:
    """The TensorFlow engine against a script written by hand."""
    found = in_turns(
        {
            "engine, ps-async": ours(
                "logreg", engine="tensorflow", strategy="ps-async", layout="cluster2", stop="steps=3000"
            ),
            "by hand, ps-async": lambda: updates_per_s(workers=3, steps=3000, sync=False),
            "engine, ps-sync": ours(
                "logreg", engine="tensorflow", strategy="ps-sync", layout="cluster2", stop="steps=600"
            ),
            "by hand, ps-sync": lambda: updates_per_s(workers=3, steps=600, sync=True),
        },
        rounds,
    )
    claims = {
        f"engine over by hand, {mode}": (_ratio(found, f"engine, {mode}", f"by hand, {mode}"), "wanted: 1 or more")
        for mode in ("ps-async", "ps-sync")
    }
    show("TensorFlow: engine and hand-written script (feed_dict, monitored session)", found, claims)


def _ratio(found: dict[str, Pace], one: str, other: str) -> float:
    return found[one].median / found[other].median


_PARTS = {
    "paces": paces,
    "peer": peer,
    "overhead": overhead,
    "record": record,
    "alexnet": alexnet,
    "sparse": sparse,
    "lenet": lenet,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], default=list(_PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    for part in options.parts:
        _PARTS[part](options.rounds)


if __name__ == "__main__":
    main()
