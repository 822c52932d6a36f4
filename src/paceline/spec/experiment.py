"""`Experiment`: the options of a sweep of runs."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from paceline.spec.option import Option, options_of
from paceline.spec.run_options import RunSpec
from paceline.spec.values import check_directory, check_name


class Experiment(msgspec.Struct, frozen=True, kw_only=True):
    """A run, the options that take several values, and the number of repeats."""

    run: RunSpec
    """The first run: every option with a list has the first value of it."""
    given: frozenset[str] = frozenset()
    """The options that the user gave; the others have their default."""
    axes: Mapping[str, tuple[Any, ...]] = {}
    """The options with several values; the runs are the product of these lists."""
    repeat: Annotated[
        int, Option(cli="flag", launch=True, axis=False, minimum=1, help="Number of times to repeat each run.")
    ] = 1
    name: Annotated[
        str | None,
        Option(
            cli="flag",
            launch=True,
            axis=False,
            unset="the workload's",
            check=check_name,
            help="Name of the sweep: a-z, 0-9 and '-'. With the name of an earlier sweep, only missing runs are made.",
        ),
    ] = None
    runs: Annotated[
        str, Option(cli="flag", launch=True, axis=False, check=check_directory, help="Directory that holds the runs.")
    ] = "runs"

    def value(self, option: str) -> object:
        """The value of an option; a tuple of all values for an option that may be a list."""
        if option in AXES:
            return self.axes.get(option, (getattr(self.run, option),))
        return getattr(self.run if option in RUN_OPTIONS else self, option)


RUN_OPTIONS = options_of(RunSpec)
OPTIONS = {**RUN_OPTIONS, **options_of(Experiment)}
"""Every option by name, in the order of its declaration."""
IDENTIFYING = tuple(name for name in RunSpec.__struct_fields__ if name not in OPTIONS or OPTIONS[name].identifies)
"""The fields of RunSpec that make two runs different; the number of the repeat is one of them."""
AXES = tuple(name for name, option in OPTIONS.items() if option.axis)
"""The options that may be lists."""
DEFAULTS = {name: OPTIONS[name].default for name in AXES if name != "workload"}
"""The default of each option that may be a list; the workload has none."""
