"""A sampler asked for a single sample."""

from paceline.agent.protocol import HostSample
from paceline.agent.sampler import Sampler


def sample_of(sampler: Sampler) -> HostSample:
    """As of now."""
    sampler.look()
    return sampler.samples()[-1]
