"""`RunSpec`: every option of one run.

The options are declared in groups, each group a struct that extends the group before: base_options.py,
training_options.py, spark_options.py, exchange_options.py, and here those of a user's script. See option.py for what is
generated from the declarations.
"""

from collections.abc import Sequence
from typing import Annotated

from paceline import units
from paceline.spec.exchange_options import ExchangeOptions
from paceline.spec.option import Option
from paceline.spec.script import check_script, parameters
from paceline.spec.tags import read_tags


class RunSpec(ExchangeOptions, frozen=True, kw_only=True):
    """All options of one run.

    The key of a run is a hash of those fields that identify it (sweep.py), so a new option is declared `added=True` and
    goes to the end of its group.
    """

    script: Annotated[
        tuple[str, ...],
        Option(
            added=True,
            cli="launch",
            axis=False,
            check=check_script,
            accepts=Sequence[str],
            help="A training script of your own and its arguments, or -m, a module and its arguments. It takes the "
            "place of the workload.",
        ),
    ] = ()
    param: Annotated[
        str | None,
        Option(
            added=True,
            cli="launch",
            unset="none",
            check=parameters,
            help="Values for the {name} in the arguments of the script: `bs=32 workers=2`. On the command line, "
            "--param bs=32,64 makes a run for each value.",
        ),
    ] = None
    stall_limit: Annotated[
        str,
        Option(
            cli="launch",
            launch=True,
            axis=False,
            identifies=False,
            unit="time",
            check=units.time_limit,
            help="Time without a step, also before the first one, after which a script counts as stuck: 90s, 10m or "
            "2h.",
        ),
    ] = "10m"
    stack_hz: Annotated[
        float,
        Option(
            cli="launch",
            launch=True,
            axis=False,
            identifies=False,
            minimum=0,
            maximum=100,
            unit="Hz",
            help="How many times per second to sample the line that each rank of a script executes; 0: never.",
        ),
    ] = 20.0

    tag: Annotated[
        tuple[str, ...],
        Option(
            added=True,
            cli="flag",
            launch=True,
            axis=False,
            identifies=False,
            accepts=str | Sequence[str],
            parse=read_tags,
            help="Word by which to find the run again, with `paceline ls --tag` or on the page, e.g. baseline. May be "
            "given several times.",
        ),
    ] = ()

    @property
    def is_script(self) -> bool:
        """Whether it starts a user's script instead of training a workload."""
        return bool(self.script)
