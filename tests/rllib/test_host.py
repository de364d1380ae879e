"""What we know about Ray RLlib and lean on: after an upgrade of Ray, this file fails first.

Each test states one fact about the installed RLlib, by asking it rather than by training with it.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import ray
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.cql import CQL, CQLConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.registry import ALGORITHMS
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.connectors import connector_v2
from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from interreplay.rllib.host import minor_version

DOTTED = "ray.rllib.utils.replay_buffers.prioritized_episode_buffer.PrioritizedEpisodeReplayBuffer"


class Foreign(PrioritizedEpisodeReplayBuffer):
    """A buffer unknown to RLlib."""


def with_buffer(config, kind):
    return config.training(replay_buffer_config={"type": kind, "capacity": 100})


def built_buffer(kind):
    """What RLlib's Algorithm makes of a `replay_buffer_config`, without building the Algorithm."""
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


def test_dqn_validates_a_class_but_cannot_build_it():
    with_buffer(DQNConfig().environment("CartPole-v1"), Foreign).validate()
    with pytest.raises(TypeError, match="not iterable|not a container"):
        built_buffer(Foreign)


def test_a_smoothing_key_is_added_where_the_type_string_names_an_episode_buffer():
    assert "metrics_num_episodes_for_smoothing" in built_buffer(DOTTED)[1]
    assert "metrics_num_episodes_for_smoothing" not in built_buffer("collections.OrderedDict")[1]


def test_another_type_replaces_the_buffer_configuration_and_the_same_type_updates_it():
    config = SACConfig().training(replay_buffer_config={"type": "X", "k": 1})
    assert config.replay_buffer_config == {"type": "X", "k": 1}
    assert config.training(replay_buffer_config={"j": 2}).replay_buffer_config == {"type": "X", "k": 1, "j": 2}


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


@pytest.mark.parametrize("name", ["DDPG", "TD3", "A2C", "A3C", "QRDQN", "HER", "APEX", "ApexDQN", "TQC"])
def test_these_algorithms_are_not_registered(name):
    assert name not in ALGORITHMS


def test_tqc_is_importable_and_a_sac():
    assert issubclass(TQCConfig, SACConfig)


def test_the_rllib_command_is_gone():
    scripts = importlib.metadata.distribution("ray").entry_points.select(group="console_scripts")
    assert "ray" in scripts.names and "rllib" not in scripts.names


@pytest.mark.parametrize("kept", [True, False], ids=["as the tests have it", "as RLlib has it"])
def test_connectors_take_their_arguments_from_the_frame_that_made_them(kept, monkeypatch):
    """And nothing else of what ``inspect.stack`` finds: tests/conftest.py leaves the rest out."""
    if not kept:
        monkeypatch.setattr(connector_v2, "inspect", inspect)
    made = NormalizeAndClipActions(normalize_actions=False, clip_actions=True)
    assert made.get_ctor_args_and_kwargs()[1] | made._ctor_kwargs == made._ctor_kwargs
    assert (made._ctor_kwargs["normalize_actions"], made._ctor_kwargs["clip_actions"]) == (False, True)
    assert isinstance(connector_v2.inspect, SimpleNamespace) == kept


def test_local_mode_raises_since_ray_2_55():
    if minor_version() < (2, 55):
        assert "`local_mode` is an experimental feature" in inspect.getsource(ray.init)
    else:
        with pytest.raises(RuntimeError, match="local_mode"):
            ray.init(local_mode=True)


# --- observations and networks ---------------------------------------------------------------------------------


ACTIONS = {SACConfig: gym.spaces.Box(-1, 1, (2,)), DQNConfig: gym.spaces.Discrete(2)}


def build_module(kind, observation_space):
    config = kind()
    spec = config.get_default_rl_module_spec()
    spec.observation_space, spec.action_space = observation_space, ACTIONS[kind]
    spec.model_config = dict(config.model_config)
    module = spec.build()
    module.make_target_networks()
    return module


VECTOR = gym.spaces.Box(-1, 1, (3,), np.float32)


@pytest.mark.parametrize("config", [SACConfig, DQNConfig])
@pytest.mark.parametrize(
    "space",
    [gym.spaces.Dict(a=VECTOR), gym.spaces.Tuple([VECTOR]), gym.spaces.Box(-1, 1, (4, 3)), gym.spaces.Discrete(5)],
    ids=["dict", "tuple", "matrix", "discrete"],
)
def test_sac_and_dqn_refuse_observations_that_are_no_vectors_or_images(config, space):
    build_module(config, VECTOR)
    with pytest.raises(ValueError, match="No default encoder config"):
        build_module(config, space)


@pytest.mark.parametrize("config", [SACConfig, DQNConfig])
def test_uint8_images_build_and_then_fail(config):
    space = gym.spaces.Box(0, 255, (64, 64, 3), np.uint8)
    if config is SACConfig and minor_version() < (2, 55):
        with pytest.raises(ValueError, match="observation space is not supported"):
            build_module(config, space)
        return
    module, obs = build_module(config, space), torch.as_tensor(space.sample()[None])
    with pytest.raises(RuntimeError, match="unsigned char|same dtype"):
        module.forward_inference({"obs": obs})
    module.forward_inference({"obs": obs.float()})


def test_noisy_reaches_no_network_of_the_new_stack():
    assert "noisy" not in DQNConfig().training(noisy=True)._model_config_auto_includes
    assert "noisy" not in inspect.getsource(DQN._training_step_new_api_stack)


def test_the_value_stream_of_a_dueling_distribution_does_nothing():
    """It is added to all logits of all actions alike, and advantages are centered over atoms, not over actions."""
    settings = {"num_atoms": 11, "v_min": -5.0, "v_max": 5.0, "dueling": True, "double_q": True}
    space, actions = gym.spaces.Box(-1, 1, (3,), np.float32), gym.spaces.Discrete(2)
    module = DQNConfig().training(**settings).get_rl_module_spec(spaces={"default_policy": (space, actions)}).build()
    obs = {"obs": torch.randn(4, 3)}
    before = module.compute_q_values(obs)["qf_preds"].detach().clone()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if name.startswith("vf."):
                parameter.add_(torch.randn(parameter.shape))
    after = module.compute_q_values(obs)["qf_preds"].detach()
    assert any(name.startswith("vf.") for name, _ in module.named_parameters())
    torch.testing.assert_close(after, before)


# --- stock CQL --------------------------------------------------------------------------------------------------


def test_cql_trains_from_files_and_leaves_the_algorithms_buffer_alone():
    assert "self.offline_data.sample" in inspect.getsource(CQL.training_step)
    assert "local_replay_buffer" not in inspect.getsource(CQL.training_step)
    for setting in ("prelearner_buffer_class", "prelearner_buffer_kwargs"):
        assert hasattr(CQLConfig(), setting)
