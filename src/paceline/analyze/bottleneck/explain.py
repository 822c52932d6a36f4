"""What each cause of a bottleneck means, and the rules by which the bottleneck is chosen, for readers."""

from paceline.analyze.bottleneck.judge import MANY_STEPS, MIN_MARGIN, MIN_SHARE, NOT_CLEAR, SOME_STEPS
from paceline.analyze.bottleneck.suspect import UNKNOWN
from paceline.analyze.bottleneck.time_account import MAX_COMPUTE_OVER_ARITHMETIC
from paceline.present.numbers import percent

MEANINGS = {
    "compute": "workers calculate, on all cores that they may use",
    "network": "a host's link is full in one direction, or in one and then in the other",
    "server": "a parameter server is always busy",
    "driver": "the driver works while no executor does",
    "scheduler": "the framework's scheduler starts tasks and notices their end",
    "gc": "the framework's runtime collects garbage",
    "straggler": "one worker is slower than the others, and they wait for it",
    "barrier": "workers wait for each other, and no single one is the reason",
    "input": "loading the examples takes long",
    "overhead": "work of the framework around the arithmetic, or messages although no link or server is full",
    "contention": "tasks wait for a CPU core that others use",
    "imbalance": "one worker makes most updates, or one server has most of the work",
    "startup": "the run ended soon after it had started",
    "evaluation": "the chief evaluates the model",
    "checkpoint": "the chief writes checkpoints",
    UNKNOWN: "calls that do several things at once, of which no step was traced",
}
"""By the cause in the JSON."""


def decision_rules(cause: str) -> list[str]:
    """The rules that decided that this cause is the bottleneck, or that none is."""
    rules = [
        "Every second of the workers' time counts for exactly one cause, so the shares add up to 100 %.",
        f"The cause with the largest share is the bottleneck if it has at least {percent(MIN_SHARE)} of the time and "
        f"{MIN_MARGIN * 100:.0f} percentage points more than the second; otherwise the bottleneck is {NOT_CLEAR}.",
        f"High confidence needs {MANY_STEPS} steps of each worker, 90 % of their time recorded, a lead of 15 points "
        f"and half of the time; medium confidence needs {SOME_STEPS} steps, 70 % and 5 points.",
    ]
    return rules + ([_RULES[cause]] if cause in _RULES else [])


_RULES = {
    "network": "A link that is full half of the time explains at most half of the time spent on exchange. Its capacity "
    "is the value of --link, or the measured rate; it is never assumed.",
    "server": "A server that is busy half of the time explains at most half of the time spent on exchange.",
    "contention": "Waiting for a core counts only while at least 85 % of the cores are in use over the training.",
    "compute": f"Computing counts as compute up to {MAX_COMPUTE_OVER_ARITHMETIC} times the time of plain matrix "
    "products at the speed that the worker measured when it started; what is slower is framework overhead.",
    "overhead": f"Computing beyond {MAX_COMPUTE_OVER_ARITHMETIC} times the time of plain matrix products, time between "
    "phases, and exchange that neither a link nor a server nor waiting for a core explains.",
    "straggler": "A step of the straggler takes at least 1.25 times the median of the others, and it is the last "
    "worker in half of the steps.",
    "imbalance": "A worker with 1.5 times its even share of updates, or a server with 1.5 times its even share of "
    "the work.",
    "startup": "Startup is the bottleneck if a worker made fewer than 50 steps and startup took more than twice as "
    "long as training.",
}
