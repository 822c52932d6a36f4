"""Options that only some strategies have: which a run may be given, and their values."""

from collections.abc import Mapping

from paceline.errors import PlanError
from paceline.spec.run_options import RunSpec
from paceline.strategies.descriptor import Strategy

OptionValues = dict[str, int | float | str]


def check_strategy_options(spec: RunSpec, strategies: Mapping[str, Strategy]) -> None:
    """Refuse an option that the strategy of the run does not have."""
    own = strategies[spec.strategy].options
    for option in sorted({option for strategy in strategies.values() for option in strategy.options}):
        if getattr(spec, option) is not None and option not in own:
            able = " or ".join(name for name, strategy in strategies.items() if option in strategy.options)
            raise PlanError(f"strategy {spec.strategy} has no option {option}: remove it, or use --strategy {able}")


def strategy_options(spec: RunSpec, strategy: Strategy) -> OptionValues:
    """The values of the options that only some strategies have: those of the run, or the strategy's defaults."""
    given = {name: getattr(spec, name) for name in strategy.options}
    chosen = {name: default if given[name] is None else given[name] for name, default in strategy.options.items()}
    return {name: value for name, value in chosen.items() if value is not None}


def workers_wait(spec: RunSpec, strategy: Strategy) -> bool:
    """Whether workers of the run wait for each other, so that one that is stuck stops them all."""
    return strategy.waits != "never" and strategy_options(spec, strategy).get("staleness_bound") != "inf"
