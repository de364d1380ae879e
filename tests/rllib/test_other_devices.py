"""Whole runs on a device other than the CPU: equal weights, one wait per env step, and bit-exact resumes.

In cases with graphs, a replacement of `CapturedUpdate` copies the batches, which must be in main memory.
"""

from types import SimpleNamespace

import pytest
import torch
from ray.rllib.core.learner.torch import torch_learner

from interreplay.learning.networks.between_layers import Dropout
from interreplay.rllib import DQNConfig, IMPALAConfig
from interreplay.rllib.algorithms import learner
from tests.devices import stand_in
from tests.devices.conftest import device  # noqa: F401
from tests.devices.same_draws import Generators, SameDraws
from tests.rllib.small_runs import config, same

pytestmark = pytest.mark.slow

STEPS = 55
"""Env steps of an iteration; updates begin in the first one."""
RUNS = {
    "SAC": lambda: config().training(normalize_observations=True, steps_per_iteration=STEPS),
    "SAC with NMER": lambda: config(buffer="NMER").training(scale_rewards=True, steps_per_iteration=STEPS),
    "TD3 with PER": lambda: config(buffer="PER", trainer="TD3").training(episode_table=True, steps_per_iteration=STEPS),
    "DQN": lambda: (
        DQNConfig()
        .environment("CartPole-v1")
        .replay("Uniform", capacity=5_000)
        .training(hiddens=(32, 32), train_batch_size=32, learning_starts=50, steps_per_iteration=STEPS, dueling=True)
        .debugging(seed=0)
    ),
    "IMPALA": lambda: (
        IMPALAConfig()
        .environment("CartPole-v1")
        .env_runners(num_envs_per_env_runner=4, rollout_fragment_length=5)
        .training(hiddens=(16,), train_batch_size=4, steps_per_iteration=60)
        .debugging(seed=0)
    ),
}
CASES = [(name, name not in ("SAC", "TD3 with PER")) for name in RUNS]
ACTED = {"copy to the processor": 1}
"""Waits of an env step: the action. Priorities cause further waits."""
DIAGNOSED = 4
"""Maximum number of steps in an iteration in which diagnostics or checks of losses wait."""


@pytest.fixture
def where(monkeypatch):
    """Settable device of learners; RLlib would look for a GPU."""
    place = SimpleNamespace(device=torch.device("cpu"))
    monkeypatch.setattr(torch_learner, "get_device", lambda *_: place.device)
    monkeypatch.setattr(torch, "Generator", Generators)
    monkeypatch.setattr(Dropout, "draw", Dropout.draw_masks)  # the CPU drops the same units as the other device
    return place


class CopiedUpdate:
    """Replacement of `CapturedUpdate` that copies batches to the device and runs the update as usual."""

    def __init__(self, update, place):
        self.update_rule = update
        self.place = place

    def update(self, batch, rng):
        assert batch.weights.device == stand_in.HOST
        return self.update_rule.update(batch.to(self.place), rng)


def weights(algorithm):
    return {name: value.cpu().clone() for name, value in algorithm.learner.single_module.state_dict().items()}


def waits_by_step(algorithm):
    """Train one iteration; return the waits between consecutive env steps."""
    counts = []
    algorithm.on_progress = lambda _: counts.append(stand_in.waits.copy())
    algorithm.train()
    return [after - before for before, after in zip(counts, counts[1:], strict=False)]


@pytest.mark.parametrize(("name", "graphs"), CASES)
def test_a_run_equals_the_run_on_the_cpu(name, graphs, device, where, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(learner, "has_graphs", lambda found: found.type == device.type)
    monkeypatch.setattr(learner, "CapturedUpdate", CopiedUpdate)

    def build():
        return RUNS[name]().training(cuda_graph=graphs).build_algo()

    with SameDraws():
        torch.__future__.set_swap_module_params_on_conversion(False)  # the CPU run moves nothing
        here = build()
        here.train()
        here.train()
        expected = weights(here)
        torch.__future__.set_swap_module_params_on_conversion(device.type == stand_in.NAME)
        where.device = device
        there = build()
        assert there.learner._device == device
        assert (there.learner.batch_device.type == "cpu") == graphs
        there.train()
        waits = waits_by_step(there)
        torch.testing.assert_close(weights(there), expected, rtol=1e-4, atol=1e-5)
        if device.type == stand_in.NAME and name not in ("TD3 with PER", "IMPALA"):
            assert sum(step == ACTED for step in waits) >= STEPS - 1 - DIAGNOSED, waits
        there.save_to_path(str(tmp_path))
        resumed = build()
        resumed.restore_from_path(str(tmp_path))
        there.train()
        resumed.train()
        assert same(weights(there), weights(resumed))


@pytest.mark.parametrize("name", RUNS)
def test_graphs_do_not_change_a_run(name, device, monkeypatch, tmp_path):  # noqa: F811
    if device.type != "cuda":
        pytest.skip("CUDA graphs need a GPU: --device cuda")
    monkeypatch.setattr(torch_learner, "get_device", lambda *_: device)
    found = []
    for graphs in (False, True):
        algorithm = RUNS[name]().training(cuda_graph=graphs).build_algo()
        algorithm.train()
        algorithm.save_to_path(str(tmp_path / str(graphs)))
        algorithm.train()
        resumed = RUNS[name]().training(cuda_graph=graphs).build_algo()
        resumed.restore_from_path(str(tmp_path / str(graphs)))
        resumed.train()
        found += [weights(algorithm), weights(resumed)]
    assert all(same(found[0], other) for other in found[1:])
