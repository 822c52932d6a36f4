"""Scrapes as Prometheus does, and reads what it gets with Prometheus' own parser."""

from typing import Any
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self.samples = [sample for family in self.families.values() for sample in family.samples]

    def __contains__(self, name: str) -> bool:
        return any(sample.name == name for sample in self.samples)

    def value(self, name: str, **labels: str) -> float:
        """Of the one sample that has these labels."""
        (found,) = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        return float(found)

    def by(self, label: str, name: str, **labels: str) -> dict[str, Any]:
        found = [s for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert len({s.labels[label] for s in found}) == len(found), f"{name} has more than one series for a {label}"
        return {s.labels[label]: s.value for s in found}

    def counters(self) -> Series:
        """Everything that may only rise."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            if family.type in ("counter", "histogram")
            for sample in family.samples
        }


def scrape(url: str) -> Scrape:
    with urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        return Scrape(answer.read().decode())
