"""Series of a run in progress in equal time intervals. If there are too many intervals, each becomes twice as long."""

from collections.abc import Callable
from typing import Generic, TypeVar

MOST_INTERVALS = 900
Value = TypeVar("Value")


class Intervals:
    """The length of the intervals that all series of a run share, and the number of the last one."""

    def __init__(self) -> None:
        self.width_s = 1.0
        self.last = 0
        self._series: list[Series[object]] = []

    def number(self, t_s: float) -> int:
        """The interval of a time. Intervals become longer if there would be too many."""
        while t_s / self.width_s >= MOST_INTERVALS:
            self.width_s *= 2
            self.last //= 2
            for series in self._series:
                series.halve()
        number = max(0, int(t_s / self.width_s))
        self.last = max(self.last, number)
        return number

    def register(self, series: "Series[object]") -> None:
        self._series.append(series)


class Series(Generic[Value]):
    """One value per interval; `join` combines the values of two neighbouring intervals, the earlier one first."""

    def __init__(self, intervals: Intervals, join: Callable[[Value, Value], Value]) -> None:
        self._intervals, self._join = intervals, join
        self.values: dict[int, Value] = {}
        intervals.register(self)  # type: ignore[arg-type]

    def add(self, t_s: float, value: Value) -> None:
        number = self._intervals.number(t_s)
        self.values[number] = self._join(self.values[number], value) if number in self.values else value

    def halve(self) -> None:
        """Combine each interval with the next one."""
        values, self.values = self.values, {}
        for number in sorted(values):
            half = number // 2
            self.values[half] = self._join(self.values[half], values[number]) if half in self.values else values[number]
