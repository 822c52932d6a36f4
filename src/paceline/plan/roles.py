"""The roles of tasks, and the only place where the names of tasks and hosts are made.

Names are labels: code that wants to know a task's role, index or host asks its TaskPlace or its Job.
"""

SERVER = "ps"
"""A parameter server."""
WORKER = "w"


def task_name(role: str, index: int) -> str:
    return f"{role}{index}"


def task_names(role: str, count: int) -> list[str]:
    """Of all tasks of one role, in the order of their indices."""
    return [task_name(role, index) for index in range(count)]


def host_names(count: int) -> tuple[str, ...]:
    """Of all hosts of a layout, in its order."""
    return tuple(f"h{number}" for number in range(1, count + 1))


CHIEF = task_name(WORKER, 0)
"""The worker that also evaluates, writes checkpoints and decides when a run is over."""
