"""The signal actor is on the driver's node."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# Ray places about half of the actors without CPUs on the other node.
SCRIPT = """
import ray
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
cluster.add_node(num_cpus=1)
ray.init(address=cluster.address, log_to_driver=False)
from interreplay.experiments.tune.signal_actor import start_signal_actor
actors = [start_signal_actor() for _ in range(4)]
assert [ray.get(actor.wait.remote(None)) for actor in actors] == [(0, False)] * 4
known = ray._private.state.actors()
nodes = {known[actor._actor_id.hex()]["Address"]["NodeID"] for actor in actors}
here = ray.get_runtime_context().get_node_id()
ray.shutdown()
cluster.shutdown()
print("here" if nodes == {here} else nodes)
"""


@pytest.mark.slow
def test_the_signal_actor_runs_on_the_driver_s_node():
    root = Path(__file__).resolve().parents[3]
    with tempfile.TemporaryDirectory() as folder:  # where Ray records the address for other processes
        own = os.environ | {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", SCRIPT]
        done = subprocess.run(command, cwd=root, env=own, capture_output=True, text=True, timeout=500)
    assert done.stdout.split()[-1:] == ["here"], done.stdout + done.stderr
