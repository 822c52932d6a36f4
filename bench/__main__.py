"""Benchmarks of Paceline against hand-written training scripts: `python -m bench [PART]... [--rounds N]`."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.advise import advise
from bench.fake_agents import fake_agents
from bench.hook_cost import hooks
from bench.launch import causes, observation
from bench.measure import measure, paceline_case, print_table, ratio
from bench.overhead import overhead
from bench.page import page
from bench.peers.launch import updates_per_s
from bench.predict import predict
from bench.record_cost import record
from bench.remote import files, many_hosts, ssh
from bench.scale import scale
from bench.workloads import alexnet, lenet, sparse

_SCRIPT_ASYNC = "tensorflow script, async"


def paces(rounds: int) -> None:
    """The throughput of all engines and strategies with three workers, batch 100."""
    cases = {
        f"{engine} {strategy}": paceline_case(
            "logreg", engine=engine, strategy=strategy, layout="cluster2", stop="seconds=5"
        )
        for engine, strategy in (
            ("torch", "ps-async"),
            ("tensorflow", "ps-async"),
            ("torch", "ps-sync"),
            ("torch", "allreduce"),
            ("tensorflow", "ps-sync"),
            ("tensorflow", "allreduce"),
        )
    }
    cases[_SCRIPT_ASYNC] = lambda: updates_per_s(workers=3, steps=3000, sync=False)
    measurements = measure(cases, rounds)
    ratios = {
        "torch ps-async / tensorflow ps-async": (
            ratio(measurements, "torch ps-async", "tensorflow ps-async"),
            "expected: at least 5",
        ),
        "torch ps-async / tensorflow script": (
            ratio(measurements, "torch ps-async", _SCRIPT_ASYNC),
            "the expected 5 was derived from this ratio",
        ),
        "torch ps-sync / torch allreduce": (
            ratio(measurements, "torch ps-sync", "torch allreduce"),
            "expected: at least 3",
        ),
    }
    print_table("Three workers on this machine, logreg, batch 100", measurements, ratios)


def peer(rounds: int) -> None:
    """The TensorFlow engine against a hand-written TensorFlow script."""
    measurements = measure(
        {
            "engine, ps-async": paceline_case(
                "logreg", engine="tensorflow", strategy="ps-async", layout="cluster2", stop="steps=3000"
            ),
            "script, ps-async": lambda: updates_per_s(workers=3, steps=3000, sync=False),
            "engine, ps-sync": paceline_case(
                "logreg", engine="tensorflow", strategy="ps-sync", layout="cluster2", stop="steps=600"
            ),
            "script, ps-sync": lambda: updates_per_s(workers=3, steps=600, sync=True),
        },
        rounds,
    )
    ratios = {
        f"engine / script, {strategy}": (
            ratio(measurements, f"engine, {strategy}", f"script, {strategy}"),
            "expected: at least 1",
        )
        for strategy in ("ps-async", "ps-sync")
    }
    print_table("TensorFlow: engine and hand-written script (feed_dict, monitored session)", measurements, ratios)


def optimizers(rounds: int) -> None:
    """What the optimizer costs the parameter server: sgd beside momentum and adam, three asynchronous workers."""
    names = ("sgd", "momentum", "adam")
    measurements = measure(
        {
            f"{workload} {name}": paceline_case(
                workload, strategy="ps-async", layout="cluster2", optimizer=name, lr=0.001, stop="seconds=5"
            )
            for workload in ("logreg", "lenet")
            for name in names
        },
        rounds,
    )
    ratios = {
        f"{workload}: {name} / sgd": (ratio(measurements, f"{workload} {name}", f"{workload} sgd"), "")
        for workload in ("logreg", "lenet")
        for name in names[1:]
    }
    print_table("Optimizers on the parameter server of torch, ps-async, three workers", measurements, ratios)


_PARTS: dict[str, Callable[[int], None]] = {
    "paces": paces,
    "optimizers": optimizers,
    "page": page,
    "peer": peer,
    "overhead": overhead,
    "record": record,
    "alexnet": alexnet,
    "sparse": sparse,
    "lenet": lenet,
    "scale": scale,
    "ssh": ssh,
    "hosts": many_hosts,
    "files": files,
    "fake-agents": fake_agents,
    "hooks": hooks,
    "observation": observation,
    "causes": causes,
    "predict": predict,
    "advise": advise,
}
_DEFAULT_PARTS = [name for name in _PARTS if name not in ("predict", "advise")]
"""All but those that take longer than all others together."""
_DEFAULT_ROUNDS = {"scale": 1, "hosts": 1, "fake-agents": 1, "causes": 1}
"""Of parts that take long and whose values differ by more than their spread; 3 for all others."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[*_PARTS, []], default=_DEFAULT_PARTS, help=f"default: {' '.join(_DEFAULT_PARTS)}"
    )
    parser.add_argument("--rounds", type=int, help="how often each case is measured (default: 3; scale: 1)")
    parser.add_argument("--page", type=Path, help="also write the values of scale to this Markdown file")
    options = parser.parse_args()
    parts: dict[str, Callable[[int], None]] = {**_PARTS, "scale": partial(scale, page=options.page)}
    for part in options.parts:
        parts[part](options.rounds or _DEFAULT_ROUNDS.get(part, 3))


if __name__ == "__main__":
    main()
