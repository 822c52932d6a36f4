"""A sampler asked for a single sample."""

from paceline.agent.sampler import Sampler
from paceline.messages import HostSample


def sample_of(sampler: Sampler) -> HostSample:
    """As of now."""
    sampler.look()
    return sampler.samples()[-1]
