"""Suggests remedies for a bottleneck: an advice and, if one setting does it, the command with that setting changed."""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from paceline.analyze.bottleneck.suspect import Suspect
from paceline.plan.roles import host_names
from paceline.present.bottleneck import COMMAND_MARK
from paceline.present.numbers import count
from paceline.spec.experiment import OPTIONS
from paceline.spec.interval import Interval
from paceline.spec.run_options import RunSpec
from paceline.spec.script import arguments, is_module, target
from paceline.store.header import RunHeader
from paceline.strategies.descriptor import Strategy

_FLAGS = (
    "size", "examples", "engine", "strategy", "layout", "batch", "eval_every", "checkpoint_every", "hosts", "link",
    "latency", "cpus", "trusted_network",
)  # fmt: skip
"""Options that have a flag of their own on the command line; the others are given with --set."""
_FLAGS_UNLESS_DEFAULT = ("seed", "backup", "on_failure", "restarts", "time_limit")
_TRAINING = ("init", "activation", "steps_per_epoch", "shard", "shuffle", "eval_by", "histograms")
_OPTIMIZER = ("lr", "momentum", "lr_scale", "optimizer", "schedule", "clip", "param_groups")
_SETTINGS = (
    *_OPTIMIZER,
    "threads",
    "transport",
    "eval_examples",
    "trace_every",
    *_TRAINING,
    "checkpoint_keep",
    "sample_hz",
    "record",
)
_ENGINE_OPTIONS = ("master", "executor_memory", "driver_memory", "lineage")
"""Options that only some engines have."""
_LAUNCH_FLAGS = (
    "layout", "hosts", "link", "latency", "cpus", "trusted_network", "threads", "on_failure", "restarts", "time_limit",
    "stall_limit", "stack_hz",
)  # fmt: skip
LEFT_OUT = ("fault", "tag", "repeat", "name")
"""Options that a command does not repeat. Faults name tasks and times of the measured run."""
_FACTOR = 4
"""Factor for a larger batch, link rate or CPU limit: large enough that its effect exceeds the noise."""
_NUMBER = re.compile(r"\d+(\.\d+)?")


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a run, from which the commands of its remedies are made."""

    spec: RunSpec
    layout: str
    strategy: Strategy
    alternatives: Mapping[str, Strategy] = {}
    """Strategies that can be suggested, by name."""
    evenly_splitting_engines: tuple[str, ...] = ()
    """Engines to suggest for an even split of the parameters over the servers; none if the run's own engine does it."""
    engine_options: tuple[str, ...] = ()
    """The options that only some engines have and that the run's engine has."""
    trains: bool = True
    one_machine: bool = False
    """Whether all hosts share one machine."""
    runs: str = OPTIONS["runs"].default
    """The directory that holds the run."""

    @property
    def host_words(self) -> list[str]:
        """The layout split into one word per host, such as `pw`: a parameter server and a worker."""
        return self.layout.split()

    @property
    def is_script(self) -> bool:
        """Whether the run is of a user's script, which decides about batches, evaluations and checkpoints itself."""
        return self.spec.is_script

    def command(self, **changes: Any) -> str:
        """The command of the same run with some settings changed."""
        spec = {**msgspec.structs.asdict(self.spec), "layout": self.layout, **changes}
        if self.is_script:
            return self._launch_command(spec)
        parts = ["paceline", "run", self.spec.workload]
        for name in _FLAGS:
            if spec[name] is None or spec[name] is False or (name == "batch" and not self.trains):
                continue
            flag = f"--{name.replace('_', '-')}"
            parts += [flag] if spec[name] is True else [flag, str(spec[name])]
        for name in _FLAGS_UNLESS_DEFAULT:
            if spec[name] != OPTIONS[name].default and (name != "backup" or self._allows_backup(spec)):
                parts += [f"--{name.replace('_', '-')}", str(spec[name])]
        for rule in spec["stop"]:
            parts += ["--stop", str(rule)]
        strategy = self.alternatives.get(spec["strategy"], self.strategy)
        for name in (*_SETTINGS, *_ENGINE_OPTIONS, *strategy.options):
            if spec[name] != OPTIONS[name].default:
                value = spec[name] if spec[name] is not False else "false"
                parts += ["--set", f"{name}={value}"]
        return shlex.join([*parts, *self._runs_flag()])

    def _allows_backup(self, changed: Mapping[str, Any]) -> bool:
        """Whether a changed run can have the backup workers of this one."""
        same = all(changed[name] == getattr(self.spec, name) for name in ("strategy", "engine"))
        return same and self.spec.backup < changed["layout"].count("w")

    def _runs_flag(self) -> list[str]:
        return [] if self.runs == OPTIONS["runs"].default else ["--runs", self.runs]

    def _launch_command(self, spec: dict[str, Any]) -> str:
        parts = ["paceline", "launch"]
        for name in _LAUNCH_FLAGS:
            if spec[name] != OPTIONS[name].default:
                flag = f"--{name.replace('_', '-')}"
                parts += [flag] if spec[name] is True else [flag, str(spec[name])]
        for rule in spec["stop"]:
            parts += ["--stop", str(rule)]
        module = ["-m"] if is_module(self.spec.script) else []
        parts += self._runs_flag()
        return shlex.join([*parts, *module, target(self.spec.script), *arguments(self.spec.script, self.spec.param)])

    def with_strategy(self, name: str | None) -> str | None:
        """The command for the same workers with another strategy; None if it cannot be suggested."""
        if name is None or name not in self.alternatives:
            return None
        if self.alternatives[name].has_servers == self.strategy.has_servers:
            return self.command(strategy=name)
        servers = 1 if self.alternatives[name].has_servers else 0
        return self.command(strategy=name, layout=self.layout_with(servers))

    def layout_with(self, servers: int) -> str:
        """The layout with the same workers and this number of servers, all of them on the first host."""
        words = [word.replace("p", "") for word in self.host_words]
        return " ".join(word for word in ["p" * servers + words[0], *words[1:]] if word)


def configuration_of(header: RunHeader, runs: Path | None = None) -> Configuration:
    """The configuration of the run that has this header and is in the directory `runs`."""
    return Configuration(
        spec=header.spec,
        layout=header.layout,
        strategy=header.strategy,
        alternatives={strategy.name: strategy for strategy in header.alternatives},
        evenly_splitting_engines=()
        if header.engine.splits_parameters_evenly
        else header.engine.evenly_splitting_engines,
        engine_options=header.engine.options,
        trains=header.trains,
        one_machine=header.host_kind.shares_one_machine,
        runs=str(runs) if runs else OPTIONS["runs"].default,
    )


def remedies(suspect: Suspect, configuration: Configuration) -> list[str]:
    """The remedies for a bottleneck, the most promising first."""
    pairs = _advice(suspect, configuration)
    return [f"{advice}{COMMAND_MARK}{command}" if command else advice for advice, command in pairs]


def _advice(suspect: Suspect, configuration: Configuration) -> Iterator[tuple[str, str]]:
    """Pairs of an advice and its command; the command is empty if no single setting does it."""
    match suspect.cause:
        case "compute":
            if suspect.reason == "cpu_limit":
                yield _raise_cpu_limit(configuration)
            yield from _add_worker(configuration)
            if configuration.one_machine:
                yield "use more or faster cores: communication is not the bottleneck", ""
        case "network":
            yield from _reduce_traffic(configuration)
            link = configuration.spec.link
            yield "use a faster link", configuration.command(link=_multiply_numbers(link)) if link else ""
        case "server":
            if suspect.reason == "cpu_limit":
                yield _raise_cpu_limit(configuration)
            yield (
                "distribute the parameters over more servers",
                configuration.command(layout=_layout_with_server_per_host(configuration)),
            )
            yield from _larger_batch(configuration)
        case "driver":
            if suspect.reason == "cpu_limit":
                yield _raise_cpu_limit(configuration)
            yield from _send_less(configuration)
            yield from _larger_batch(configuration)
        case "scheduler":
            yield from _larger_batch(configuration)
            yield "use fewer workers: every task of a step is scheduled by itself", ""
        case "gc":
            yield _larger_heap(configuration)
        case "straggler":
            if suspect.reason == "cpu_limit":
                yield _equal_cpu_limits(configuration)
            if suspect.reason == "fewer_threads":
                yield "use hosts with the same number of cores", ""
            yield from _avoid_waiting(configuration)
        case "barrier":
            yield from _avoid_waiting(configuration)
            yield from _larger_batch(configuration)
        case "imbalance":
            yield from _balance_load(suspect, configuration)
        case "input":
            if configuration.is_script:
                yield (
                    "load batches in processes of their own, e.g. DataLoader(num_workers=2, persistent_workers=True)",
                    "",
                )
                yield "make the loading of one example cheaper: cache decoded examples, or transform whole batches", ""
            else:
                yield "speed up data loading, or prefetch batches in a separate thread", ""
        case "overhead":
            yield from _larger_batch(configuration)
            yield from _use_one_thread(suspect, configuration)
        case "contention":
            yield from _reduce_contention(suspect, configuration)
        case "startup":
            longer = _longer_stop_rules(configuration)
            command = configuration.command(stop=longer) if longer else ""
            yield "train longer, so that startup is a small part of the total time", command
        case "unknown":
            yield "trace steps, so that their phases are known", configuration.command(trace_every=2)
        case "evaluation" if configuration.is_script:
            yield "evaluate less often, or on fewer examples", ""
        case "checkpoint" if configuration.is_script:
            yield "write checkpoints less often, to a faster disk, or in the background", ""
        case "evaluation":
            eval_every = (configuration.spec.eval_every or 100) * 10
            yield "evaluate less often", configuration.command(eval_every=eval_every)
        case "checkpoint":
            checkpoint_every = _longer_interval(configuration.spec.checkpoint_every or "100")
            yield "write checkpoints less often", configuration.command(checkpoint_every=checkpoint_every)


def _reduce_traffic(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if not configuration.trains:
        yield "place the blocks that are multiplied on the same host", configuration.command(size="colocated")
    elif sends_less := list(_send_less(configuration)):
        yield from sends_less
    elif _may_add_servers(configuration):
        advice = "run a parameter server on every host, to spread the traffic over all links"
        yield advice, configuration.command(layout=_layout_with_server_per_host(configuration))
    if configuration.trains:
        yield from _exchange_less(configuration)
        yield from _larger_batch(configuration)


def _may_add_servers(configuration: Configuration) -> bool:
    strategy, servers = configuration.strategy, configuration.layout.count("p")
    return strategy.has_servers and not strategy.one_server and servers < len(configuration.host_words)


def _send_less(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if configuration.spec.workload == "sparse-logreg" and configuration.spec.size == "dense":
        yield "transfer only the weights that a batch uses", configuration.command(size="sparse")


def _exchange_less(configuration: Configuration) -> Iterator[tuple[str, str]]:
    spec, strategy = configuration.spec, configuration.strategy
    if command := configuration.with_strategy(strategy.seldom_exchanging_counterpart):
        yield "let workers train alone for many steps between two exchanges", command
    elif strategy.has_rounds and (default := strategy.options.get("sync_every")):
        sync_every = (spec.sync_every or int(default)) * _FACTOR
        yield "exchange less often", configuration.command(sync_every=sync_every)
    else:
        return  # The model exchanges only rows, or the engine has no such strategy.
    if "compress" in strategy.options and "compress" in configuration.engine_options and spec.compress is None:
        yield "compress what is exchanged", configuration.command(compress="int8")


def _larger_heap(configuration: Configuration) -> tuple[str, str]:
    heap = configuration.spec.executor_memory
    command = configuration.command(executor_memory=_multiply_numbers(heap)) if heap else ""
    return "give the executors a larger heap (--set executor_memory=…)", command


def _larger_batch(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if configuration.is_script:
        yield "use a larger batch or accumulate gradients (with no_sync): less communication per example", ""
    elif configuration.trains:
        batch = configuration.spec.batch * _FACTOR
        cost = "overhead" if configuration.strategy.single_worker else "communication"
        yield f"use a larger batch: less {cost} per example", configuration.command(batch=batch)
    else:
        yield "use larger blocks: fewer transfers", ""


def _avoid_waiting(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if not configuration.trains:
        yield "give every host the same amount of work", ""
    elif command := configuration.with_strategy(configuration.strategy.asynchronous_counterpart):
        yield "try asynchronous updates", command


def _balance_load(suspect: Suspect, configuration: Configuration) -> Iterator[tuple[str, str]]:
    if suspect.reason == "uneven_servers":
        for engine in configuration.evenly_splitting_engines[:1]:
            advice = f"use engine {engine}, which splits the parameters evenly over the servers"
            yield advice, configuration.command(engine=engine)
        yield "use one parameter server", configuration.command(layout=configuration.layout_with(servers=1))
        return
    if suspect.reason == "cpu_limit":
        yield _equal_cpu_limits(configuration)
    if suspect.reason in ("contention", "exchange"):
        words = [word.replace("p", "") for word in configuration.host_words]
        layout = " ".join(["p", *(word for word in words if word)])
        yield "put the parameter server on a separate host", configuration.command(layout=layout)
    if command := configuration.with_strategy(configuration.strategy.synchronous_counterpart):
        yield "try synchronous updates, in which every worker has the same share", command


def _reduce_contention(suspect: Suspect, configuration: Configuration) -> Iterator[tuple[str, str]]:
    if suspect.reason == "background_load":
        machine = suspect.host if suspect.host and not configuration.one_machine else "this machine"
        yield f"stop the other programs on {machine}, or run again when it is idle", ""
        yield from _use_one_thread(suspect, configuration)
        return
    yield from _use_one_thread(suspect, configuration)
    fewer = _layout_with_workers(configuration, suspect.fitting_workers)
    if fewer.count("w") < configuration.layout.count("w"):
        workers = count(fewer.count("w"), "worker")
        yield f"use as many workers as the cores can carry: {workers}", configuration.command(layout=fewer)
    if not suspect.where.startswith("the machine") and any(len(word) > 1 for word in configuration.host_words):
        layout = " ".join(letter for word in configuration.host_words for letter in word)
        yield "put each task on a separate host", configuration.command(layout=layout)
    yield "use more cores", ""


def _use_one_thread(suspect: Suspect, configuration: Configuration) -> Iterator[tuple[str, str]]:
    if suspect.threads > 1:
        yield "use one compute thread per worker: threads wait for each other", configuration.command(threads=1)


def _add_worker(configuration: Configuration) -> Iterator[tuple[str, str]]:
    if not configuration.strategy.single_worker:
        yield "add a worker", configuration.command(layout=f"{configuration.layout} w")
    elif multi_worker := configuration.alternatives.get(configuration.strategy.multi_worker_counterpart or ""):
        layout = "pw w" if multi_worker.has_servers else "w w"
        yield "split the work between two workers", configuration.command(strategy=multi_worker.name, layout=layout)


_FOREIGN_LIMIT = ("remove the limit of the host's CPU time, which is not one of the run's --cpus", "")


def _raise_cpu_limit(configuration: Configuration) -> tuple[str, str]:
    if configuration.spec.cpus is None:
        return _FOREIGN_LIMIT
    return "allow the hosts more cores", configuration.command(cpus=_multiply_numbers(str(configuration.spec.cpus)))


def _equal_cpu_limits(configuration: Configuration) -> tuple[str, str]:
    if configuration.spec.cpus is None:
        return _FOREIGN_LIMIT
    limits = [limit for limit in str(configuration.spec.cpus).split() if limit != "-"]
    highest = max(limits, key=float, default="1")
    return "allow every host the same number of cores", configuration.command(cpus=highest)


def _layout_with_server_per_host(configuration: Configuration) -> str:
    return " ".join(word if "p" in word else f"p{word}" for word in configuration.host_words)


def _layout_with_workers(configuration: Configuration, workers: Mapping[str, int]) -> str:
    """The layout with at most this number of workers on each of these hosts."""
    words = []
    for word, host in zip(configuration.host_words, host_names(len(configuration.host_words)), strict=True):
        surplus = max(0, word.count("w") - workers.get(host, len(word)))
        words.append(word[::-1].replace("w", "", surplus)[::-1])
    return " ".join(word for word in words if word)


def _longer_stop_rules(configuration: Configuration) -> list[str]:
    """The stop rules with steps, epochs and seconds multiplied by ten."""
    longer = []
    for rule in configuration.spec.stop:
        kind, _, number = str(rule).partition("=")
        longer.append(f"{kind}={float(number) * 10:g}" if kind in ("steps", "epochs", "seconds") else str(rule))
    return longer


def _multiply_numbers(quantities: str) -> str:
    """The text with every number multiplied by `_FACTOR`: `100mbit -` becomes `400mbit -`."""
    return _NUMBER.sub(lambda number: f"{float(number[0]) * _FACTOR:g}", quantities)


def _longer_interval(interval_text: str) -> str:
    """An interval ten times as long: `500` becomes `5000`, `30s` becomes `300s`."""
    interval = Interval.parse(interval_text)
    return f"{10 * interval.value:g}{'s' if interval.unit == 'seconds' else ''}"
