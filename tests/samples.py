"""Takes a single sample from a sampler."""

from paceline.agent.sampler import Sampler
from paceline.messages import HostSample


def take_sample(sampler: Sampler) -> HostSample:
    """A sample of this moment."""
    sampler.read_counters()
    return sampler.take_samples()[-1]
