"""The runs of the evaluation of predictions: short profiles, and configurations drawn by seed that are only predicted.

`python -m bench.predict_runs PART DIRECTORY [SECONDS]` makes the runs of a part that are missing, until the time is up.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import psutil

import paceline
from paceline.errors import RunError

WORKLOADS = ("logreg", "lenet", "autoencoder")
ENGINES = ("torch", "tensorflow")
_LINKS = {
    "logreg": ("5mbit", "20mbit", "100mbit", "1gbit"),
    "lenet": ("30mbit", "100mbit", "300mbit", "1gbit"),
    "autoencoder": ("100mbit", "200mbit", "500mbit", "1gbit"),
}
"""Rates at which each workload makes enough updates in a few seconds, from clearly too slow to ample."""
_LAYOUTS = {
    "ps-sync": ("p w", "pw w", "p w w", "p w w w", "pw pw", "p p w w", "pw w w"),
    "ps-async": ("p w", "pw w", "p w w", "p w w w", "pw pw", "p p w w", "pw w w"),
    "allreduce": ("w w", "w w w"),
}
_BATCHES = (16, 32, 64, 128, 256)
_CPUS = (None, None, "0.3", "0.5", "0.8")
_DRAWS = {"develop": ((1, 20), (2, 24)), "blind": ((3, 48),)}
"""Seeds of each part, with the number of configurations that are drawn by each."""

DISTURBED_CORES = 0.2
"""With a higher background load, a run is made again."""
_MOST_TRIES = 6
_LONGEST_WAIT_S = 15.0

Fields = dict[str, Any]


def profile() -> list[Fields]:
    """Five runs of 4 s for each workload and engine: two batches, links, with and without servers and CPU limits."""
    return [
        {"workload": workload, "engine": engine, "stop": "seconds=4", "hosts": "netns", **fields}
        for engine in ENGINES
        for workload in WORKLOADS
        for fields in (
            {"strategy": "ps-async", "layout": "p w", "batch": 32, "link": "1gbit"},
            {"strategy": "ps-sync", "layout": "p w w", "batch": 128, "link": "200mbit"},
            {"strategy": "ps-async", "layout": "p w w w", "batch": 32, "link": "100mbit", "cpus": "0.5"},
            {"strategy": "allreduce", "layout": "w w", "batch": 128, "link": "500mbit"},
            {"strategy": "allreduce", "layout": "w w w", "batch": 32, "link": "200mbit", "cpus": "0.5"},
        )
    ]


def drawn(part: str) -> list[Fields]:
    """The configurations of a part, by its seeds: `develop` for building the predictor, `blind` for judging it."""
    found: list[Fields] = []
    for seed, count in _DRAWS[part]:
        rng, most = Random(seed), len(found) + count
        while len(found) < most:
            fields = _draw(rng)
            if fields not in found:
                found.append(fields)
    return found


def _draw(rng: Random) -> Fields:
    workload, strategy = rng.choice(WORKLOADS), rng.choice(tuple(_LAYOUTS))
    layout, cpus = rng.choice(_LAYOUTS[strategy]), rng.choice(_CPUS)
    if cpus and rng.random() < 0.25:
        cpus = " ".join(rng.choice(("0.3", "0.5", "0.8")) for _ in layout.split())
    fields: Fields = {
        "workload": workload,
        "engine": rng.choices(ENGINES, (2, 1))[0],
        "stop": "seconds=6",
        "hosts": "netns",
        "strategy": strategy,
        "layout": layout,
        "batch": rng.choice(_BATCHES),
        "link": rng.choice(_LINKS[workload]),
    }
    return fields | ({"cpus": cpus} if cpus else {})


def missing(part: str, directory: Path) -> Iterator[Fields]:
    """The runs of a part that no undisturbed run of the directory is; those that were tried least often first."""
    found = []
    for number, fields in enumerate(profile() if part == "profile" else drawn(part)):
        name = f"{part}-{number}"
        results = [msgspec.json.decode(path.read_bytes()) for path in directory.glob(f"{name}-*/result.json")]
        undisturbed = any(result["other_cores_mean"] < DISTURBED_CORES for result in results)
        if not undisturbed and len(results) < _MOST_TRIES:
            found.append((len(results), fields | {"name": f"{name}-{len(results) + 1}", "runs": str(directory)}))
    for _, fields in sorted(found, key=lambda pair: pair[0]):
        yield fields


def wait_for_quiet() -> None:
    """Wait until other programs use little of the machine, but not for long."""
    end = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < end and psutil.cpu_percent(0.7) * psutil.cpu_count() / 100 > DISTURBED_CORES:
        pass


def make_missing(part: str, directory: Path, seconds: float) -> None:
    """Make the missing runs of a part, until the time is up."""
    end = time.monotonic() + seconds
    for fields in missing(part, directory):
        if time.monotonic() > end:
            print("the time is up; run the command again for the rest")
            return
        wait_for_quiet()
        try:
            (result,) = paceline.run(**fields)
        except RunError as error:
            print(fields, error)
            continue
        load = f"background load {result.other_cores_mean:.2f} cores"
        print(f"{fields['name']}: {result.status} {result.updates_per_s:.2f} updates/s, {load}", flush=True)


if __name__ == "__main__":
    make_missing(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 200.0)
