"""A Ray cluster on test machines has one node on each, and leaves nothing behind."""

import json
import subprocess
import sys

import pytest

from support.ray_cluster import RayCluster

pytestmark = pytest.mark.slow

ACTORS = """
import json, socket, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

ray.init(log_to_driver=False)

@ray.remote(num_cpus=1)
class Reporter:
    def name(self):
        return socket.gethostname()

nodes = sorted((node["NodeManagerAddress"], node["NodeID"]) for node in ray.nodes() if node["Alive"])
strategies = [NodeAffinitySchedulingStrategy(node_id, soft=False) for _, node_id in nodes]
reporters = [Reporter.options(scheduling_strategy=strategy).remote() for strategy in strategies]
print(json.dumps([[address for address, _ in nodes], ray.get([reporter.name.remote() for reporter in reporters])]))
"""


def test_actor_on_each_of_three_nodes_reports_its_host_name(ray_cluster: RayCluster) -> None:
    """From a driver on the head, and from the test process by Ray Client."""
    on_head = ray_cluster.run([sys.executable, "-c", ACTORS], check=False)
    by_client = subprocess.run(
        [sys.executable, "-c", ACTORS], env=ray_cluster.environment(), capture_output=True, text=True
    )
    addresses = [machine.address for machine in ray_cluster.cluster]
    for told in (on_head, by_client):
        assert told.stdout, told.stderr
        assert json.loads(told.stdout.splitlines()[-1]) == [addresses, ["node1", "node2", "node3"]]
    for machine in ray_cluster.cluster:
        machine.wait_until_idle()
        assert machine.files() == []
