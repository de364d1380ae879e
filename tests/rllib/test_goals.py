"""Goal-conditioned environments in RLlib: hindsight with the environment's own functions, success, resuming."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
import torch

from interreplay.errors import EnvironmentFailure, InterreplayWarning, PartError
from interreplay.neighborhood import KNN
from tests.rllib.small_runs import config, continued, run, same, weights

POINT = gym.spaces.Box(-2, 2, (1,), np.float32)
EPISODIC = {"continuing_task": False, "reset_target": False}


class Reach(gym.Env):
    """A point on a line that moves by its action and terminates at its goal."""

    observation_space = gym.spaces.Dict(observation=POINT, achieved_goal=POINT, desired_goal=POINT)
    action_space = gym.spaces.Box(-0.5, 0.5, (1,), np.float32)

    def __init__(self, config=None):
        self.reach = (config or {}).get("reach", 0.1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.at = 0, np.zeros(1, np.float32)
        self.goal = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._observation(), {}

    def _observation(self):
        return {"observation": self.at.copy(), "achieved_goal": self.at.copy(), "desired_goal": self.goal.copy()}

    def compute_reward(self, achieved, desired, info):
        return -(np.abs(achieved - desired)[..., 0] > self.reach).astype(np.float32)

    def compute_terminated(self, achieved, desired, info):
        return bool(np.abs(achieved - desired)[0] <= self.reach)

    def step(self, action):
        self.t += 1
        self.at = np.clip(self.at + action, -2, 2).astype(np.float32)
        over = self.compute_terminated(self.at, self.goal, {})
        reward = self.compute_reward(self.at, self.goal, {})
        return self._observation(), float(reward), over, self.t == 20, {"is_success": over}


def learned(result):
    return np.isfinite(result["learners"]["default_policy"]["critic_loss"])


def check_batch(algorithm, env):
    """Check that a batch has the environment's rewards and terminations, and some relabeled goals."""
    sample = algorithm.replay_buffer.sample(256)
    rows, stored = sample.transitions, algorithm.replay_buffer.storage[sample.slots]
    changed = (rows.obs["desired_goal"] != stored.obs["desired_goal"]).any(1).numpy()
    assert 0.5 < changed.mean() < 0.95
    goals = [rows.next_obs[name].numpy()[changed] for name in ("achieved_goal", "desired_goal")]
    assert np.array_equal(rows.rewards[changed], env.compute_reward(*goals, {}).astype(np.float32))
    assert rows.terminated[changed].tolist() == [env.compute_terminated(a, d, {}) for a, d in zip(*goals, strict=True)]
    return rows


def test_a_registered_environment_and_one_without_goals():
    from ray.tune import register_env

    register_env("reach-for-a-test", lambda context: Reach(context))
    made = config("reach-for-a-test", "HER").environment("reach-for-a-test", env_config={"reach": 0.2})
    algorithm, results = run(made, 1)
    rows = check_batch(algorithm, Reach({"reach": 0.2}))
    assert rows.terminated.any() and learned(results[-1])
    with pytest.raises(ValueError, match=r"hindsight needs Dict observations .*; got obs; the observation space"):
        config("Pendulum-v1", "HER").build_algo()
    with pytest.raises(ValueError, match="hindsight needs an environment with compute_reward"):
        config(Goalless, "HER").build_algo()


class Goalless(Reach):
    """Has goals but no reward function."""

    compute_reward = None


class Doubled(gym.RewardWrapper):
    """Doubles the rewards of steps only."""

    def reward(self, reward):
        return 2 * reward


class DoubledGoals(Doubled):
    """Doubles the rewards of steps and of goals."""

    def compute_reward(self, achieved, desired, info):
        return 2 * self.env.get_wrapper_attr("compute_reward")(achieved, desired, info)


def test_a_wrapper_that_changes_rewards_can_define_those_of_goals():
    with pytest.warns(InterreplayWarning, match="returned the reward -2, and its compute_reward returns -1; relabeled"):
        run(config(lambda context: Doubled(Reach()), "HER"), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterreplayWarning)
        algorithm, _ = run(config(lambda context: DoubledGoals(Reach()), "HER"), 1)
    assert set(algorithm.replay_buffer.sample(256).transitions.rewards.tolist()) == {-2.0, 0.0}


class OneRowAtATime(Reach):
    """Computes rewards of single rows, and only of the current one."""

    def compute_reward(self, achieved, desired, info):
        assert achieved.shape == (1,), "one row at a time"
        if not np.array_equal(achieved, self.at):
            raise ZeroDivisionError("that was earlier")
        return -1.0


def test_an_error_of_the_reward_function_is_one_of_the_environment():
    message = "the environment OneRowAtATime raised ZeroDivisionError: that was earlier in compute_reward"
    with pytest.raises(EnvironmentFailure, match=message):
        run(config(OneRowAtATime, "HER"), 5)


class NoNumber(Reach):
    """Computes rewards of several rows that are not numbers."""

    def compute_reward(self, achieved, desired, info):
        return 0.0 if achieved.ndim == 1 else np.full(len(achieved), np.nan)


def test_a_reward_that_is_not_a_number_is_reported():
    with pytest.raises(PartError, match="compute_reward returned nan; expected one finite number per row"):
        run(config(NoNumber, "HER"), 5)


def test_vector_environments_relabel_within_their_own_episodes():
    made = config(Reach, "HER", strategy="final", k=1e12).env_runners(num_envs_per_env_runner=3)
    algorithm, _ = run(made, 1)
    buffer = algorithm.replay_buffer
    everything = buffer.storage[torch.arange(len(buffer))]
    sample = buffer.sample(256)
    for slot, goal in zip(sample.slots.tolist(), sample.transitions.obs["desired_goal"], strict=True):
        mine = everything.episode == everything.episode[slot]
        assert torch.equal(everything.next_obs["achieved_goal"][mine][-1], goal)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "settings", "near", "before"),
    [("FetchReach-v4", {}, None, 1), ("PointMaze_UMaze-v3", EPISODIC, lambda: KNN(k=5), 2)],
    ids=["HER", "with NMER"],
)
def test_robotics_environments_train_and_resume(env, settings, near, before, tmp_path):
    """Checkpoints are in the middle of an episode."""

    def made():
        return config(env, "HER", neighborhood=near and near()).environment(env, env_config=settings).build_algo()

    straight, resumed = continued(made, tmp_path / "c", before=before)
    for algorithm in (straight, resumed):
        result = algorithm.train()
        assert learned(result) and 0 <= result["env_runners"]["success_rate"] <= 1
    assert resumed.env_steps == straight.env_steps and same(weights(straight), weights(resumed))
    one, other = straight.replay_buffer.sample(64), resumed.replay_buffer.sample(64)
    assert torch.equal(one.slots, other.slots) and torch.equal(one.transitions.rewards, other.transitions.rewards)
    if near is None:
        check_batch(straight, gym.make(env, **settings).unwrapped)
