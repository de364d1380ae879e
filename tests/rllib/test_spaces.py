"""Every kind of observation, end to end."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from tests.rllib import spaces_envs
from tests.rllib.small_runs import config, same, weights

WITH_IMAGES = [("Image", "SAC"), ("Stacked", "SAC")]
WITH_IMAGES += [("ImageAndVector", trainer) for trainer in ("TQC", "CrossQ", "TD3")]
LIGHT = [kind for kind in spaces_envs.KINDS if "Image" not in kind]
BLENDED = ("FloatDict", "Discrete", "Tuple")
"""Kinds with numbers to blend, which the others lack or have with PER."""


def made(kind, trainer="SAC", buffer="Uniform", **arguments):
    settings = config(f"tests.rllib.spaces_envs:{kind}Line-v0", buffer, trainer=trainer, **arguments)
    settings.evaluation(evaluation_duration=2)
    return settings.training(
        steps_per_iteration=30, num_steps_sampled_before_learning_starts=20, train_batch_size_per_learner=16
    )


def check(settings, tmp_path):
    """Train, save, restore, evaluate."""
    algorithm = settings.build_algo()
    first = weights(algorithm)
    results = algorithm.train()
    assert np.isfinite(results["learners"]["default_policy"]["critic_loss"])
    moved = [k for k, v in weights(algorithm).items() if not torch.equal(v, first[k])]
    assert any("actor" in k for k in moved)
    algorithm.save_to_path(tmp_path / "c")
    trained = weights(algorithm)
    again = settings.copy().build_algo()
    again.restore_from_path(tmp_path / "c")
    assert same(weights(again), trained)
    played = again.evaluate()["env_runners"]
    assert played["episode_len_mean"] == 25 and np.isfinite(played["episode_return_mean"])
    assert np.isfinite(again.train()["learners"]["default_policy"]["critic_loss"])
    return moved


@pytest.mark.slow
@pytest.mark.parametrize("kind", LIGHT)
def test_sac_trains_with_every_kind_of_observation(kind, tmp_path):
    check(made(kind, buffer="NMER" if kind in BLENDED else "PER"), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "trainer"), WITH_IMAGES)
def test_images_train_their_encoder(kind, trainer, tmp_path):
    moved = check(made(kind, trainer), tmp_path)
    assert any(".encoder." in k for k in moved)
    assert any(".target_encoder." in k for k in moved) == (trainer != "CrossQ")


def test_images_stay_bytes():
    algorithm = made("ImageAndVector").build_algo()
    algorithm.train()
    assert algorithm.replay_buffer.storage.columns["obs.camera"] == ((24, 24), torch.uint8)


def test_stored_observations_encode_to_the_policy_inputs():
    algorithm = made("Nested").build_algo()
    algorithm.train()
    rows = algorithm.replay_buffer.storage[torch.arange(30)]
    module = algorithm.learner.single_module
    assert module.encode(rows.obs).shape == (30, gym.spaces.flatdim(spaces_envs.KINDS["Nested"][0]))
    assert set(rows.obs) == {"arm/grip", "arm/pose", "rest/0", "rest/1"}


OTHER_BOUNDS = {"observation_space": gym.spaces.Box(-10, 10, (3,)), "action_space": gym.spaces.Box(-1, 1, (1,))}


@pytest.mark.parametrize(
    ("spaces", "message"),
    [
        ({"observation_space": gym.spaces.Box(-1, 1, (7,))}, r"observation_space is Box.*\(7,\).*; expected None or"),
        ({"action_space": gym.spaces.Discrete(2)}, r"action_space is Discrete\(2\); expected None or"),
        (OTHER_BOUNDS, None),
    ],
)
def test_stated_spaces_have_the_form_of_the_environment(spaces, message):
    settings = config("Pendulum-v1").environment(**spaces)
    if message is None:
        settings.build_algo().stop()
        return
    with pytest.raises(ValueError, match=message):
        settings.build_algo()


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("MountainCarContinuous-v0", "'MountainCarContinuous-v0' has the observation_space .*; expected one like"),
        (f"{spaces_envs.__name__}:DictLine-v0", "'tests.rllib.spaces_envs:DictLine-v0' has the observation_space Dict"),
    ],
)
def test_evaluations_in_an_environment_of_other_spaces_are_rejected(env, message):
    settings = config("Pendulum-v1").evaluation(evaluation_interval=1, evaluation_config={"env": env})
    with pytest.raises(ValueError, match=f"evaluation_config: the environment {message}"):
        settings.build_algo()
