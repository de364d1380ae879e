"""Policies with an LSTM: consistent acting and learning, a memory task, resumes, and stored policies."""

import gymnasium as gym
import numpy as np
import pytest
import torch

import interreplay
from interreplay.acting.export import export
from interreplay.errors import UsageError
from interreplay.learning.networks.memory import Memory
from tests.rllib.small_runs import continued
from tests.rllib.test_actor_learner import ELITE, assert_same_state, config, finite

CELLS = {"lstm_cells": 12}


class Recall(gym.Env):
    """Environment that shows −1 or 1 first and 0 afterwards; the fourth action has to equal the first observation."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config=None):
        self.steps, self.shown = 0, 0

    def observation(self):
        return np.array([self.shown if self.steps == 0 else 0, self.steps == 3], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.shown = 0, int(self.np_random.integers(2)) * 2 - 1
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        over = self.steps == 4
        return self.observation(), float(over and (action == 1) == (self.shown == 1)), over, False, {}


def test_an_unroll_in_one_pass_equals_single_steps():
    torch.manual_seed(0)
    memory, rows, live = Memory(3, 5), torch.randn(7, 2, 3), torch.rand(6, 2) > 0.3
    state = {name: torch.randn(2, 5) for name in ("h", "c")}
    found, now = memory.unroll(rows, state, live), state
    for t in range(7):
        expected, now = memory.step(rows[t], now)
        torch.testing.assert_close(found[t], expected)
        if t < 6:
            now = {name: torch.where(live[t, :, None], part, torch.zeros(())) for name, part in now.items()}


@pytest.mark.parametrize(("env", "trainer"), [("CartPole-v1", "IMPALA"), ("Pendulum-v1", "A2C")])
def test_learning_uses_the_outputs_of_acting_over_episode_ends(env, trainer):
    algorithm = config(env, trainer, **CELLS).build_algo()
    runner = algorithm.env_runner
    rule = algorithm.learner.update_rule
    parts = [runner.unroll(30) for _ in range(3)]
    assert not parts[0].live.all() or env == "Pendulum-v1"
    assert all((part.state["h"] == 0).all() for part in parts[:1]) and (parts[1].state["h"] != 0).any()
    for part in parts:
        torch.testing.assert_close(rule.policy(part), part.policy, rtol=0, atol=1e-5)
        assert {name: tuple(x.shape) for name, x in part.state.items()} == {"h": (4, 12), "c": (4, 12)}
    before = [p.clone() for p in rule.parameters]
    assert finite(algorithm.train())
    assert all(not torch.equal(a, b) for a, b in zip(before, rule.parameters, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("settings", "low", "high"), [({"lstm_cells": 16}, 0.95, 1.0), ({}, 0.3, 0.7)])
def test_a_task_that_requires_memory_is_solved(settings, low, high):
    small = {"optimizer": "Adam", "optimizer_eps": 1e-5, "loss": "mean", "grad_clip": 0.5, "lr": 0.01, "lr_end": None}
    made = config(Recall, **small, **settings).training(train_batch_size=8, steps_per_iteration=20_000)
    made.env_runners(num_envs_per_env_runner=8, rollout_fragment_length=10)
    algorithm = made.evaluation(evaluation_duration=100).reporting(metrics_num_episodes_for_smoothing=100).build_algo()
    algorithm.train()
    assert low <= algorithm.evaluate()["env_runners"]["episode_return_mean"] <= high


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "replay"), [("CLEAR", None), ("LASER", ELITE), ("A3C", None)])
def test_resuming_equals_not_stopping(trainer, replay, tmp_path):
    made = lambda: config("CartPole-v1", trainer, replay=replay, **CELLS).build_algo()
    assert_same_state(*continued(made, tmp_path / "c", before=2, after=2))


def test_a_stored_policy_keeps_its_memory_until_an_episode_begins(tmp_path):
    algorithm = config(Recall, **CELLS).build_algo()
    algorithm.train()
    algorithm.save_to_path(tmp_path / "c")
    module, obs = algorithm.learner.single_module, torch.randn(6, 3, 2)
    stored, state = interreplay.load_policy(tmp_path / "c"), module.policy.memory.begin(3)
    expected = []
    with torch.no_grad():
        for row in obs:
            seen, state = module.policy.memory.step(row, state)
            expected.append(module.policy.act(seen).numpy())
    for policy in (stored, algorithm):
        for _ in range(2):
            found = [policy.act(row.numpy()) for row in obs]
            np.testing.assert_array_equal(found, expected)
            (policy.start if policy is stored else policy.start_episode)()
    with pytest.raises(NotImplementedError, match="use algo.act"):
        algorithm.get_module().forward_inference({"obs": obs[0]})
    with pytest.raises(UsageError, match="cannot contain the memory of the policy"):
        export(stored, tmp_path / "policy.pt2")
