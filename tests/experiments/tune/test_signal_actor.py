"""The signal actor is on the driver's node."""

from types import SimpleNamespace

import ray

from interreplay.experiments.tune.signal_actor import start_signal_actor


def test_the_signal_actor_runs_on_the_driver_s_node(monkeypatch):
    """Otherwise Ray places about half of the actors without CPUs on another node, whose loss would end them."""
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "ab" * 28))
    monkeypatch.setattr(ray, "remote", lambda **options: lambda kind: SimpleNamespace(remote=lambda: options))
    options = start_signal_actor()
    assert options["num_cpus"] == 0
    strategy = options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == ("ab" * 28, False)
