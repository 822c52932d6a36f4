"""A first verdict: the phase that takes most of the workers' time, and where it is worst."""

from paceline.store.result import HostResult, Verdict, WorkerResult

_REMEDY = {
    "data": "make the input pipeline faster or the model step larger (a larger --batch)",
    "pull": "a server on every host (a p in each word of --layout), a larger --batch; between machines, a faster link",
    "push": "exchange less often (a larger --batch); between machines, a faster link",
    "compute": "add workers or cores; communication is not what holds this back",
    "wait": "let workers not wait for each other (--strategy ps-async), or even them out",
    "eval": "evaluate less often (--eval-every)",
    "checkpoint": "write checkpoints less often",
}
_REMEDY_WITHOUT_TRAINING = {
    **_REMEDY,
    "pull": "have together what is used together (--size colocated); between machines, a faster link",
    "push": "between machines, a link of less delay",
    "wait": "even the workers out",
}


def judge(workers: list[WorkerResult], hosts: list[HostResult], *, trains: bool = True) -> Verdict:
    totals: dict[str, float] = {}
    for worker in workers:
        for phase, seconds in worker.phases.items():
            totals[phase] = totals.get(phase, 0.0) + seconds
    spent = sum(totals.values())
    if not spent:
        return Verdict(cause="unknown", where="", share=0.0, evidence=["no step was recorded"], remedy=[])
    cause = max(totals, key=lambda phase: totals[phase])
    worst = max(workers, key=lambda worker: worker.phases.get(cause, 0.0))
    host = next((host for host in hosts if host.host == worst.host), None)
    ranking = sorted(totals.items(), key=lambda item: -item[1])
    evidence = ["of all workers' time: " + ", ".join(f"{name} {seconds / spent:.0%}" for name, seconds in ranking[:4])]
    if host:
        evidence.append(
            f"{host.host}: {host.cpu_cores_mean:.2f} cores by its tasks, busiest core of the machine "
            f"{host.busiest_core_max:.0%} at its height"
        )
    return Verdict(
        cause=cause,
        where=f"{worst.task} on {worst.host}",
        share=round(totals[cause] / spent, 4),
        evidence=evidence,
        remedy=[(_REMEDY if trains else _REMEDY_WITHOUT_TRAINING)[cause]],
    )
