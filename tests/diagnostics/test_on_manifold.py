"""The on-manifold error: 0 for real transitions, above 0 for synthetic ones."""

import gymnasium as gym
import numpy as np
import pytest

from interreplay import Transitions
from interreplay.diagnostics.on_manifold import OnManifold
from interreplay.rllib import SACConfig
from replay_buffers import NMER, NaiveMixup


def walk(env_id: str, steps: int) -> Transitions:
    """A random walk with actions in [−1, 1] as in buffers."""
    env = gym.make(env_id)
    rng, (obs, _) = np.random.default_rng(0), env.reset(seed=0)
    low, high = env.action_space.low, env.action_space.high
    rows, episode = [], 0
    for _ in range(steps):
        action = rng.uniform(-1, 1, env.action_space.shape)
        next_obs, reward, terminated, truncated, _ = env.step(
            (low + (action + 1) / 2 * (high - low)).astype(np.float32)
        )
        rows.append((obs, action, reward, next_obs, terminated, truncated, episode))
        obs = next_obs
        if terminated or truncated:
            obs, episode = env.reset()[0], episode + 1
    return Transitions(*(np.array(column) for column in zip(*rows, strict=True)))


def test_real_transitions_have_no_error():
    for env_id in ("HalfCheetah-v5", "Hopper-v5", "InvertedPendulum-v5", "Swimmer-v5"):
        errors = OnManifold(gym.make(env_id))(walk(env_id, 40))
        # On ground contact, the solver starts from another guess and converges to a slightly different solution.
        assert errors["on_manifold_state_error"] < 2e-3, env_id
        assert errors["on_manifold_reward_error"] < 2e-3, env_id


def test_errors_equal_the_deviation():
    rows = walk("InvertedPendulum-v5", 40)
    errors = OnManifold(gym.make("InvertedPendulum-v5"))(rows.replace(rewards=rows.rewards + 0.5))
    assert errors["on_manifold_reward_error"] == pytest.approx(0.5, abs=1e-6)
    double = rows.replace(next_obs=rows.obs + 2 * (rows.next_obs - rows.obs))
    errors = OnManifold(gym.make("InvertedPendulum-v5"))(double)
    assert errors["on_manifold_state_error"] == pytest.approx(1.0, abs=1e-4)


def test_blends_of_neighbors_are_nearer_to_the_manifold_than_random_blends():
    rows, found = walk("HalfCheetah-v5", 3_000), {}
    for method in (NMER, NaiveMixup):
        buffer = method(capacity=3_000, seed=0)
        buffer.add(rows)
        found[method] = OnManifold(gym.make("HalfCheetah-v5"))(buffer.sample(128).transitions)
    assert 0.01 < found[NMER]["on_manifold_state_error"] < 0.8 * found[NaiveMixup]["on_manifold_state_error"]


def test_environments_with_hidden_state_are_rejected():
    for env_id in ("Pendulum-v1", "Reacher-v5"):
        with pytest.raises(ValueError, match="HalfCheetah-v5"):
            OnManifold(gym.make(env_id))


def test_wrappers_that_change_observations_are_rejected():
    stacked = gym.wrappers.FrameStackObservation(gym.make("InvertedPendulum-v5"), 2)
    with pytest.raises(ValueError, match=r"wrappers of .* change observations or actions"):
        OnManifold(stacked)


@pytest.mark.parametrize(("n_step", "arguments"), [(3, {}), ((1, 2), {}), (1, {"n_step": 2})])
def test_rows_of_several_steps_are_rejected(n_step, arguments):
    config = SACConfig().environment("HalfCheetah-v5").replay("Uniform", **arguments)
    with pytest.raises(ValueError, match="on_manifold_rows simulates single steps and n_step is .*; expected n_step 1"):
        config.training(on_manifold_rows=5, n_step=n_step).validate()
