"""Makes the runs that Python code asks for: reads the arguments, shows the progress and raises if a run fails."""

import shlex
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from paceline.api.progress import Progress, choose_progress
from paceline.api.results import Results, as_results
from paceline.api.ship_code import ship_function, ship_workload
from paceline.errors import RunFailed, SpecError
from paceline.run_all import run_all
from paceline.spec.experiment import OPTIONS, Experiment
from paceline.spec.load import experiment as read_experiment
from paceline.spec.script import MODULE_FLAG
from paceline.workloads.workload import Workload

_SIMPLE_TYPES = (str, int, float, bool, type(None))


def run_fields(fields: Mapping[str, Any]) -> Results:
    """The results of the runs that the arguments of `paceline.run` describe."""
    options, check, progress = _split(fields)
    if "workload" in options:
        options["workload"] = _as_names(options["workload"], _runs_directory(options))
    return make_runs([read_experiment(options)], check=check, progress=choose_progress(progress))


def launch_fields(fields: Mapping[str, Any]) -> Results:
    """The results of the runs that the arguments of `paceline.launch` describe."""
    given = dict(fields)
    script, arguments, module = given.pop("script"), given.pop("arguments"), given.pop("module")
    parameters = _parameter_values(given.pop("param") or {})
    if given["stop"] == ():
        del given["stop"]  # A script ends by itself.
    options, check, progress = _split(given)
    if callable(script):
        if module:
            raise SpecError("module=True is for the name of a module, but a function is given: remove one of them")
        command = [
            ship_function(script, arguments, _runs_directory(options)),
            *(f"{name}={{{name}}}" for name in parameters),
        ]
        texts = {name: [_literal(name, value) for value in values] for name, values in parameters.items()}
    elif isinstance(script, str | Path):
        command = [*([MODULE_FLAG] if module else []), str(script), *map(str, arguments)]
        texts = {name: list(map(str, values)) for name, values in parameters.items()}
    else:
        raise SpecError(f"script is {_kind(script)}: give the path of a script, the name of a module or a function")
    options["script"] = command
    if texts:
        options["param"] = [
            shlex.join(f"{name}={value}" for name, value in zip(texts, values, strict=True))
            for values in product(*texts.values())
        ]
    return make_runs([read_experiment(options)], check=check, progress=choose_progress(progress))


def make_runs(
    experiments: Sequence[Experiment], *, check: bool, progress: Progress, warn_of_conditions: bool = True
) -> Results:
    """Make all runs of the experiments; KeyboardInterrupt if the user interrupts one, RunFailed if `check` finds one.

    An experiment that cannot work is refused before the first run starts.
    """
    with progress:
        results = run_all(
            experiments,
            progress.view,
            progress.on_result,
            progress.on_message,
            progress.show_work,
            warn_of_conditions=warn_of_conditions,
        )
    if results[-1].status == "aborted":
        raise KeyboardInterrupt
    loaded = as_results(results)
    if check:
        _check(loaded)
    return loaded


def _check(results: Results) -> None:
    failed = [result for result in results if result.status != "ok"]
    if failed:
        first = failed[0]
        others = f" ({len(failed)} of {len(results)} runs were not successful)" if len(results) > 1 else ""
        reason = f": {first.reason}" if first.reason else ""
        raise RunFailed(f"run {first.run} {_OUTCOMES[first.status]}{reason}{others}; see {first.dir}", results)


_OUTCOMES = {"failed": "failed", "diverged": "diverged", "aborted": "was interrupted"}


def _split(fields: Mapping[str, Any]) -> tuple[dict[str, Any], bool, bool | None]:
    """The options that were given, `check` and `progress`. An argument that has its default was not given."""
    options = {
        name: value
        for name, value in fields.items()
        if name not in OPTIONS or name == "workload" or not _is_default(name, value)
    }
    check, progress = options.pop("check"), options.pop("progress")
    if not isinstance(check, bool):
        raise SpecError(f"check is {check!r}: must be True or False")
    if progress is not None and not isinstance(progress, bool):
        raise SpecError(f"progress is {progress!r}: must be True, False or None")
    return options, check, progress


def _is_default(name: str, value: object) -> bool:
    default = OPTIONS[name].default
    return type(value) is type(default) and bool(value == default)


def _runs_directory(options: Mapping[str, Any]) -> Path:
    """Where the runs will be; the option is read as in a spec file, so that a wrong value is refused first."""
    fields = {name: options[name] for name in ("runs",) if name in options}
    return Path(read_experiment({"workload": "logreg", **fields}).runs)


def _as_names(workload: object, runs: Path) -> object:
    """The workloads as a spec file names them: a `Workload` becomes the path of a file that holds it."""
    if isinstance(workload, Workload):
        return ship_workload(workload, runs)
    if isinstance(workload, str):
        return workload
    if isinstance(workload, Path):
        return str(workload)
    if isinstance(workload, Sequence) and workload:
        return [_as_names(item, runs) for item in workload]
    hint = "; to run a training function, use paceline.launch" if callable(workload) else ""
    raise SpecError(
        f"workload is {_kind(workload)}: give a name, the path of a file, package.module:name or a paceline.Workload"
        f"{hint}"
    )


def _parameter_values(param: object) -> dict[str, list[Any]]:
    """The values of each parameter; one value is a list of one."""
    if not isinstance(param, Mapping):
        raise SpecError(f"param is {_kind(param)}: give the values by name, e.g. param={{'lr': [0.1, 0.2]}}")
    found = {}
    for name, value in param.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise SpecError(f"param has the name {name!r}: must be the name of an argument, e.g. lr")
        values = list(value) if isinstance(value, list | tuple | range) else [value]
        if not values:
            raise SpecError(f"param {name}: the list of values is empty: give at least one value")
        found[name] = values
    return found


def _literal(name: str, value: object) -> str:
    """A value of a function's parameter as text that a rank reads back."""
    if not isinstance(value, _SIMPLE_TYPES) or (isinstance(value, float) and value - value != 0):
        raise SpecError(
            f"param {name} has {_kind(value)} as value: must be text, a finite number, True, False or None; give other "
            "objects as positional arguments"
        )
    return repr(value)


def _kind(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
