"""A supervisor brought to where tests begin."""

from paceline.control import events as events
from paceline.control.supervisor import Supervisor
from paceline.plan.layout import parse
from paceline.train.context import Outcome

_LAYOUT = parse("pw w")
PLACES, HOSTS = _LAYOUT.places(), _LAYOUT.hosts
TASKS = {place.task: place.host for place in PLACES}
FAIL = events.RestartPolicy()


def started(policy: events.RestartPolicy = FAIL) -> Supervisor:
    supervisor = Supervisor(HOSTS, PLACES, 0.0, policy=policy)
    for host in HOSTS:
        supervisor.handle(events.AgentJoined(host), 1.0)
    return supervisor


def training(policy: events.RestartPolicy = FAIL) -> Supervisor:
    supervisor = started(policy)
    for task in TASKS:
        supervisor.handle(events.TaskBound(task, {"at": task}), 2.0)
    for task in TASKS:
        supervisor.handle(events.TaskReady(task), 3.0)
    return supervisor


def done(task: str, **fields: int | bool) -> events.TaskFinished:
    return events.TaskFinished(task, Outcome(**{"steps": 5, **fields}))  # type: ignore[arg-type]


def end_of(instructions: list[events.Instruction]) -> events.End | None:
    return next((one for one in instructions if isinstance(one, events.End)), None)
