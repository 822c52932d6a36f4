"""Makes the job of each task: what it trains, with which settings, files and share of its host."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from paceline.control.script_jobs import code_references, script_job
from paceline.data.dataset import PreparedData
from paceline.engines.registry import engines
from paceline.files.reference import FileRef, reference, references
from paceline.hosts.base import Host
from paceline.plan.place import RunPlan
from paceline.plan.strategy_options import strategy_options
from paceline.spec.interval import Interval
from paceline.spec.training import shuffle_buffer
from paceline.store.header import ResumePoint
from paceline.train.context import Job
from paceline.workloads.registry import workload_of


class JobStart(msgspec.Struct, frozen=True, kw_only=True):
    """Where in the training a task starts."""

    point: ResumePoint
    """The checkpoint from which all tasks of the run continue."""
    next_step: int = 0
    """The first step of a worker that is restarted alone, while the other tasks continue."""
    trained_s: float = 0.0
    attempt: int = 0
    """The number of restarts before this start."""


def restored_file(point: ResumePoint) -> tuple[FileRef, ...]:
    """The checkpoint from which the tasks start; empty if they start from the initial values."""
    return (reference(Path(point.checkpoint)),) if point.checkpoint else ()


class JobFactory:
    """Makes the jobs of one run."""

    def __init__(
        self, plan: RunPlan, data: PreparedData, run: str, hosts: Mapping[str, Host], reassignable: frozenset[str]
    ) -> None:
        self._plan, self._data, self._run, self._hosts = plan, data, run, hosts
        self._reassignable = reassignable
        self._engine = engines()[plan.spec.engine]
        self._secrets = self._engine.new_secrets()
        self.data_files = references(data.paths)
        self.code_files = code_references(plan)
        self.cores: dict[str, int] = {}
        """Of each host that has joined."""
        self.memory_bytes: dict[str, int] = {}
        """Of each host that has joined."""

    def job(self, task: str, start: JobStart) -> Job:
        """The job of a task."""
        plan, spec, engine = self._plan, self._plan.spec, self._engine
        place = next(place for place in plan.places if place.task == task)
        options = {name: value for name in engine.options if (value := getattr(spec, name)) is not None}
        return Job(
            run=self._run,
            task=task,
            role=place.role,
            index=place.index,
            workers=len(plan.workers),
            servers=len(plan.servers),
            address=self._hosts[place.host].address,
            ports=self._hosts[place.host].ports,
            workload=spec.workload,
            code=self.code_files,
            size=plan.size,
            data=replace(self._data, paths=()),
            data_files=self.data_files,
            examples=spec.examples,
            engine=spec.engine,
            entry_point=engine.tasks[place.role],
            may_pass=engine.may_pass,
            strategy=spec.strategy,
            synchronous=plan.strategy.synchronous,
            batch=spec.batch,
            seed=spec.seed,
            optimizer=plan.optimizer,
            stop=spec.stop,
            update_limit=plan.update_limit,
            updates_per_epoch=plan.updates_per_epoch,
            eval_every=plan.eval_every,
            eval_examples=spec.eval_examples,
            checkpoint_every=Interval.parse(spec.checkpoint_every) if spec.checkpoint_every else None,
            threads=spec.threads or self._fair_threads(place.host),
            tune_threads=spec.threads is None,
            memory_bytes=self._fair_memory(place.host),
            options=options,
            strategy_options=strategy_options(spec, plan.strategy),
            trace_every=spec.trace_every,
            transport=plan.transport,
            record=spec.record,
            secrets=self._secrets.get(place.role, {}),
            backup=spec.backup,
            restore=next(iter(restored_file(start.point)), None),
            first_step=max(start.next_step, start.point.steps.get(task, 0)),
            trained_s=start.trained_s,
            init=spec.init,
            activation=spec.activation,
            shard="worker" if spec.shard == "worker" else "global",
            shuffle_buffer=shuffle_buffer(spec.shuffle),
            steps_per_epoch=spec.steps_per_epoch,
            eval_by=spec.eval_by,
            histograms=spec.histograms,
            reassignable=task in self._reassignable,
            script=script_job(plan, place, start.attempt),
        )

    def _fair_threads(self, host: str) -> int:
        """Threads for a task on `host`: an equal share of the cores among the workers that compete for them."""
        workers, cores = self._plan.workers, self.cores[host]
        workers_on_host = sum(worker.host == host for worker in workers) or 1
        machine_share = cores // (len(workers) if self._plan.shares_one_machine else workers_on_host)
        cpus = next(limits.cpus for limits in self._plan.limits if limits.host == host)
        host_share = int((cpus or cores) // workers_on_host)
        limits = workload_of(self._plan.spec, self._plan.size).most_threads or cores
        return max(1, min(machine_share, host_share, limits))

    def _fair_memory(self, host: str) -> int:
        """Memory for a task on `host`: an equal share among the tasks of its machine."""
        places = self._plan.places
        on_machine = len(places) if self._plan.shares_one_machine else sum(place.host == host for place in places)
        return self.memory_bytes[host] // max(1, on_machine)
