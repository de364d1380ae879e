from __future__ import annotations

import sys

import gymnasium as gym
import pytest

from interreplay.environments import robotics
from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError


@pytest.mark.parametrize("name", ["InvertedPendulum-v5", "InvertedPendulum-v4", "Pendulum-v1", "CartPole-v1"])
def test_what_can_be_made_stays_as_it_is(name):
    found = find_environment(name)
    assert (found.name, found.note) == (name, "")
    assert found.observation_space.shape == gym.make(name).observation_space.shape


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("InvertedPendulum-v2", "InvertedPendulum-v5"),
        ("HalfCheetah-v2", "HalfCheetah-v5"),
        ("HalfCheetah-v3", "HalfCheetah-v5"),
        ("HalfCheetah-v1", "HalfCheetah-v5"),
        ("Pendulum-v0", "Pendulum-v1"),
        ("Hopper", "Hopper-v5"),
        ("FetchReach-v1", "FetchReach-v4"),
        ("FetchReach-v2", "FetchReach-v4"),
        ("FetchPush", "FetchPush-v4"),
        ("PointMaze_UMaze-v1", "PointMaze_UMaze-v3"),
    ],
)
def test_retired_ids_mean_the_newest_version(asked, name):
    found = find_environment(asked)
    assert found.name == name
    assert found.note.startswith(asked)
    assert name in found.note
    assert "\n" not in found.note


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("HalfCheeta-v5", "HalfCheetah-v5"),
        ("halfcheetah-v5", "HalfCheetah-v5"),
        ("HalfCheetah-v9", "HalfCheetah-v5"),
        ("HalfCheetah_v5", "HalfCheetah-v5"),
        ("Zzzzzz-v0", "pprint_registry"),
        ("no_such_module:Env-v0", "'no_such_module'"),
        ("antigravity:Fly-v0", "a module of Python's own"),
        ("not an id!", "Malformed"),
        ("FetchReech-v4", "FetchReach-v4"),
    ],
)
def test_unknown_ids_name_the_nearest(asked, part):
    with pytest.raises(UsageError, match="environment") as caught:
        find_environment(asked)
    assert part in str(caught.value)
    assert repr(asked) in str(caught.value)


@pytest.mark.parametrize("name", ["FetchReach-v4", "PointMaze_UMaze-v3"])
def test_robotics_environments_are_known_by_their_ids(name, capfd):
    found = find_environment(name)
    assert (found.name, found.note) == (name, "")
    assert {"achieved_goal", "desired_goal", "observation"} == set(found.observation_space)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", ["FetchReach-v4", "FetchReach-v1", "AntMaze_Open-v5"])
def test_robotics_environments_without_their_package_say_how_to_get_it(name, monkeypatch):
    monkeypatch.setattr(gym, "registry", {k: v for k, v in gym.registry.items() if "Fetch" not in k and "Ant" not in k})
    monkeypatch.setattr(robotics.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=f"'{name}' needs a package; install it with: pip install 'interr"):
        find_environment(name)


def test_a_module_before_the_colon_is_imported(tmp_path, monkeypatch):
    (tmp_path / "my_envs_for_a_test.py").write_text(
        "import gymnasium as gym\n"
        "from gymnasium.envs.classic_control import PendulumEnv\n"
        "gym.register('Mine-v0', entry_point=PendulumEnv)\n"
        "gym.register('Mine-v1', entry_point=PendulumEnv)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert find_environment("my_envs_for_a_test:Mine-v0").name == "my_envs_for_a_test:Mine-v0"
    assert find_environment("my_envs_for_a_test:Mine").name == "my_envs_for_a_test:Mine-v1"
    sys.modules.pop("my_envs_for_a_test")
    for name in ("Mine-v0", "Mine-v1"):
        del gym.registry[name]


@pytest.mark.parametrize("asked", ["HalfCheetah-v2", "Hopper-v3"])
def test_retired_versions_stay_retired_beside_environments_with_goals(asked):
    find_environment("FetchReach-v4")
    found = find_environment(asked)
    assert found.name == f"{asked[:-3]}-v5" and "retired" in found.note
