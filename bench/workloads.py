"""Benchmarks of larger and sparse models, each with the ratio that is expected."""

import json
import subprocess
import sys
import tempfile

from bench.measure import console, measure, paceline_case, print_table, ratio, run_once

_ALEXNET = {"batch": 32, "threads": 1, "stop": "steps=10", "eval_examples": 32}
_ALEXNET_OPTIONS = "--strategy single --batch 32 --stop steps=10 --set threads=1 --set eval_examples=32"


def alexnet(rounds: int) -> None:
    """Two workers that exchange 61 million gradients, against two independent single-worker runs at the same time."""
    measurements = measure(
        {
            "two single runs": lambda: sum(_run_concurrently(2)),
            "ps-sync": paceline_case(
                "alexnet", "examples_per_s", strategy="ps-sync", layout="pw w", size="imagenet", **_ALEXNET
            ),
            "allreduce": paceline_case(
                "alexnet", "examples_per_s", strategy="allreduce", layout="w w", size="imagenet", **_ALEXNET
            ),
            "ps-sync over tcp": paceline_case(
                "alexnet", "examples_per_s", strategy="ps-sync", layout="pw w", transport="tcp", **_ALEXNET
            ),
        },
        rounds,
    )
    ratios = {
        f"{name} / two single runs": (ratio(measurements, name, "two single runs"), note)
        for name, note in (
            ("ps-sync", "expected: at least 0.85"),
            ("allreduce", "expected: at least 0.85"),
            ("ps-sync over tcp", "encrypted and copied through the kernel, on the same two cores"),
        )
    }
    print_table("AlexNet, torch, two workers of one thread, batch 32", measurements, ratios, unit="examples/s")


def sparse(rounds: int) -> None:
    """A model of 33 million weights, of which a batch uses 3,900."""
    cases = (("torch", "sparse", "seconds=5"), ("tensorflow", "sparse", "seconds=5"), ("torch", "dense", "seconds=15"))
    measurements = measure(
        {
            f"{engine} {size}": paceline_case(
                "sparse-logreg", engine=engine, size=size, strategy="ps-async", layout="cluster2", stop=stop
            )
            for engine, size, stop in cases
        },
        rounds,
    )
    ratios = {
        "torch / tensorflow": (ratio(measurements, "torch sparse", "tensorflow sparse"), "expected: at least 4"),
        "sparse / dense": (ratio(measurements, "torch sparse", "torch dense"), "expected: at least 100"),
    }
    print_table("Sparse logistic regression, ps-async, three workers, batch 100", measurements, ratios)


def lenet(rounds: int) -> None:
    """98 % accuracy on MNIST, and the same loss from synchronous runs as from one worker after as many examples."""
    cases = {
        "single, batch 100": {"strategy": "single", "batch": 100},
        "ps-sync, 2 workers, batch 50": {"strategy": "ps-sync", "layout": "pw w", "batch": 50},
        "allreduce, 2 workers, batch 50": {"strategy": "allreduce", "layout": "w w", "batch": 50},
    }
    losses: dict[int, list[float]] = {seed: [] for seed in range(1, rounds + 1)}
    for name, fields in cases.items():
        for seed, seed_losses in losses.items():
            final = run_once("lenet", stop="epochs=4", seed=seed, **fields).final
            seed_losses.append(final.loss or 0.0)
            accuracy = 100 * (final.accuracy or 0.0)
            console.print(
                f"  {name}, seed {seed}: test loss {final.loss:.4f}, accuracy {accuracy:.2f} % after 4 epochs"
            )
    difference = max(max(seed_losses) - min(seed_losses) for seed_losses in losses.values())
    console.print("  expected: accuracy of single at least 98 %")
    console.print(f"  largest difference of the losses of one seed: {difference:.4f}\n")


def _run_concurrently(count: int) -> list[float]:
    """Start so many AlexNet runs at the same time; returns the examples per second of each."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench-") as runs:
        options = [*_ALEXNET_OPTIONS.split(), "--json", "--runs", runs]
        command = [sys.executable, "-m", "paceline", "run", "alexnet:imagenet", *options]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(count)]
        return [float(json.loads(process.communicate()[0])["examples_per_s"]) for process in processes]
