"""IMPALA, CLEAR, LASER, A2C and A3C in RLlib: training, truncations, resumed runs, rejections, policies with memory."""

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
import torch

import interreplay
import interreplay.rllib as ours
from interreplay.acting.export import export
from interreplay.errors import CheckpointError, NonFiniteError, UsageError
from interreplay.experiments.evaluation import play
from interreplay.learning.algorithms_table import ALGORITHMS, UNROLLS
from interreplay.learning.networks.memory import Memory
from interreplay.rllib.algorithms.loop import LOOP_STATE
from tests.rllib import spaces_envs  # noqa: F401 - registers StackedLine-v0
from tests.rllib.small_runs import continued, restored, run, same, trained, weights

ELITE = [
    {"type": "queue", "share": 0.5},
    {"type": "elite", "capacity": 12, "share": 0.25, "insertion": "elite", "refresh": 2},
    {"type": "prioritized", "capacity": 9, "share": 0.25},
]


def config(env="CartPole-v1", trainer="IMPALA", seed=0, replay=None, **settings):
    made = getattr(ours, f"{trainer}Config")().environment(env).debugging(seed=seed)
    made.env_runners(num_envs_per_env_runner=4, rollout_fragment_length=5)
    made.training(**{"hiddens": (16,), "train_batch_size": 4, "steps_per_iteration": 60} | settings)
    return made if replay is None else made.replay(replay)


def finite(result):
    found = result["learners"]["default_policy"]
    return all(np.isfinite(value) for value in found.values())


@pytest.mark.slow
@pytest.mark.parametrize("trainer", UNROLLS)
def test_each_learns_and_reports(trainer):
    algorithm = config(trainer=trainer).build_algo()
    before = weights(algorithm)
    results = [algorithm.train() for _ in range(3)]
    assert all(map(finite, results)) and not same(before, weights(algorithm))
    found = results[-1]["learners"]["default_policy"]
    assert found["rho_mean"] <= 1 and 0 < found["effective_sample_size"] <= 1.0001
    assert (found["replayed_share"] > 0) == (trainer in ("CLEAR", "LASER"))
    assert (found["policy_cloning"] != 0) == (trainer == "CLEAR")
    assert results[-1]["env_steps"] == algorithm.env_steps >= 180
    assert ALGORITHMS[trainer].config == f"{type(algorithm).__name__}Config"


@pytest.mark.parametrize(("env", "settings"), [("CartPole-v1", {}), ("StackedLine-v0", {"encoder": "shallow"})])
def test_a3c_without_remote_runners_equals_a2c(env, settings):
    made = [config(env, trainer, loss="sum", lr=1e-3, **settings).build_algo() for trainer in ("A2C", "A3C")]
    for _ in range(2):
        results = [algorithm.train()["learners"]["default_policy"] for algorithm in made]
        np.testing.assert_equal(*results)
    assert same(*map(weights, made))


def test_a_restored_optimizer_has_the_configured_decay():
    one, other = (config(optimizer_decay=decay).build_algo() for decay in (0.99, 0.9))
    other.set_state(one.get_state())
    assert other.learner.update_rule.optimizers["all"].param_groups[0]["decay"] == 0.9


class Ends(failing_envs.Counting):
    """Reward 1 in the only state, for five steps."""

    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def observation(self):
        return np.ones(1, np.float32)


class Truncates(Ends):
    """The episodes are cut instead: the value is still 1 / (1 − γ)."""

    def step(self, action):
        obs, reward, over, _, info = super().step(action)
        return obs, reward, False, over, info


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["IMPALA", "A2C"])
def test_a_truncated_step_is_bootstrapped_and_a_terminated_one_is_not(trainer):
    found = {}
    for env in (Truncates, Ends):
        made = config(env, trainer, optimizer="Adam", optimizer_eps=1e-8, lr=0.03, lr_end=None, gamma=0.8)
        algorithm = trained(made.training(steps_per_iteration=4_000))
        found[env] = float(algorithm.learner.single_module.policy.output(torch.ones(1, 1))[0, -1].detach())
    assert found[Truncates] == pytest.approx(5.0, abs=0.25)  # 1 / (1 − .8)
    # In episodes that end, the value k steps before the end is 5·(1 − .8^k), 2.3 on average.
    assert found[Ends] == pytest.approx(np.mean([5 * (1 - 0.8**k) for k in range(1, 6)]), abs=0.5)


def test_a_mix_is_half_replayed_and_is_reported():
    _, (*_, result) = run(config(replay=ELITE), 3)
    assert result["learners"]["default_policy"]["replayed_share"] == pytest.approx(0.5, abs=0.1)
    found = result["replay_buffer"]
    assert found["elite/stored"] == 12 and found["prioritized/stored"] == 9
    assert found["elite/stored_distance"] >= 0 and found["fresh_share"] < 1
    assert found["lag_fresh_max"] <= 2 and found["lag_replayed_mean"] > found["lag_fresh_mean"]


def plain(value):
    """Return nested containers with arrays in place of tensors."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else np.asarray(value)


def state_of(algorithm):
    """Return the complete state of a run."""
    optimizers = [optimizer.state_dict() for optimizer in algorithm.learner._named_optimizers.values()]
    parts = weights(algorithm), optimizers, algorithm.replay_buffer.state_dict(), algorithm.experience.state_dict()
    return plain(list(parts))


def assert_same_state(one, other):
    np.testing.assert_equal(state_of(one), state_of(other))


NORMALIZED = {"normalize_observations": True, "anneal_steps": 400}
SCHEDULE = [[0, 1e-3], [400, 1e-4]]
CELLS = {"lstm_cells": 12}
WITH_MEMORY = [("CLEAR", None), ("LASER", ELITE), ("A3C", None)]


@pytest.mark.parametrize(
    ("env", "trainer", "replay", "settings"),
    [
        ("CartPole-v1", "IMPALA", None, {"train_batch_size": 6, "anneal_steps": 400}),  # unrolls wait in the queue
        pytest.param("CartPole-v1", "LASER", ELITE, {"optimizer": "Adam"} | NORMALIZED, marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", "CLEAR", None, {}, marks=pytest.mark.slow),
        pytest.param("CartPole-v1", "CLEAR", ELITE, {"caching": True, "anneal_steps": 400}, marks=pytest.mark.slow),
        pytest.param("interreplay/Catch-v0", "A2C", None, {"lr": SCHEDULE} | NORMALIZED, marks=pytest.mark.slow),
        *(pytest.param("CartPole-v1", *case, CELLS, marks=pytest.mark.slow) for case in WITH_MEMORY),
    ],
)
def test_resuming_equals_not_stopping(env, trainer, replay, settings, tmp_path):
    made = lambda: config(env, trainer, replay=replay, **settings).build_algo()
    algorithms = continued(made, tmp_path / "c", before=2)
    one, other = (algorithm.train() for algorithm in algorithms)
    assert_same_state(*algorithms)
    np.testing.assert_equal(one["learners"]["default_policy"], other["learners"]["default_policy"])
    np.testing.assert_equal(one["replay_buffer"], other["replay_buffer"])
    names = ("episode_return_mean", "num_env_steps_sampled_lifetime")
    assert [one["env_runners"].get(name) for name in names] == [other["env_runners"].get(name) for name in names]


def test_a_checkpoint_of_another_mix_is_rejected(tmp_path):
    folder = config(replay=ELITE).build_algo().save_to_path(tmp_path / "c")
    with pytest.raises(CheckpointError, match="UnrollMix.*this run has 'Fresh'"):
        restored(config(), folder)
    other = [ELITE[0], ELITE[1] | {"capacity": 13}, ELITE[2]]
    with pytest.raises(CheckpointError, match="has the capacity"):
        restored(config(replay=other), folder)


def test_evaluation_uses_the_most_likely_action(tmp_path):
    algorithm = trained(config())
    algorithm.save_to_path(tmp_path / "c")
    acting = play.build_algorithm(play.read_config(tmp_path / "c"))
    play.restore(acting, tmp_path / "c")
    obs = torch.randn(5, 4)
    chosen = acting.get_module().forward_inference({"obs": obs})["actions"]
    assert torch.equal(chosen, algorithm.learner.single_module.policy.output(obs)[:, :-1].argmax(dim=-1))
    assert np.isfinite(algorithm.evaluate()["env_runners"]["episode_return_mean"])


def test_the_learning_rate_decreases_to_lr_end():
    made = config(lr=0.01, lr_end=0.002, lr_power=2.0, anneal_steps=100)
    assert made.rates(0)["all"] == 0.01 and made.rates(200)["all"] == 0.002
    assert made.rates(50)["all"] == pytest.approx(0.008 * 0.25 + 0.002)
    made.training(lr_power=1.0)
    assert made.rates(25)["all"] == pytest.approx(0.008)
    assert config(lr=0.01, anneal_steps=None).rates(50)["all"] == 0.01
    assert config(lr=[[0, 0.01], [100, 0.02]], anneal_steps=100).rates(50)["all"] == pytest.approx(0.015)


@pytest.mark.parametrize(
    ("trainer", "change", "message"),
    [
        ("IMPALA", lambda c: c.env_runners(explore=False), "explore is False; expected True"),
        ("IMPALA", lambda c: c.training(exploration="EpsilonGreedy", anneal_steps=9), "expected Sampled"),
        ("IMPALA", lambda c: c.training(train_batch_size=1).replay(ELITE), "a share of 0.5 for queue is 0.5 of 1 unr"),
        ("IMPALA", lambda c: c.env_runners(rollout_fragment_length="auto"), "rollout_fragment_length is 'auto'"),
        ("IMPALA", lambda c: c.env_runners(max_requests_in_flight_per_env_runner=0), "per_env_runner is 0"),
        ("IMPALA", lambda c: c.replay("NMER"), "'NMER' replays no unrolls; expected 'Fresh', 'UnrollMix' or a list of"),
        ("IMPALA", lambda c: c.replay("[1, 2"), "replay_parameters is not JSON"),
        ("IMPALA", lambda c: c.replay("Fresh", k=3), "Fresh takes no argument 'k'"),
        ("A2C", lambda c: c.replay(ELITE), "returns is 'gae' and unrolls are replayed; expected returns='vtrace'"),
        ("A2C", lambda c: c.env_runners(num_env_runners=1).training(sync=False), "'gae' and sync is False; expected"),
        ("A3C", lambda c: c.training(train_batch_size=3), "train_batch_size is 3; expected 4"),
        ("A3C", lambda c: c.training(normalize_observations=True), "normalize_observations is True; expected False"),
        ("A3C", lambda c: c.training(returns="vtrace").replay(ELITE), "A3C replays nothing"),
    ],
)
def test_invalid_settings_are_rejected_in_one_line(trainer, change, message):
    with pytest.raises(ValueError, match=message) as error:
        change(config(trainer=trainer)).build_algo()
    assert "\n" not in str(error.value)


def test_an_error_about_a_number_names_the_environment_and_the_last_stored_step():
    made = config(failing_envs.RewardNaN).env_runners(num_envs_per_env_runner=1, rollout_fragment_length=4)
    message = r"rewards holds nan at entry \(3, 0\) of the added unrolls, after env step 4 of RewardNaN; only"
    with pytest.raises(NonFiniteError, match=message):
        made.build_algo().train()


def test_a_local_runner_does_not_repeat_the_episodes_of_remote_ones_before_a_resume():
    algorithm = config().build_algo()
    loop = algorithm.get_state()[LOOP_STATE]
    used = algorithm.env_runner._state.env_seed  # the first remote runner has the random stream of a local one
    algorithm._collector.load_state_dict(loop)
    assert algorithm.env_runner._state.env_seed == used
    algorithm._collector.load_state_dict(loop | {"remote_runners": {1: {}}, "env_steps": 60})
    assert algorithm.env_runner._state.env_seed != used


class Recall(failing_envs.Counting):
    """Environment that shows −1 or 1 first and 0 afterwards; the fourth action has to equal the first observation."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def observation(self):
        return np.array([self.shown if self.steps == 0 else 0, self.steps == 3], np.float32)

    def reset(self, *, seed=None, options=None):
        gym.Env.reset(self, seed=seed)
        self.shown = int(self.np_random.integers(2)) * 2 - 1
        return super().reset()

    def step(self, action):
        obs, *_ = super().step(action)
        over = self.steps == 4
        return obs, float(over and (action == 1) == (self.shown == 1)), over, False, {}


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
    assert (parts[0].state["h"] == 0).all() and (parts[1].state["h"] != 0).any()
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


def test_a_stored_policy_keeps_its_memory_until_an_episode_begins(tmp_path):
    algorithm = trained(config(Recall, **CELLS))
    algorithm.save_to_path(tmp_path / "c")
    module = algorithm.learner.single_module
    obs = torch.randn(6, 3, 2)
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
