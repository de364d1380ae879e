"""Atari games: frames, rewards, lives and randomness compared with the emulator, ids, and saved games."""

from collections import Counter

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from interreplay.environments.atari import FIRE, KEY, REWARD_CLIPPINGS, Atari
from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError
from interreplay.rllib.env_runner.runner_state import can_save, restore_env, save_env
from interreplay.rllib.env_runner.stepping import has_time_limit
from tests.environments.test_small_environments import equal, make, play


class Recorded:
    """Emulator that records its actions."""

    def __init__(self, emulator):
        self.emulator, self.acted = emulator, []

    def act(self, action):
        self.acted.append(action)
        return self.emulator.act(action)

    def __getattr__(self, name):
        return getattr(self.emulator, name)


def emulator_of(game):
    """Return an emulator created without this package."""
    import ale_py
    from ale_py.roms import get_rom_path

    emulator = ale_py.ALEInterface()
    emulator.setInt("random_seed", 0)
    emulator.setFloat("repeat_action_probability", 0.0)
    emulator.loadROM(get_rom_path(game))
    return emulator


@pytest.mark.slow
def test_frames_rewards_and_lives_are_those_of_the_emulator():
    """Four frames per action, the maximum of the last two resized, stacks of four, no-ops and FIRE at the start."""
    import cv2

    env, plain = Atari("breakout", sticky=0.0), emulator_of("breakout")
    env.reset(seed=0)
    env.emulator = Recorded(emulator_of("breakout"))
    obs, _ = env.reset()
    begun = env.emulator.acted
    assert begun[-1] == FIRE and set(begun[:-1]) == {0} and 1 <= len(begun) - 1 <= 30
    plain.reset_game()
    for action in begun:
        plain.act(action)
    small = lambda screen: cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
    stack = [small(plain.getScreenGrayscale())] * 4
    assert np.array_equal(obs, np.stack(stack))
    ends = 0
    for action in np.random.default_rng(0).integers(0, 4, 400):
        lives, rewards, screens = plain.lives(), [], []
        for _ in range(4):
            rewards.append(plain.act([0, 1, 3, 4][action]))
            screens.append(plain.getScreenGrayscale())
        obs, reward, terminated, truncated, info = env.step(action)
        stack = [*stack[1:], small(np.maximum(screens[2], screens[3]))]
        assert reward == sum(rewards) and (terminated, truncated) == (plain.game_over(), False)
        assert obs.dtype == np.uint8 and (terminated or np.array_equal(obs, np.stack(stack)))
        lost = plain.lives() < lives
        assert info[KEY] == (np.sign(reward), lost, reward, terminated) and info["lives"] == plain.lives()
        ends += lost
        if terminated:
            break
    assert ends >= 3, "lives were lost, and the game continued"


def test_lost_lives_do_not_terminate_on_request():
    env = Atari("breakout", lives_terminate=False)
    env.reset(seed=0)
    lives, seen = 5, False
    for _ in range(400):
        _, _, terminated, _, info = env.step(FIRE)
        seen |= info["lives"] < lives
        assert info[KEY][1] == terminated
        if terminated:
            break
    assert seen and terminated and info["lives"] == 0


@pytest.mark.slow
def test_sticky_actions_repeat_a_frame_in_four():
    env = Atari("freeway")  # its games last 2,048 steps
    env.reset(seed=1)
    env.emulator = Recorded(env.emulator)
    chosen = [n % 2 for n in range(1000)]  # each differs from the one before
    for action in chosen:
        env.step(action)
    chosen = [env.actions[action] for action in chosen]
    frames = np.array(env.emulator.acted).reshape(-1, 4)
    kept = (frames[:, 0] != np.array(chosen)).mean()
    # A first frame may repeat the action of the previous step's last frame, which differs except for (1/4)^4 of them.
    assert kept == pytest.approx(0.25, abs=0.05)
    settled = frames[frames[:, 0] == np.array(chosen)]
    assert (settled == settled[:, :1]).all(), "an action that was taken up stays"


@pytest.mark.slow
def test_games_begin_with_no_ops_and_fire_if_it_is_an_action():
    env = Atari("freeway", sticky=0.0, noops=6)
    env.reset(seed=0)
    env.emulator = Recorded(env.emulator)
    counts = Counter()
    for _ in range(80):
        env.emulator.acted.clear()
        env.reset()
        assert set(env.emulator.acted) == {0}, "freeway has no FIRE"
        counts[len(env.emulator.acted)] += 1
    assert set(counts) == set(range(1, 7))
    still = Atari("freeway", noops=0)
    still.reset(seed=0)
    still.emulator = Recorded(still.emulator)
    still.reset()
    assert still.emulator.acted == []


def test_a_long_game_is_cut_off_not_over():
    env = Atari("pong", max_frames=200, noops=0, fire_reset=False)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(50)]
    assert ends == [(False, False)] * 49 + [(False, True)]
    assert has_time_limit(env), "no evaluation cuts it earlier"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sign", [-1, -1, 0, 1, 1]),
        ("clamp", [-1, -0.5, 0, 0.5, 1]),
        ("soft_asymmetric", [0.3 * np.tanh(-7), 0.3 * np.tanh(-0.5), 0, 5 * np.tanh(0.5), 5 * np.tanh(7)]),
        ("none", [-7, -0.5, 0, 0.5, 7]),
    ],
)
def test_four_clippings(name, expected):
    clip = REWARD_CLIPPINGS[name]
    assert [clip(reward) for reward in (-7, -0.5, 0, 0.5, 7)] == pytest.approx(expected)
    assert Atari("pong", reward_clipping=name)._clip is clip
    assert name != "none" or Atari("pong", reward_clipping=None)._clip is clip, "in flags and files"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ALE/Breakout-v5", "SeaquestNoFrameskip-v4"])
def test_games_follow_their_seed_and_state(name):
    env, other = make(name), make(name)
    check_env(env.unwrapped, skip_render_check=True)
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 400).tolist()
    assert equal(play(env, actions[:60], 3), play(other, actions[:60], 3))
    assert not equal(play(env, actions[:60], 3), play(other, actions[:60], 4))
    play(env, actions[:63], 8)  # in mid-game
    assert can_save(env)
    saved = save_env(env)
    play(other, actions[5:40], 99)
    restore_env(other, saved)
    assert equal(play(env, actions), play(other, actions)), "through lives and games"


@pytest.mark.slow
def test_ids():
    def unwrapped(name, **arguments):
        return make(name, **arguments).unwrapped

    pong = find_environment("ALE/Pong-v5")
    assert pong.observation_space == gym.spaces.Box(0, 255, (4, 84, 84), np.uint8) and pong.stacks == ("",)
    assert pong.action_space.n == 6 and pong.note == ""
    assert find_environment("ALE/Pong-v5", {"full_action_space": True}).action_space.n == 18
    assert [unwrapped(f"{name}").sticky for name in ("ALE/Pong-v5", "PongNoFrameskip-v4")] == [0.25, 0.0]
    assert unwrapped("SpaceInvadersNoFrameskip-v4").game == unwrapped("ALE/SpaceInvaders-v5").game == "space_invaders"
    assert find_environment("ALE/Pong").name == "ALE/Pong-v5"
    with pytest.raises(UsageError, match="did you mean ALE/Pong-v5"):
        find_environment("ALE/Pung-v5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward_clipping": "soft"}, "reward_clipping is 'soft'; expected sign, clamp, soft_asymmetric, none"),
        ({"sticky": 1.5}, "sticky is 1.5; expected a number from 0 and below 1"),
        ({"sticky": "often"}, "sticky is 'often'; expected a number from 0 and below 1"),
        ({"frame_stack": 0}, "frame_stack is 0; expected an integer of 1 or more"),
        ({"lives_terminate": "no"}, "lives_terminate is 'no'; expected true or false"),
        ({"lives": 3}, "no argument 'lives'; did you mean lives_terminate?"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(UsageError) as caught:
        find_environment("ALE/Pong-v5", arguments)
    assert message in str(caught.value) and "\n" not in str(caught.value)
