"""Facts about Ray RLlib that we rely on: after an upgrade of Ray, this file fails first.

Each test checks one fact about the installed RLlib without training.
"""

import contextlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.connectors import connector_v2
from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
from ray.rllib.env import env_runner_group
from ray.rllib.utils.metrics import TD_ERROR_KEY
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer
from ray.rllib.utils.replay_buffers.utils import update_priorities_in_episode_replay_buffer

from interreplay.rllib import host
from interreplay.rllib.host import quick_start

ROOT = Path(__file__).resolve().parents[2]
DOTTED = "ray.rllib.utils.replay_buffers.prioritized_episode_buffer.PrioritizedEpisodeReplayBuffer"


class Foreign(PrioritizedEpisodeReplayBuffer):
    """A buffer unknown to RLlib."""


def with_buffer(config, kind):
    return config.training(replay_buffer_config={"type": kind, "capacity": 100})


def built_buffer(kind):
    """Return the buffer that RLlib's Algorithm creates from a `replay_buffer_config`, without building it."""
    shell = SimpleNamespace(config=SimpleNamespace(metrics_num_episodes_for_smoothing=7))
    config = {"replay_buffer_config": {"type": kind, "capacity": 100}}
    return Algorithm._create_local_replay_buffer_if_necessary(shell, config), config["replay_buffer_config"]


# --- which buffers a stock configuration accepts ---------------------------------------------------------------


@pytest.mark.parametrize("config", [SACConfig, TQCConfig])
@pytest.mark.parametrize("kind", [DOTTED, Foreign, PrioritizedEpisodeReplayBuffer, "Foreign"])
def test_sac_accepts_four_literal_names_only(config, kind):
    with pytest.raises(ValueError, match="EpisodeReplayBuffer"):
        with_buffer(config().environment("Pendulum-v1"), kind).validate()


@pytest.mark.parametrize("name", ["EpisodeReplayBuffer", "PrioritizedEpisodeReplayBuffer"])
def test_sac_accepts_the_literal_names(name):
    with_buffer(SACConfig().environment("Pendulum-v1"), name).validate()


def test_dqn_accepts_a_dotted_string():
    with_buffer(DQNConfig().environment("CartPole-v1"), DOTTED).validate()
    assert type(built_buffer(DOTTED)[0]) is PrioritizedEpisodeReplayBuffer


@pytest.mark.parametrize("config", [SACConfig, DQNConfig])
def test_a_dict_configuration_as_tune_makes_it_turns_a_dotted_type_into_the_class(config):
    given = with_buffer(config().environment("Pendulum-v1"), DOTTED).to_dict()
    assert given["replay_buffer_config"]["type"] == DOTTED
    assert config().update_from_dict(given).replay_buffer_config["type"] is PrioritizedEpisodeReplayBuffer


def test_beta_and_n_step_are_handed_over_at_every_sample():
    source = inspect.getsource(DQN._training_step_new_api_stack)
    settings = ("num_items=self.config.total_train_batch_size", "n_step=self.config.n_step", "gamma=self.config.gamma")
    for argument in (*settings, 'beta=self.config.replay_buffer_config.get("beta")', "sample_episodes=True"):
        assert argument in source


# --- checkpoints, registry, launching --------------------------------------------------------------------------


def test_no_method_of_the_new_stack_reads_store_buffer_in_checkpoints():
    readers = {
        name for name, method in inspect.getmembers(Algorithm, inspect.isfunction)
        if "store_buffer_in_checkpoints" in inspect.getsource(method)
    }  # fmt: skip
    assert readers == {"__getstate__", "__setstate__"}
    for method in (Algorithm.__getstate__, Algorithm.__setstate__):
        assert "not supported anymore on the new API stack" in inspect.getsource(method)
    assert "replay_buffer" not in inspect.getsource(Algorithm.get_checkpointable_components)


@pytest.mark.parametrize("quick", [True, False])
def test_connectors_take_their_arguments_from_the_frame_that_made_them(quick, monkeypatch):
    """They use no other result of ``inspect.stack``, which `quick_start` therefore omits."""
    monkeypatch.setattr(connector_v2, "inspect", inspect)
    with quick_start() if quick else contextlib.nullcontext():
        made = NormalizeAndClipActions(normalize_actions=False, clip_actions=True)
        assert isinstance(connector_v2.inspect, SimpleNamespace) == quick
    assert made.get_ctor_args_and_kwargs()[1] | made._ctor_kwargs == made._ctor_kwargs
    assert (made._ctor_kwargs["normalize_actions"], made._ctor_kwargs["clip_actions"]) == (False, True)
    assert connector_v2.inspect is inspect


@pytest.mark.parametrize("kind, receives", [(EpisodeReplayBuffer, False), (Foreign, True)])
def test_td_errors_return_only_to_prioritized_episode_buffers(kind, receives):
    buffer, calls = kind(100), []
    buffer.update_priorities = lambda *arguments: calls.append(arguments)
    errors = {"default_policy": {TD_ERROR_KEY: np.ones(3)}}
    update_priorities_in_episode_replay_buffer(replay_buffer=buffer, td_errors=errors)
    assert bool(calls) is receives


# --- the quick start -------------------------------------------------------------------------------------------


def test_threads_that_start_algorithms_without_ray_restore_what_they_replaced(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(host, "needs_ray", lambda config: False)
    first, second = host.without_ray(None), host.without_ray(None)
    for context in (first, second):
        context.__enter__()
    first.__exit__(None, None, None)
    assert env_runner_group.ray.put("a configuration") is None, "the second one still hides Ray"
    second.__exit__(None, None, None)
    assert env_runner_group.ray is ray


TRAINING = """
import gc
import sys
import tempfile

collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
import interreplay.rllib
assert gc.isenabled() and len(collections) < 200

import ray
import torch
from ray.rllib.connectors import connector_v2
from interreplay.rllib import SACConfig

config = SACConfig().environment("Pendulum-v1").training(learning_starts=10, steps_per_iteration=20).debugging(seed=0)
config.evaluation(evaluation_interval=1, evaluation_duration=1)
algo = config.build_algo()
result = algo.train()
assert result["learners"]["default_policy"]["num_updates_lifetime"] > 0 and "evaluation" in result
with tempfile.TemporaryDirectory() as folder:
    algo.save_to_path(folder)
    algo.restore_from_path(folder)
algo.train()
algo.stop()
assert not ray.is_initialized()
assert torch.are_deterministic_algorithms_enabled() and not torch.utils.deterministic.fill_uninitialized_memory
assert torch.use_deterministic_algorithms.__module__ == "torch"
assert connector_v2.inspect.__name__ == "inspect"
print([name for name in ("torch._dynamo", "torch._inductor", "scipy.optimize") if name in sys.modules])
"""


@pytest.mark.slow
def test_training_starts_no_ray_imports_no_compiler_and_restores_what_it_replaced():
    done = subprocess.run([sys.executable, "-c", TRAINING], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
