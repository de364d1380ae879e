"""Every kind of observation and of actions, end to end: discrete actions, and Dict and Tuple actions as one vector."""

import itertools
import re

import gymnasium as gym
import numpy as np
import pytest
import torch

import interreplay
import interreplay.rllib as ours
from interreplay.acting.export import export
from interreplay.environments.actions import BoxActions, make_actions
from interreplay.environments.spaces import flat_actions, leaves, name_parts
from interreplay.errors import UsageError
from interreplay.experiments.evaluation.play import watch
from interreplay.learning.algorithms_table import ALGORITHMS, check_actions
from tests.rllib import spaces_envs
from tests.rllib.small_runs import config, restored, rows_of, same, trained, weights
from tests.rllib.spaces_envs import ACTIONS, REJECTED, Steps

WITH_IMAGES = [("Image", "SAC"), ("Stacked", "SAC")]
WITH_IMAGES += [("ImageAndVector", trainer) for trainer in ("TQC", "CrossQ", "TD3")]
LIGHT = [kind for kind in spaces_envs.KINDS if "Image" not in kind]
BLENDED = ("FloatDict", "Discrete", "Tuple")
"""Kinds with numbers to blend, which the others lack or have with PER."""


def made(kind, trainer="SAC", buffer="Uniform", **arguments):
    settings = config(f"tests.rllib.spaces_envs:{kind}Line-v0", buffer, trainer=trainer, **arguments)
    settings.training(steps_per_iteration=30, learning_starts=20, train_batch_size_per_learner=16)
    return settings.evaluation(evaluation_duration=2)


def check(settings, tmp_path):
    """Train, save, restore, evaluate."""
    algorithm = settings.build_algo()
    first = weights(algorithm)
    results = algorithm.train()
    assert np.isfinite(results["learners"]["default_policy"]["critic_loss"])
    moved = [k for k, v in weights(algorithm).items() if not torch.equal(v, first[k])]
    assert any("actor" in k for k in moved)
    again = restored(settings.copy(), algorithm.save_to_path(tmp_path / "c"))
    assert same(weights(again), weights(algorithm))
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


def test_stored_observations_encode_to_the_policy_inputs():
    algorithm = trained(made("Nested"))
    rows = rows_of(algorithm)
    module = algorithm.learner.single_module
    assert module.encode(rows.obs).shape == (30, gym.spaces.flatdim(spaces_envs.KINDS["Nested"][0]))
    assert set(rows.obs) == {"arm/grip", "arm/pose", "rest/0", "rest/1"}


def test_stated_spaces_have_the_form_of_the_environment():
    other_bounds = {"observation_space": gym.spaces.Box(-10, 10, (3,)), "action_space": gym.spaces.Box(-1, 1, (1,))}
    config("Pendulum-v1").environment(**other_bounds).build_algo()
    for name, space in (("observation_space", gym.spaces.Box(-1, 1, (7,))), ("action_space", gym.spaces.Discrete(2))):
        with pytest.raises(ValueError, match=rf"{name} is {re.escape(str(space))}; expected None or"):
            config("Pendulum-v1").environment(**{name: space}).build_algo()


@pytest.mark.parametrize("env", ["MountainCarContinuous-v0", f"{spaces_envs.__name__}:DictLine-v0"])
def test_evaluations_in_an_environment_of_other_spaces_are_rejected(env):
    settings = config("Pendulum-v1").evaluation(evaluation_interval=1, evaluation_config={"env": env})
    with pytest.raises(ValueError, match=f"the environment '{env}' has the observation_space .*; expected one like"):
        settings.build_algo()


@pytest.mark.slow
def test_sac_learns_discrete_actions():
    """The best action depends on the point's position; a policy that ignores it has a return of about -25."""
    algorithm = trained(config(Steps).training(updates_per_step=0.4, steps_per_iteration=1200, initial_alpha=0.1))
    returns = [e.get_return() for e in algorithm.env_runner.sample(num_episodes=10, explore=False)]
    assert np.mean(returns) > -6


def test_the_target_entropy_follows_the_number_of_actions():
    discrete = config("CartPole-v1").build_algo()
    assert discrete.learner.update_rule.target_entropy == pytest.approx(0.98 * np.log(2))
    continuous = config("Pendulum-v1").build_algo()
    assert continuous.learner.update_rule.target_entropy == -1.0


ENV = "tests.rllib.spaces_envs:{}Actions-v0"


def with_actions(name, trainer="SAC", buffer="Uniform", **arguments):
    return config(ENV.format(name), buffer, trainer=trainer, **arguments)


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("name", ACTIONS)
def test_each_part_has_its_own_bounds(name, normalized):
    space = ACTIONS[name]
    actions = make_actions(space, normalized)
    size = gym.spaces.flatdim(space)
    kept = np.random.default_rng(0).uniform(-1, 1, (5, size))
    given = actions.to_env(kept)
    assert all(map(space.contains, gym.vector.utils.iterate(space, given)))
    begin = 0
    for name, part in sorted(leaves(space).items()):
        column = kept[:, begin : begin + gym.spaces.flatdim(part)].reshape(5, *part.shape)
        scaled = part.low + (column + 1) / 2 * (part.high - part.low)
        expected = scaled if normalized else np.clip(column, part.low, part.high)
        np.testing.assert_allclose(name_parts(given)[name], expected, atol=1e-6)
        begin += gym.spaces.flatdim(part)
    assert begin == size
    assert np.allclose(actions.flat(given), BoxActions(flat_actions(space), normalized).to_env(kept))
    assert actions.random(np.random.default_rng(0), 3).shape == (3, size)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACTIONS)
def test_a_run_is_saved_resumed_played_and_exported(name, tmp_path):
    made = with_actions(name, buffer="NMER", k=3).env_runners(num_envs_per_env_runner=2)
    straight = trained(made)
    assert straight.replay_buffer.storage.columns["actions"][0] == (gym.spaces.flatdim(ACTIONS[name]),)
    folder = straight.save_to_path(tmp_path / "c")
    resumed = restored(made.copy(copy_frozen=False), folder)
    assert same(weights(straight), weights(resumed))
    resumed.train()
    policy = interreplay.load_policy(folder)
    observation = straight.single_spaces[0].sample()
    action = policy.act(observation)
    assert ACTIONS[name].contains(action) and ACTIONS[name].contains(policy.act(observation, explore=True))
    several = {part: np.stack([value] * 3) for part, value in observation.items()}
    for algorithm in (policy, straight):
        for one in gym.vector.utils.iterate(ACTIONS[name], algorithm.act(several)):
            flat = gym.spaces.flatten(ACTIONS[name], one)
            np.testing.assert_allclose(flat, gym.spaces.flatten(ACTIONS[name], action), atol=1e-5)
    assert watch(tmp_path / "c", episodes=1, seed=3).episodes[0].length == 25
    if name == "Nested":  # with parts of every kind
        assert export(policy, tmp_path / "policy.pt2", observations=20).difference < 1e-5


@pytest.mark.slow
def test_asynchronous_environments_receive_nested_actions():
    made = with_actions("Tuple").env_runners(num_envs_per_env_runner=2, gym_env_vectorize_mode="async")
    assert trained(made).env_steps >= 75


@pytest.mark.slow
def test_unrolls_have_nested_actions():
    made = ours.A3CConfig().environment(ENV.format("Nested")).training(hiddens=(16,), steps_per_iteration=60)
    algorithm = made.training(train_batch_size=1).build_algo()
    before = weights(algorithm)
    algorithm.train()
    after = weights(algorithm)
    assert any("actor" in key and not torch.equal(after[key], before[key]) for key in after)
    assert np.isfinite(algorithm.evaluate()["env_runners"]["episode_return_mean"])


def test_every_algorithm_rejects_unsupported_action_spaces():
    for trainer, (name, space) in itertools.product(ALGORITHMS, REJECTED.items()):
        settings = getattr(ours, f"{trainer}Config")()
        with pytest.raises(ValueError) as error:
            settings.environment(ENV.format(name), action_space=space).validate()
        assert str(space) in str(error.value) and "expected" in str(error.value)
        with pytest.raises(UsageError) as error:
            check_actions(trainer, name, space)
        assert f"{trainer} requires " in str(error.value) and f"{name} is {space}" in str(error.value)
