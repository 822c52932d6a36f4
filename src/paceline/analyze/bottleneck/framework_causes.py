"""Bottleneck causes inside of a framework: its scheduler, and the garbage collection of its runtime."""

from collections.abc import Iterator

from paceline.analyze.bottleneck.facts import Facts
from paceline.analyze.bottleneck.suspect import Suspect
from paceline.analyze.bottleneck.time_account import TimeAccount
from paceline.present.numbers import milliseconds


def scheduler(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if account.scheduler:
        steps = max(1, sum(worker.steps for worker in facts.workers))
        taken = milliseconds(sum(worker.scheduler_s for worker in facts.workers) / steps)
        step = milliseconds(facts.phases.total / steps)
        compute = milliseconds(facts.phases.compute / steps)
        driver = next(iter(facts.servers), None)
        yield Suspect(
            cause="scheduler",
            where=f"{driver.task} on {driver.host}" if driver else "",
            share=account.scheduler,
            evidence=(
                f"the scheduler takes {taken} of the {step} per step: until a task is launched and started, and until "
                "its end is noticed",
                f"a task computes for {compute}",
            ),
        )


def garbage_collection(facts: Facts, account: TimeAccount) -> Iterator[Suspect]:
    if account.gc:
        worker = max(facts.workers, key=lambda worker: worker.gc_s)
        collecting = milliseconds(worker.gc_s / max(1, worker.steps))
        step = milliseconds(worker.phases.total / max(1, worker.steps))
        yield Suspect(
            cause="gc",
            where=f"{worker.task} on {worker.host}",
            share=account.gc,
            evidence=(f"garbage collection takes {collecting} of the {step} per step on {worker.task}",),
        )
