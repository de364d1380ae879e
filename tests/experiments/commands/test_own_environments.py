"""The example of user-defined environments in an empty folder of a user, with wrappers from flags."""

import json
import re
import shlex
import sys
from collections import deque
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from interreplay.environments import registration
from interreplay.environments.lookup import find_environment
from interreplay.environments.relabeled import WRAPPER
from interreplay.environments.wrapped import NAME, make, make_id
from interreplay.errors import InterreplayWarning, UsageError
from interreplay.experiments.commands import evaluate, train
from interreplay.experiments.commands.study import read_new
from interreplay.experiments.commands.study_checks import check
from interreplay.experiments.flags.run_flags import environment_config
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings, settings_resumed
from interreplay.experiments.studies.grid import convert_settings
from interreplay.experiments.studies.results_table import as_command
from interreplay.rllib.env_runner.runner_state import can_save, restore_env, save_env, save_envs
from tests.experiments.commands.command_lines import rejects, settings, users_folder

ROOT = Path(__file__).resolve().parents[3]
TINY = (
    "--total_env_steps 120 --learning_starts 60 --train_batch_size 16 --buffer_size 500 --hiddens 16,16 "
    "--evaluation_num_episodes 1 --steps_per_iteration 60 --checkpoint_freq 1 --quiet"
).split()
SCALED = {"type": "my_envs:ScaledReward", "factor": 0.5}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Use a current folder that contains only my_envs.py."""
    known = set(gym.registry)
    example = ROOT / "examples" / "own_environment" / "my_envs.py"
    yield from users_folder(tmp_path, monkeypatch, my_envs=example.read_text())
    for name in gym.registry.keys() - known:
        if callable(gym.registry[name].entry_point):  # environments of packages are registered only once
            del gym.registry[name]


def commands() -> list[list[str]]:
    """Return the commands on the page without the program's name."""
    page = (ROOT / "docs" / "own-environment.md").read_text().replace("\\\n", " ")
    return [line.split()[1:] for line in re.findall(r"^interreplay .*$", page, re.MULTILINE)]


def test_the_examples_keep_gymnasium_s_rules(folder):
    for name in ("PointRoom-v0", "PointGoal-v0", "PointCamera-v0"):
        assert find_environment(f"my_envs:{name}").name == f"my_envs:{name}"
        check_env(gym.make(name, render_mode="rgb_array").unwrapped)
    env = gym.make("PointGoal-v0").unwrapped
    goals = np.zeros((5, 2), np.float32)
    assert env.compute_reward(goals, goals + 1, {}).tolist() == [-1.0] * 5


def test_flags_become_settings(folder):
    words = "--env my_envs:PointRoom-v0 --env_kwargs wind=.05 --wrapper my_envs:ScaledReward factor=.5 --frame_stack 2"
    words += " --wrapper gymnasium.wrappers:ClipReward min_reward=-1 --max_episode_steps=30"
    found = settings(*words.split())
    clip = {"type": "gymnasium.wrappers:ClipReward", "min_reward": -1}
    assert (found.env_args, found.frame_stack, found.horizon) == ({"wind": 0.05}, 2, 30)
    assert json.loads(json.dumps(found.wrapper)) == [SCALED, clip]
    name, arguments = environment_config(vars(found))
    assert name == NAME and arguments["arguments"] == {"wind": 0.05, "max_episode_steps": 30}
    plain = settings("--env", "my_envs:PointRoom-v0", "--env_args", "wind=1", "--env_kwargs", "render_mode=none")
    assert plain.env_args == {"wind": 1, "render_mode": None}
    assert environment_config(vars(plain)) == ("my_envs:PointRoom-v0", plain.env_args)


def test_files_and_studies_accept_the_same_settings(folder):
    (folder / "mine.yaml").write_text(
        "env: my_envs:PointRoom-v0\nenv_args: {wind: 0.05}\nframe_stack: 2\n"
        "wrapper: [my_envs:ScaledReward factor=.5, {gymnasium.wrappers:ClipReward: {min_reward: -1}}]\n"
    )
    found = settings("--config", "mine.yaml")
    assert found.wrapper == [SCALED, {"type": "gymnasium.wrappers:ClipReward", "min_reward": -1}]
    converted = convert_settings({"wrapper": [SCALED, "my_envs:ScaledReward"]})
    assert converted["wrapper"] == [SCALED, {"type": "my_envs:ScaledReward"}]


def test_a_study_makes_environments_with_their_arguments(folder):
    (folder / "my_strict_envs.py").write_text(
        "import gymnasium as gym\nfrom my_envs import Point\n"
        "class Windy(Point):\n    def __init__(self, gusts, render_mode=None):\n        super().__init__(gusts)\n"
        "gym.register('PointWindy-v0', entry_point=Windy, max_episode_steps=9)\n"
    )
    settings_of_runs = "settings: {env_args: {gusts: 0.1}, wrapper: [my_envs:ScaledReward]}\n"
    (folder / "mine.yaml").write_text(f"envs: [my_strict_envs:PointWindy-v0]\n{settings_of_runs}")
    study, _ = read_new({"study": "mine.yaml"})
    check(study, range(len(study.runs)), here=True)
    (run,) = study.runs
    found = resolve_settings(run.given())
    assert (found.env_args, found.wrapper) == ({"gusts": 0.1}, [{"type": "my_envs:ScaledReward"}])
    words = shlex.split(as_command(run))[2:]
    assert settings(*words).wrapper == found.wrapper and settings(*words).env_args == found.env_args
    (folder / "mine.yaml").write_text("envs: [my_strict_envs:PointWindy-v0]\n")
    with pytest.raises(UsageError, match="cannot be created: TypeError.*gusts"):
        read_new({"study": "mine.yaml"})


def test_a_run_with_wrappers_and_relabeled_rewards_resumes_by_its_command(folder):
    (folder / "my_rewards.py").write_text("def reward(*rows, reward, **columns):\n    return reward\n")
    words = "--env my_envs:PointRoom-v0 --wrapper my_envs:ScaledReward factor=.5 --relabel my_rewards:reward".split()
    saved = vars(settings(*words))
    assert [wrapper["type"] for wrapper in saved["wrapper"]] == ["my_envs:ScaledReward", WRAPPER]
    assert vars(settings_resumed(saved, make_parser().given(words))) == saved
    words[words.index("factor=.5")] = "factor=.6"
    with pytest.raises(UsageError, match="made with wrapper .*0.5.*, not .*0.6"):
        settings_resumed(saved, make_parser().given(words))
    sys.modules.pop("my_rewards", None)


def test_wrappers_go_around_in_order_and_stacks_around_them(folder):
    find_environment("my_envs:PointCamera-v0")
    name, arguments = make_id("my_envs:PointCamera-v0", {"wind": 0.0}, [SCALED, SCALED], 3)
    registration.register(name)
    env = gym.make(name, **arguments)
    first, _ = env.reset(seed=3)
    assert first.shape == (3, 48, 48, 3) and np.array_equal(first[0], first[2])
    plain = gym.make("PointCamera-v0", wind=0.0)
    alone, _ = plain.reset(seed=3)
    assert np.array_equal(first[2], alone)
    frames = [alone]
    for _ in range(4):
        action = env.action_space.sample()
        seen, reward, *_ = env.step(action)
        alone, whole, *_ = plain.step(action)
        frames.append(alone)
        assert reward == pytest.approx(0.25 * whole)
    assert np.array_equal(seen, np.stack(frames[-3:]))
    assert find_environment("my_envs:PointCamera-v0", {}, [SCALED], 3).stacks == ("",)


class Remembering(gym.Env):
    """Observes the memory of a simulator, a view in a deque, which only methods of the environment can save."""

    action_space = gym.spaces.Box(-1, 1, (1,))
    observation_space = gym.spaces.Box(-9, 9, (1,))

    def __init__(self):
        self.simulator = deque([np.zeros(1, np.float32)])
        self.memory = self.simulator[0][:]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.memory[:] = 0.0
        return self.memory.copy(), {}

    def step(self, action):
        self.memory += np.float32(action[0] + self.np_random.normal())
        return self.memory.copy(), 0.0, False, False, {}


class SavedOnly(Remembering):
    def save_state(self):
        return {"memory": self.memory.copy()}


class Saved(SavedOnly):
    def restore_state(self, state):
        self.memory[:] = state["memory"]


class SavedWithASet(Saved):
    def save_state(self):
        return {"recent": {1}}


def test_stacks_and_environments_with_methods_to_save_their_state_continue_within_an_episode():
    for made in ([make("Pendulum-v1", {}, [], 3) for _ in range(2)], [Saved(), Saved()]):
        for env, seed in zip(made, (1, 2), strict=True):
            env.reset(seed=seed)
        for _ in range(4):
            made[0].step(np.array([0.5]))
        assert all(map(can_save, made))
        restore_env(made[1], save_env(made[0]))
        one, other = (env.step(np.array([-0.3]))[0] for env in made)
        assert np.array_equal(one, other)
    assert made[1].simulator[0] == made[0].simulator[0], "what its methods save is not replaced"
    assert not can_save(Remembering()) and not can_save(SavedOnly())


def test_a_state_that_a_checkpoint_cannot_contain_is_left_out_with_a_warning():
    env = SavedWithASet()
    env.reset(seed=0)
    with pytest.warns(InterreplayWarning, match="state of SavedWithASet cannot be saved: .*recent is a set; expected"):
        assert save_envs([env]) is None


WRONG = {
    "--wrapper my_envs:ScaledReward factr=2": ["'factr'", "did you mean factor? accepted: factor"],
    "--wrapper ClipReward": ["expected module:Class", "gymnasium.wrappers:ClipReward"],
    "--wrapper gymnasium.wrappers:ResizeObservation shape=[8,8]": ["ResizeObservation cannot be created"],
    "--env my_envs:PointGoal-v0 --buffer HER --frame_stack 2": ["goals would be stacked", "HER requires 1"],
    "--env my_envs:PointCamera-v0 --buffer NMER": ["uint8"],
    "--env_kwargs wnd=2": ["no argument 'wnd'", "did you mean wind?"],
    "--env my_envs:PointRom-v0": ["unknown environment", "did you mean PointRoom-v0?"],
    "--env my_envs:Nope-v0": ["unknown environment 'my_envs:Nope-v0'; accepted: Point", "PointCamera-v0"],
}


def test_errors_are_one_line_and_nothing_is_written(folder, capsys):
    for words, parts in WRONG.items():
        given = words.split() if "--env " in words else ["--env", "my_envs:PointRoom-v0", *words.split()]
        rejects(capsys, train.main, [*TINY, *given], *parts)
        assert not (folder / "results").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("words", [words for words in commands() if words[0] == "train"], ids=" ".join)
def test_the_commands_of_the_page_train(folder, words, capsys):
    assert train.main([*words[1:], *TINY]) == 0
    (home,) = (folder / "results").iterdir()
    assert re.search(r"Point\w+-v0", home.name)
    assert evaluate.main([str(home), "--episodes", "1"]) == 0
    assert "1 episode: return" in capsys.readouterr().out
