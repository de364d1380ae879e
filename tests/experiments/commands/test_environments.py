import os
import sys

import gymnasium as gym
import pytest

from interreplay.environments import registration
from interreplay.environments.lookup import find_environment
from interreplay.environments.own_modules import LAST, search_last
from interreplay.errors import UsageError


def test_available_environments_are_unchanged():
    for name in ("InvertedPendulum-v5", "InvertedPendulum-v4", "Pendulum-v1", "CartPole-v1"):
        found = find_environment(name)
        assert (found.name, found.note) == (name, "")
        assert found.observation_space.shape == gym.make(name).observation_space.shape


RETIRED = {
    "InvertedPendulum-v2": "InvertedPendulum-v5",
    "HalfCheetah-v3": "HalfCheetah-v5",
    "HalfCheetah-v1": "HalfCheetah-v5",
    "Pendulum-v0": "Pendulum-v1",
    "Hopper": "Hopper-v5",
    "FetchReach-v1": "FetchReach-v4",
    "FetchPush": "FetchPush-v4",
    "PointMaze_UMaze-v1": "PointMaze_UMaze-v3",
}
NEAREST = {
    "HalfCheeta-v5": "HalfCheetah-v5",
    "halfcheetah-v5": "HalfCheetah-v5",
    "HalfCheetah-v9": "HalfCheetah-v5",
    "HalfCheetah_v5": "HalfCheetah-v5",
    "Zzzzzz-v0": "pprint_registry",
    "antigravity:Fly-v0": "a module of the standard library",
    "not an id!": "Malformed",
    "FetchReech-v4": "FetchReach-v4",
}


def test_retired_ids_mean_the_newest_version():
    for requested, name in RETIRED.items():
        found = find_environment(requested)
        assert found.name == name
        assert found.note.startswith(requested) and name in found.note and "\n" not in found.note


def test_unknown_ids_name_the_nearest():
    for requested, part in NEAREST.items():
        with pytest.raises(UsageError, match="environment") as caught:
            find_environment(requested)
        assert part in str(caught.value) and repr(requested) in str(caught.value)


def test_a_wrapper_without_a_type_is_rejected():
    with pytest.raises(UsageError, match="wrapper '': expected module:Class, such as gymnasium.wrappers:ClipReward"):
        find_environment("CartPole-v1", wrappers=[{"min_reward": 0}])


@pytest.mark.parametrize("name", ["FetchReach-v4", "PointMaze_UMaze-v3"])
def test_robotics_environments_are_known_by_their_ids(name, capfd):
    found = find_environment(name)
    assert (found.name, found.note) == (name, "")
    assert {"achieved_goal", "desired_goal", "observation"} == set(found.observation_space)
    assert capfd.readouterr() == ("", "")


EXTRAS = {
    "FetchReach-v4": "robotics",
    "FetchReach-v1": "robotics",
    "AntMaze_Open-v5": "robotics",
    "ALE/Pong-v5": "atari",
    "PongNoFrameskip-v4": "atari",
    "MinAtar/Breakout-v0": "minatar",
    "dm_control/cheetah-run-v0": "dm-control",
}


@pytest.mark.parametrize(("name", "extra"), EXTRAS.items())
def test_a_missing_package_is_reported_with_its_installation(name, extra, monkeypatch):
    monkeypatch.setattr(gym, "registry", {k: v for k, v in gym.registry.items() if "Fetch" not in k and "Ant" not in k})
    monkeypatch.setattr(registration.importlib.util, "find_spec", lambda name: None)
    assert registration.register("CartPole-v1") == ""
    with pytest.raises(UsageError) as caught:
        find_environment(name)
    reason = f"environment {name!r} needs a package; install it with: pip install 'interreplay[{extra}]'"
    assert str(caught.value) == reason


MINE = """
import gymnasium as gym
from gymnasium.envs.classic_control import PendulumEnv
import {imported}

class Broken(PendulumEnv):
    def __init__(self):
        raise RuntimeError("no simulator")

gym.register("MineHere-v0", entry_point=PendulumEnv, max_episode_steps=50)
gym.register("MineHere-v1", entry_point=PendulumEnv)
gym.register("BrokenHere-v0", entry_point=Broken)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Use a current folder with a module of environments, and remove its imports afterwards."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.setattr(sys, "path", [entry for entry in path if entry not in ("", str(tmp_path))])
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    for name in ("MineHere-v0", "MineHere-v1", "BrokenHere-v0"):
        gym.registry.pop(name, None)


def test_modules_of_the_current_folder_are_found_but_hide_no_others(folder):
    (folder / "envs_here.py").write_text(MINE.format(imported="csv"))
    (folder / "yaml.py").write_text("raise RuntimeError('not mine')")
    assert find_environment("envs_here:MineHere-v0").name == "envs_here:MineHere-v0"
    assert sys.path[-1] == str(folder) and sys.path.count(str(folder)) == 1
    assert find_environment("envs_here:MineHere").name == "envs_here:MineHere-v1"
    assert sys.path.count(str(folder)) == 1


WRONG = {
    "envs_nowhere:MineHere-v0": "no module 'envs_nowhere' to import, neither installed nor in the current folder, ",
    "envs_needing:MineHere-v0": "envs_needing imports 'a_missing_package', which is not installed",
    "envs_misspelt:MineHere-v0": "envs_misspelt cannot be imported: SyntaxError",
    "envs_here:BrokenHere-v0": "cannot be created: RuntimeError: no simulator (",
    "../x:Env-v0": "'../x' is not the name of a module; expected a name such as my_envs:Env-v0",
    ":Env-v0": "'' is not the name of a module",
    ".envs_here:Env-v0": "'.envs_here' is not the name of a module",
    "ALE/Pang-v5": "did you mean ALE/Pong-v5",
    "PangNoFrameskip-v4": "did you mean PongNoFrameskip-v4",
    "Cartpole-v1": "did you mean CartPole-v1",
}


def test_unavailable_environments_are_one_line(folder):
    (folder / "envs_here.py").write_text(MINE.format(imported="csv"))
    (folder / "envs_needing.py").write_text(MINE.format(imported="a_missing_package"))
    (folder / "envs_misspelt.py").write_text("import gymnasium as\n")
    for requested, message in WRONG.items():
        with pytest.raises(UsageError) as caught:
            find_environment(requested)
        assert repr(requested) in str(caught.value) and message in " ".join(str(caught.value).split())


MOVED = [("default_worker.py", True, True), ("default_worker.py", False, False), ("mine.py", True, False)]


@pytest.mark.parametrize(("program", "requested", "moved"), MOVED)
def test_in_rays_workers_of_our_commands_the_current_folder_is_last(program, requested, moved, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = os.getcwd()
    monkeypatch.setattr(sys, "argv", [f"bin/{program}"])
    monkeypatch.setattr(sys, "path", [here, "/other"])
    monkeypatch.delenv(LAST, raising=False)
    if requested:
        monkeypatch.setenv(LAST, "1")
    search_last()
    assert sys.path == (["/other", here] if moved else [here, "/other"])


class StuckWhenClosed(gym.Env):
    observation_space = action_space = gym.spaces.Box(-1, 1, (1,))

    def close(self):
        raise RuntimeError("the port is busy")


def test_an_environment_that_fails_to_close_is_accepted():
    gym.register("StuckWhenClosed-v0", StuckWhenClosed)
    assert find_environment("StuckWhenClosed-v0").name == "StuckWhenClosed-v0"
    del gym.registry["StuckWhenClosed-v0"]
