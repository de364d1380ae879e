"""Dynamics, states with goals, rollouts and schedules."""

from functools import partial

import numpy as np
import pytest
import torch

from interreplay.experience.learned_models.dynamics import Dynamics, Prediction, Scale, calibration
from interreplay.experience.learned_models.ensembles import FitSettings
from interreplay.experience.learned_models.rollouts import (
    StateColumns,
    as_schedule,
    compute_rollout_length,
    goal_values,
    simulate,
)

QUICK = {"members": 3, "elites": 2, "hiddens": (32, 32)}


def linear(rows, seed=0, noise=0.0):
    """Return rows of s' = s + (s₁, −s₀)/10 + a, with a constant third number; r = s₀."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 2)) * 0.1
    states[:, 2] = 5.0
    following = states.copy()
    following[:, 0] += 0.1 * states[:, 1] + actions[:, 0]
    following[:, 1] += -0.1 * states[:, 0] + actions[:, 1]
    following[:, :2] += noise * rng.normal(size=(rows, 2))
    return tuple(torch.from_numpy(c).float() for c in (states, actions, following, states[:, 0].copy()))


@pytest.fixture(scope="module", params=["stochastic", "deterministic"])
def learned(request):
    model = Dynamics(request.param, **QUICK, settings=FitSettings(64, 3e-3, max_epochs=60))
    model.fit(*linear(2_000, noise=0.02), np.random.default_rng(0))
    return model


@pytest.mark.slow
def test_steps_follow_the_learned_dynamics(learned):
    states, actions, following, rewards = linear(500, seed=1)
    found = learned.step(states, actions, np.random.default_rng(0))
    moved = (following - states)[:, :2].std()
    assert (found.states - following)[:, :2].square().mean().sqrt() < 0.5 * moved
    assert (found.states[:, 2] == 5).all()  # constant columns do not change
    assert (found.rewards - rewards).square().mean().sqrt() < 0.3
    again = learned.step(states, actions, np.random.default_rng(0))
    assert torch.equal(found.states, again.states)


@pytest.mark.slow
def test_each_row_is_predicted_by_an_elite(learned):
    states, actions, *_ = linear(300, seed=1)
    found = learned.step(states, actions, np.random.default_rng(4))
    rows = learned._inputs.apply(torch.cat([states, actions], 1))
    outputs = learned.networks.forward(rows)[learned.elites]
    means = learned._targets.undo(outputs[..., :4])[..., 1:]
    if learned.networks.bounds:
        noisy = (found.states - states - means).abs()
        assert noisy.std() > 0  # a draw, not the mean
        return
    apart = (found.states - states - means).abs().amax(dim=2)
    assert apart.amin(dim=0).max() < 1e-5
    assert apart.argmin(dim=0).unique().tolist() == [0, 1]


@pytest.mark.slow
def test_stochastic_model_predicts_the_noise_of_the_data():
    model = Dynamics("stochastic", **QUICK, settings=FitSettings(64, 3e-3, max_epochs=60))
    model.fit(*linear(3_000, noise=0.2), np.random.default_rng(0))
    states, actions, following, _ = linear(2_000, seed=1)
    found = model.step(states, actions, np.random.default_rng(0)).states
    assert float((found - following)[:, :2].std()) == pytest.approx(0.2, rel=0.2)
    numbers = model.statistics()
    assert numbers["error_over_spread"] == pytest.approx(1.0, rel=0.25)
    assert {f"holdout_error_{j}" for j in range(3)} <= numbers.keys() and numbers["epochs"] > 1


def test_calibration():
    rng = torch.Generator().manual_seed(0)
    variances = torch.rand(5_000, 3, generator=rng) + 0.01
    means = torch.zeros(5_000, 3)
    targets = variances.sqrt() * torch.randn(5_000, 3, generator=rng)
    found = calibration(means, variances, targets)
    assert found["error_over_spread"] == pytest.approx(1.0, abs=0.05) and found["spread_correlation"] > 0.3
    assert calibration(means, variances, 3 * targets)["error_over_spread"] == pytest.approx(3.0, abs=0.15)
    assert abs(calibration(means, variances, targets.flip(0))["spread_correlation"]) < 0.1
    ascending = targets.sort(dim=0).values
    assert calibration(0 * means, torch.ones_like(means), ascending)["spread_correlation"] == 0  # all spreads are equal


def test_state_dict_restores_predictions_and_fits(learned):
    other = Dynamics(learned.kind, **QUICK, settings=learned.settings)
    other.load_state_dict(learned.state_dict())
    states, actions, following, rewards = linear(400, seed=2)
    one, two = (model.step(states, actions, np.random.default_rng(1)) for model in (learned, other))
    assert torch.equal(one.states, two.states) and torch.equal(one.rewards, two.rewards)
    assert other.statistics() == learned.statistics()
    models, before = [Dynamics(learned.kind, **QUICK, settings=FitSettings(max_epochs=1)) for _ in range(2)], []
    for model in models:
        model.load_state_dict(learned.state_dict())
        model.fit(states, actions, following, rewards, np.random.default_rng(3))
        before.append(model.step(states, actions, np.random.default_rng(1)).states)
    assert torch.equal(*before)
    with pytest.raises(ValueError, match="the state belongs to a model of 3 members .*; expected a"):
        Dynamics(learned.kind, members=4, elites=2, hiddens=(32, 32)).load_state_dict(learned.state_dict())


def test_standardized_columns():
    rows = torch.tensor([[1.0, 5.0, 1e6], [3.0, 5.0, 1e6 + 0.0625]])
    scale = Scale.fit(rows)
    assert scale.std.tolist() == [1, 0, 0] and scale.apply(rows)[:, 0].tolist() == [-1, 1]
    assert torch.equal(scale.undo(scale.apply(rows))[:, :2], rows[:, :2])


# -- goals ----------------------------------------------------------------------------------------

FETCH = {"achieved_goal": (3,), "desired_goal": (3,), "observation": (7,)}


def fetch_like(rows, seed=0, copies=(3, 4, 5)):
    rng = np.random.default_rng(seed)
    observation = torch.from_numpy(rng.normal(size=(rows, 7))).float()
    achieved = torch.from_numpy(rng.normal(size=(rows, 3))).float()
    for goal, copy in enumerate(copies):
        achieved[:, goal] = observation[:, copy] if copy >= 0 else achieved[:, goal]
    desired = torch.from_numpy(rng.normal(size=(rows, 3))).float()
    return {"achieved_goal": achieved, "desired_goal": desired, "observation": observation}


@pytest.mark.parametrize("copies", [(3, 4, 5), (-1, 0, -1), (-1, -1, -1)])
def test_achieved_goals_are_recomputed_from_copied_columns(copies):
    obs, other = fetch_like(50, 0, copies), fetch_like(50, 1, copies)
    columns = StateColumns(FETCH).find_copies(obs, other)
    assert columns.goals and columns.copies == copies and columns.width == 7 + copies.count(-1)
    states = columns.flatten(obs)
    back = columns.restore(states, other)
    for name in FETCH:
        assert torch.equal(back[name], (other if name == "desired_goal" else obs)[name]), name
    moved = columns.restore(states + 1, other)
    assert torch.equal(moved["achieved_goal"], obs["achieved_goal"] + 1)


def test_plain_observations_and_parts_are_predicted_whole():
    plain = StateColumns({"": (2, 3)})
    obs = torch.randn(4, 2, 3)
    assert plain.width == 6 and torch.equal(plain.restore(plain.flatten(obs), obs), obs)
    parts = StateColumns({"a": (2,), "b": ()})
    both = {"a": torch.randn(4, 2), "b": torch.randn(4)}
    back = parts.restore(parts.flatten(both), both)
    assert not parts.goals and parts.width == 3 and all(torch.equal(back[name], both[name]) for name in both)


# -- rollouts -------------------------------------------------------------------------------------


class Counting:
    """Model in which the action is added to the first number."""

    elites = [0]

    def step(self, states, actions, rng):
        moved = states.clone()
        moved[:, 0] += actions[:, 0]
        moved[:, 1] = torch.where(moved[:, 1] == 7, torch.nan, moved[:, 1])
        return Prediction(moved, moved[:, 0])


def rollouts(starts, length, episodes):
    return simulate(
        starts,
        length,
        np.random.default_rng(0),
        episodes=episodes,
        dynamics=Counting(),
        columns=StateColumns({"": (2,)}),
        act=lambda obs, rng: torch.ones(len(obs), 1),
        terminated=lambda obs, actions, next_obs: next_obs[:, 0] >= 3,
    )


def test_terminated_rollouts_are_never_continued():
    starts = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [-5.0, 0.0]])
    steps = list(rollouts(starts, 4, torch.arange(10, 14)))
    assert [rows.episode.tolist() for rows in steps] == [[10, 11, 12, 13], [10, 11, 13], [10, 13], [13]]
    ends = [[False, False, True, False], [False, True, False], [True, False], [False]]
    assert [rows.terminated.tolist() for rows in steps] == ends
    for before, after in zip(steps, steps[1:], strict=False):
        assert torch.equal(before.next_obs[~before.terminated], after.obs)  # each continues from its state
    assert [rows.truncated.any().item() for rows in steps] == [False] * 3 + [True]
    assert steps[0].rewards.tolist() == [1, 2, 3, -4]
    assert list(rollouts(starts, 3, torch.arange(4)))[-1].truncated.tolist() == [False, True]
    assert len(list(rollouts(starts[:3], 50, torch.arange(3)))) == 3


def test_nonfinite_predictions_are_discarded():
    starts = torch.tensor([[0.0, 7.0], [0.0, 0.0]])
    steps = list(rollouts(starts, 2, torch.arange(2)))
    assert [rows.episode.tolist() for rows in steps] == [[1], [1]]


def test_goal_functions_receive_finite_predictions_only():
    def reward(achieved, desired, info):
        return -np.abs(achieved - desired).sum(-1)

    class Exploding:
        def step(self, states, actions, rng):
            return Prediction(torch.where(states == 7, torch.nan, states + actions), None)

    shapes = {"observation": (1,), "achieved_goal": (1,), "desired_goal": (1,)}
    for starts, expected in (([7.0, 1.0], [[1], [1]]), ([7.0, 7.0], [])):
        column = torch.tensor(starts)[:, None]
        steps = simulate(
            dict.fromkeys(shapes, column),
            2,
            np.random.default_rng(0),
            episodes=torch.arange(2),
            dynamics=Exploding(),
            columns=StateColumns(shapes),
            act=lambda obs, rng: torch.ones(len(obs["observation"]), 1),
            terminated=lambda obs, actions, next_obs: torch.zeros(len(actions), dtype=torch.bool),
            reward=partial(goal_values, reward, torch.float32),
        )
        assert [rows.episode.tolist() for rows in steps] == expected


def test_goal_functions_of_one_row_and_of_many():
    obs = fetch_like(5)
    one_by_one = partial(goal_values, lambda achieved, desired, info: bool(achieved[0] > desired[0]), torch.bool)
    assert one_by_one(None, None, obs).tolist() == (obs["achieved_goal"] > obs["desired_goal"])[:, 0].tolist()
    at_once = partial(goal_values, lambda achieved, desired, info: np.abs(achieved - desired).sum(-1), torch.float32)
    assert torch.allclose(at_once(None, None, obs), (obs["achieved_goal"] - obs["desired_goal"]).abs().sum(1))


# -- schedules ------------------------------------------------------------------------------------


def test_rollout_lengths_follow_the_schedule():
    schedule = as_schedule((1, 15, 20_000, 150_000))
    steps = (0, 20_000, 29_285, 29_286, 85_000, 149_999, 150_000, 10**7)
    lengths = [compute_rollout_length(schedule, step) for step in steps]
    assert lengths == [1, 1, 1, 2, 8, 14, 15, 15]
    assert [compute_rollout_length(as_schedule(3), steps) for steps in (0, 10**6)] == [3, 3]
    assert [compute_rollout_length(as_schedule((5, 1, 100, 100)), steps) for steps in (99, 100)] == [5, 1]
