"""Catch, MinAtar and the goal versions of classic tasks: rules, spaces, seeds; saved states of these and of MuJoCo."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from interreplay.environments import registration
from interreplay.environments.catch import Catch
from interreplay.environments.goal_tasks import GoalAcrobot, GoalMountainCar
from interreplay.environments.lookup import find_environment
from interreplay.rllib.env_runner.runner_state import can_save, restore_env, save_env

GAMES = ["Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders"]
IDS = [
    "interreplay/Catch-v0",
    "interreplay/GoalMountainCar-v0",
    "interreplay/GoalAcrobot-v0",
    *(f"MinAtar/{game}-v{version}" for game in GAMES for version in (0, 1)),
]


def make(name, **arguments):
    assert registration.register(name) == ""
    return gym.make(name, **arguments)


def flat(obs):
    return np.concatenate([np.ravel(obs[k]) for k in sorted(obs)]) if isinstance(obs, dict) else np.ravel(obs)


def play(env, actions, reset=None):
    """Return the observations, rewards and ends of some actions; finished episodes are reset."""
    seen = [] if reset is None else [flat(env.reset(seed=reset)[0])]
    for action in actions:
        obs, reward, terminated, truncated, _ = env.step(action)
        seen += [flat(obs), np.float64([reward, terminated, truncated])]
        if terminated or truncated:
            seen.append(flat(env.reset()[0]))
    return seen


def equal(one, other):
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("name", IDS)
def test_environments_follow_their_seed_and_state(name):
    env, other = make(name), make(name)
    check_env(env.unwrapped, skip_render_check=True)
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 150).tolist()
    assert equal(play(env, actions, 3), play(other, actions, 3))
    different = [play(other, actions, seed) for seed in (4, 5, 6, 7)]
    assert not all(equal(play(env, actions, 3), one) for one in different)
    # In the middle of an episode, in another instance of the environment.
    play(env, actions[:61], 8)
    assert can_save(env)
    saved, third = save_env(env), make(name)
    third.reset(seed=99)
    restore_env(third, saved)
    assert equal(play(env, actions), play(third, actions))


def test_a_saved_state_of_mujoco_has_the_positions_that_rewards_read():
    """Ant's reward reads positions of bodies, which MuJoCo computes before a step and not after it."""
    env, other = make("Ant-v5"), make("Ant-v5")
    actions = np.random.default_rng(0).uniform(-1, 1, (20, 8))
    play(env, actions[:10], 3)
    other.reset(seed=4)
    restore_env(other, save_env(env))
    assert equal(play(env, actions[10:]), play(other, actions[10:]))


def test_small_environments_are_found_by_name():
    found = find_environment("interreplay/Catch-v0")
    assert found.name == "interreplay/Catch-v0" and found.action_space == gym.spaces.Discrete(3)
    assert find_environment("MinAtar/Breakout-v0").action_space.n == 6
    assert find_environment("MinAtar/Breakout-v1").action_space.n == 3


def test_catch_is_won_below_the_ball_and_lost_elsewhere():
    env, rewards = Catch(), {True: [], False: []}
    for seed in range(40):
        for follow in (True, False):
            obs, _ = env.reset(seed=seed)
            for step in range(1, 10):
                assert obs.sum() in (1, 2) and obs[-1].any()
                ball = int(obs[step - 1].argmax())
                assert obs[step - 1, ball], "the ball falls a row per step and stays in its column"
                paddle = env.paddle
                away = ball if follow else (0 if ball > 1 else 4)
                obs, reward, over, _, _ = env.step(int(np.sign(away - paddle)) + 1)
                assert over == (step == 9) and (over or reward == 0)
            rewards[follow].append(reward)
    assert set(rewards[True]) == {1.0} and set(rewards[False]) == {-1.0}


@pytest.mark.parametrize(("kind", "goal"), [(GoalMountainCar, 0.5), (GoalAcrobot, 1.0)])
def test_goals_are_reached_from_them_on(kind, goal):
    env = kind()
    obs, _ = env.reset(seed=0)
    assert obs["desired_goal"] == np.float32(goal) and obs["achieved_goal"] == np.float32(env.achieved())
    achieved = np.float32([[goal - 0.1], [goal], [goal + 0.1]])
    desired = np.full_like(achieved, goal)
    assert env.compute_reward(achieved, desired, {}).tolist() == [-1.0, 0.0, 0.0]
    assert env.compute_terminated(achieved, desired, {}).tolist() == [False, True, True]
    for action in np.random.default_rng(1).integers(0, 3, 50):
        obs, reward, terminated, _, info = env.step(int(action))
        assert reward == env.compute_reward(obs["achieved_goal"], obs["desired_goal"], {})
        assert terminated == env.compute_terminated(obs["achieved_goal"], obs["desired_goal"], {})
        assert info["is_success"] == terminated == (reward == 0)


def test_the_goal_of_mountain_car_is_its_flag_and_that_of_acrobot_its_line():
    car, plain = GoalMountainCar(), gym.make("MountainCar-v0").unwrapped
    plain.reset(seed=0), car.reset(seed=0)
    for position, over in ((0.45, False), (0.499, True)):  # from there, a step of .07 passes the flag
        for env in (car, plain):
            env.state = np.array([position, 0.0 if not over else 0.06])
        assert car.step(2)[2] == plain.step(2)[2] == over
    acrobot, plain = GoalAcrobot(), gym.make("Acrobot-v1").unwrapped
    acrobot.reset(seed=0), plain.reset(seed=0)
    for angle, over in ((1.0, False), (3.1, True)):
        for env in (acrobot, plain):
            env.state = np.array([angle, 0.0, 0.0, 0.0])
        assert acrobot.step(1)[2] == plain.step(1)[2] == over


def test_pixels_have_their_channels_first():
    env = make("MinAtar/Seaquest-v0")
    obs, _ = env.reset(seed=0)
    assert obs.shape == (10, 10, 10) == env.observation_space.shape and obs.dtype == bool
    assert np.array_equal(obs, env.unwrapped.game.state().transpose(2, 0, 1))


def test_another_generator_changes_the_random_numbers_of_the_game():
    played = []
    for seed in (1, 1, 2):
        env = make("MinAtar/Asterix-v0")
        env.reset(seed=0)
        env.np_random = np.random.default_rng(seed)
        played.append(np.concatenate(list(map(np.ravel, play(env, [2] * 60)))).tolist())
    assert played[0] == played[1] != played[2]
