"""Scrapes metrics over HTTP and parses them with the parser of the Prometheus client."""

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
        """The value of the only sample with this name and these labels."""
        (value,) = [s.value for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        return float(value)

    def by(self, label: str, name: str, **labels: str) -> dict[str, Any]:
        """The values of the samples with this name and these labels, by the value of `label`."""
        samples = [s for s in self.samples if s.name == name and labels.items() <= s.labels.items()]
        assert len({s.labels[label] for s in samples}) == len(samples), f"{name} has more than one series for a {label}"
        return {s.labels[label]: s.value for s in samples}

    def counters(self) -> Series:
        """All values that must never decrease."""
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families.values()
            if family.type in ("counter", "histogram")
            for sample in family.samples
        }


def scrape(url: str) -> Scrape:
    with urlopen(url, timeout=10) as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        return Scrape(response.read().decode())
