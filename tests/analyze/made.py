"""Results for tests: fields that are not given have plain defaults."""

from typing import Any

from paceline.store.result import Disk, Final, HostResult, Reached, Result, Staleness, Traffic, WorkerResult
from paceline.store.verdict import Verdict
from paceline.strategies.registry import strategies


def made(run: str = "sweep-1", **fields: Any) -> Result:
    """A successful run of logreg; `workers`, `steps`, `to_loss_s`, `updates_to_loss`, `loss`, `memory_mb`,
    `staleness` and `stop` are shortcuts that fill in nested fields."""
    workers, strategy = fields.pop("workers", 2), fields.get("strategy", "ps-sync")
    steps = fields.pop("steps", [100] * workers)
    facts = strategies()[strategy]
    synchronous = facts.synchronous
    updates = max(steps) if synchronous else sum(steps)
    batch = fields.setdefault("batch", 100)
    reached_s, rule = fields.pop("to_loss_s", None), "loss=0.5"
    at_update = fields.pop("updates_to_loss", updates)
    stale = fields.pop("staleness", None)
    plain: dict[str, Any] = {
        "run": run,
        "workload": "logreg",
        "engine": "torch",
        "strategy": strategy,
        "layout": " ".join(["pw", *["w"] * (workers - 1)]),
        "seed": 1,
        "repeat": 1,
        "status": "ok",
        "reason": None,
        "tainted": False,
        "updates": updates,
        "examples": sum(steps) * batch,
        "train_s": 1.0,
        "total_s": 5.0,
        "first_step_s": 3.0,
        "updates_per_s": 100.0,
        "examples_per_s": 20_000.0,
        "final": Final(loss=fields.pop("loss", 0.49), accuracy=fields.pop("accuracy", 0.88)),
        "reached": None if reached_s is None else Reached(rule=rule, at_s=reached_s, at_update=at_update),
        "workers": [_worker(number, count, stale) for number, count in enumerate(steps)],
        "hosts": [_host(number, fields.get("memory_mb", 300.0)) for number in range(workers)],
        "verdict": Verdict(cause="compute", where="w0 on h1", share=0.5, evidence=[], remedy=[]),
        "incidents": [],
        "dir": f"runs/{run}",
        "hosts_kind": "local",
        "settings": {"stop": fields.pop("stop", [rule] if reached_s is not None else ["steps=100"])},
        "data": "mnist",
        "started_at": "2026-01-01T00:00:00+00:00",
        "key": "k",
        "synchronous": synchronous,
        "single_worker": facts.single_worker,
        "one_machine": True,
        "examples_per_update": batch * facts.gradients_per_update(workers),
        "lr": 0.1,
    }
    fields.pop("memory_mb", None)
    return Result(**{**plain, **fields})


def repeats(sweep: str, values: list[float], field: str, **fields: Any) -> list[Result]:
    """One run for each value of the field."""
    return [made(f"{sweep}-{number}", **{field: value}, **fields) for number, value in enumerate(values, 1)]


def _worker(number: int, steps: int, stale: float | None) -> WorkerResult:
    staleness = None if stale is None else Staleness(mean=stale, p95=stale, max=int(stale) + 1)
    return WorkerResult(
        task=f"w{number}", host=f"h{number + 1}", steps=steps, phases={"compute": 1.0}, staleness=staleness
    )


def _host(number: int, memory_mb: float) -> HostResult:
    return HostResult(
        host=f"h{number + 1}", tasks=[f"w{number}"], cpu_cores_mean=1.0, cpu_cores_max=1.0, busiest_core_max=1.0,
        memory_mb_max=memory_mb, external=Traffic(), loopback=Traffic(), disk=Disk(), scope={},
    )  # fmt: skip
