"""The private Ray of a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LISTENING = """
import psutil, ray
from interreplay.rllib import ray_session
ray_session.start_ray(1)
assert ray.get(ray.remote(lambda: 7).remote()) == 7
me = psutil.Process()
sockets = [c for p in [me, *me.children(recursive=True)] for c in p.net_connections("inet")]
found = [c.laddr.ip for c in sockets if c.status == "LISTEN"]
print(len(found), *sorted(set(found)))
"""


@pytest.mark.slow
def test_the_private_ray_listens_only_on_this_machine():
    command = [sys.executable, "-c", LISTENING]
    root = Path(__file__).resolve().parents[3]
    count, *addresses = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=True, timeout=300
    ).stdout.split()
    assert int(count) > 2 and {address.removeprefix("::ffff:") for address in addresses} == {"127.0.0.1"}
