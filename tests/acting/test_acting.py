"""Trained policies act without Ray, in the environment's units, like the algorithm that saved them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from builders import stacked
from torch.utils._pytree import tree_map

import interreplay
import interreplay.rllib as ours
from interreplay.acting.trained_policy import as_batch
from interreplay.environments.spaces import as_column, space_from_record, space_to_record
from interreplay.environments.wrapped import make_id
from interreplay.errors import CheckpointError, UsageError
from interreplay.learning.exploration import Gaussian
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.transitions import as_tensors
from tests.acting.acting_cases import CASES, Uneven, built
from tests.rllib.small_runs import config
from tests.rllib.spaces_envs import KINDS

pytestmark = pytest.mark.usefixtures("cluster")


def expected_actions(algorithm, batch):
    """Return actions by RLlib's own path through the module, rescaled from [-1, 1] as by Gymnasium."""
    tensors = tree_map(lambda part: torch.as_tensor(np.asarray(part)), batch)
    given = algorithm.get_module().forward_inference({"obs": tensors})["actions"].detach().numpy()
    space = algorithm.single_spaces[1]
    if isinstance(space, gym.spaces.Discrete):
        return given
    return space.low + (np.clip(given, -1, 1) + 1) / 2 * (space.high - space.low)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return a function that saves a case: its checkpoint, five observations, and their actions."""
    made = {}

    def of(name):
        if name not in made:
            algorithm = built(*CASES[name])
            algorithm.env_runner.env.reset(seed=1)
            space = algorithm.single_spaces[0]
            space.seed(3)
            single = [space.sample() for _ in range(5)]
            actions = expected_actions(algorithm, stacked(single))
            folder = Path(algorithm.save_to_path(tmp_path_factory.mktemp("of") / "checkpoint_00000040"))
            made[name] = folder, single, actions, algorithm.act(stacked(single)), algorithm.act(single[0])
            algorithm.stop()
        return made[name]

    return of


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_policy_acts_as_its_algorithm(saved, name):
    folder, single, expected, of_algorithm, first = saved(name)
    policy = interreplay.load_policy(folder)
    for actions in (policy.act(stacked(single)), of_algorithm):
        assert actions.dtype == policy.action_space.dtype
        np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-5)
        assert all(policy.action_space.contains(action) for action in actions)
    for action in (policy.act(single[0]), first):
        np.testing.assert_allclose(action, expected[0], rtol=1e-5, atol=1e-5)
        assert policy.action_space.contains(action)
    assert len({*map(str, of_algorithm)}) > 1 or np.ndim(first) == 0  # they are not all the same


WITHOUT_RAY = """
import sys

sys.modules["ray"] = None  # as if it were not installed

import interreplay

policy = interreplay.load_policy(sys.argv[1])
assert policy.action_space.contains(policy.act(policy.observation_space.sample()))
"""


@pytest.mark.slow
def test_a_policy_acts_where_ray_is_not_installed(saved):
    words = [sys.executable, "-c", WITHOUT_RAY, str(saved("SAC")[0])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_a_policy_names_the_environment_inside_wrappers(tmp_path):
    name, arguments = make_id("Pendulum-v1", {}, frame_stack=2)
    algorithm = config("Pendulum-v1").environment(name, env_config=arguments).build_algo()
    policy = interreplay.load_policy(algorithm.save_to_path(tmp_path / "checkpoint"))
    assert policy.about["env"] == "Pendulum-v1" and policy.observation_space.shape == (2, 3)


def test_the_newest_checkpoint_of_a_run_is_taken(saved, tmp_path):
    for i, name in enumerate(("TD3", "SAC")):
        copy = Path(shutil.copytree(saved(name)[0], tmp_path / "run" / f"checkpoint_0000010{i}"))
        os.utime(copy / "checkpoint.json", (i, i))
    policy = interreplay.load_policy(str(tmp_path / "run"))
    assert policy.about["algorithm"] == "SAC" and policy.about["env"] == "Pendulum-v1"
    assert "checkpoint_00000101" in policy.about["checkpoint"]
    assert repr(policy).startswith("TrainedPolicy(SAC Pendulum-v1: Box(")


def test_exploring(saved):
    zeros = np.zeros((200, 3), np.float32)
    sac, again = (interreplay.load_policy(saved("SAC")[0], seed=seed) for seed in (5, np.int64(5)))
    drawn = sac.act(zeros, explore=True)
    assert drawn.std() > 0.1 and np.array_equal(drawn, again.act(zeros, explore=True))
    td3 = saved("TD3")[0]
    with pytest.raises(ValueError, match="expected an exploration, such as"):
        interreplay.load_policy(td3).act(zeros, explore=True)
    noisy = interreplay.load_policy(td3, exploration={"type": "Gaussian", "sigma": 0.05}, seed=0)
    away = noisy.act(zeros, explore=True) - noisy.act(zeros)
    assert away.std() == pytest.approx(2 * 0.05, rel=0.3)  # of a range of 4
    greedy = interreplay.load_policy(saved("DQN")[0], exploration={"type": "EpsilonGreedy", "end": 0.02})
    assert greedy.exploration.epsilon == 0.02, "schedules have ended"
    with pytest.raises(ValueError, match="actions are discrete"):
        interreplay.load_policy(saved("DQN")[0], exploration=Gaussian(0.1))


def test_an_algorithm_explores_as_in_training_and_is_not_changed_by_it():
    config = ours.DQNConfig().environment("CartPole-v1").debugging(seed=0)
    config.training(hiddens=(8,), steps_per_iteration=100, num_steps_sampled_before_learning_starts=1000)
    config.training(epsilon_steps=50, initial_epsilon=1.0, final_epsilon=0.0)
    acting, left_alone = config.copy(copy_frozen=False).build_algo(), config.build_algo()
    zeros = np.zeros((300, 4), np.float32)
    assert len({*acting.act(zeros, explore=True)}) == 2  # epsilon is 1
    assert len({*acting.act(zeros)}) == 1
    one, other = acting.train(), left_alone.train()
    assert one["env_runners"]["episode_return_mean"] == other["env_runners"]["episode_return_mean"]
    assert len({*acting.act(zeros, explore=True)}) == 1  # epsilon is 0
    for algorithm in (acting, left_alone):
        algorithm.stop()


def goals(*shapes):
    names = ("observation", "achieved_goal", "desired_goal")
    return {name: np.zeros(shape) for name, shape in zip(names, shapes, strict=True)}


@pytest.mark.parametrize(
    ("name", "obs", "message"),
    [
        ("SAC", np.zeros((0, 3)), r"the observation has the shape \(0, 3\); expected \(3,\), or \(n, ...\) for"),
        ("SAC", np.zeros(4), r"the observation has the shape \(4,\); expected \(3,\), or \(n, ...\) for several"),
        ("SAC", {"a": 1}, "the observation has the parts 'a'; expected ''"),
        ("SAC", ["a", "b", "c"], "the observation has the type <U1; expected float32"),
        ("SAC", [0.0, np.nan, 0.0], "the observation contains nan; expected finite values"),
        ("goals", {"observation": np.zeros(10)}, "expected 'achieved_goal', 'desired_goal', 'observation'"),
        ("goals", goals((2, 10), (3,), (3,)), "have different numbers of observations"),
        ("goals", goals((2, 10), (2, 3), (3, 3)), "have different numbers of observations"),
        ("Rainbow", {"camera": np.zeros((24, 24), np.float32), "pose": np.zeros(2)}, "'camera' has the type float32"),
    ],
)
def test_invalid_observations_are_rejected(saved, name, obs, message):
    with pytest.raises(ValueError, match=message):
        interreplay.load_policy(saved(name)[0]).act(obs)


def test_observations_may_be_tensors_with_a_gradient():
    parts, single = as_batch(gym.spaces.Box(-1, 1, (2,)), torch.ones(3, 2, requires_grad=True))
    assert not single and np.array_equal(parts[""], np.ones((3, 2)))


def test_parts_of_observations_may_be_empty():
    space = gym.spaces.Dict({"goal": gym.spaces.Box(-1, 1, (0,)), "pose": gym.spaces.Box(-1, 1, (2,))})
    one = {"goal": np.zeros(0), "pose": np.zeros(2)}
    parts, _ = as_batch(space, one)
    assert {name: part.shape for name, part in parts.items()} == {"goal": (1, 0), "pose": (1, 2)}
    parts, single = as_batch(space, {"goal": np.zeros((3, 0)), "pose": np.zeros((3, 2))})
    assert not single and parts["goal"].shape == (3, 0)


@pytest.mark.parametrize(
    ("space", "obs", "expected"),
    [
        (gym.spaces.Box(0, 255, (2,), np.uint8), np.array([0, 256]), "uint8"),
        (gym.spaces.Box(0, 255, (2,), np.uint8), np.array([-1, 3]), "uint8"),
        (gym.spaces.MultiBinary(2), np.array([0, 256]), "int8"),
        (gym.spaces.MultiDiscrete([3, 2]), np.array([3, 0]), "MultiDiscrete"),
        (gym.spaces.MultiDiscrete([3, 2]), np.array([[0, 0], [0, -1]]), "MultiDiscrete"),
    ],
)
def test_integers_that_do_not_fit_the_space_are_rejected(space, obs, expected):
    with pytest.raises(ValueError, match=f"has values from {obs.min()} to {obs.max()}; expected values of {expected}"):
        as_batch(space, obs)
    parts, single = as_batch(space, np.array([[0, 1]]))
    assert not single and parts[""].dtype == space.dtype


def test_flipped_observations_and_foreign_byte_orders_become_tensors():
    flipped = np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1]
    assert as_tensors({"camera": flipped})["camera"].tolist() == flipped.tolist()
    assert as_tensors(as_column(np.ones(2, ">f8"))).dtype == torch.float32


def test_checkpoints_without_a_policy_are_rejected_in_one_line(tmp_path):
    (tmp_path / "rllib_checkpoint.json").write_text("{}")
    with pytest.raises(UsageError, match="of RLlib's own algorithms; RLlib's Algorithm.from_checkpoint"):
        interreplay.load_policy(tmp_path)
    with pytest.raises(UsageError, match="does not exist; give the folder of a checkpoint, or of a run"):
        interreplay.load_policy(tmp_path / "nowhere")


def test_a_damaged_policy_is_not_loaded(saved, tmp_path):
    for number, name in enumerate(("checkpoint.json", "policy/state.json", "policy/arrays.safetensors")):
        copy = Path(shutil.copytree(saved("SAC")[0], tmp_path / str(number)))
        damaged = bytearray((copy / name).read_bytes())
        damaged[-3] ^= 1
        (copy / name).write_bytes(damaged)
        with pytest.raises(CheckpointError, match="damaged|cannot be read"):
            interreplay.load_policy(copy)


class OwnModule(OffPolicyModule):
    def make_networks(self, inputs):
        return super().make_networks(inputs)


class OwnConfig(ours.SACConfig):
    module_class = OwnModule


def test_user_defined_networks_are_named(tmp_path):
    algorithm = OwnConfig().environment("Pendulum-v1").training(hiddens=(8,)).build_algo()
    assert algorithm.act(np.zeros(3)).shape == (1,)
    algorithm.save_to_path(tmp_path / "c")
    algorithm.stop()
    with pytest.raises(UsageError, match=r"defined by .*\.OwnModule, which a checkpoint cannot hold"):
        interreplay.load_policy(tmp_path / "c")


def test_a_kind_of_networks_that_this_version_does_not_know(saved, tmp_path):
    from interreplay.runs.state_files import manifest

    copy = Path(shutil.copytree(saved("SAC")[0], tmp_path / "c"))
    about = json.loads((copy / "checkpoint.json").read_text())
    about["policy"]["architecture"] = "Later"
    (copy / "checkpoint.json").write_text(json.dumps(about))
    manifest.seal(copy)
    with pytest.raises(UsageError, match="architecture 'Later'; this version has SAC, TQC"):
        interreplay.load_policy(copy)


@pytest.mark.parametrize(
    "space",
    [
        *(space for space, _ in KINDS.values()),
        gym.spaces.Box(np.float32([-np.inf, 0.1]), np.float32([1e30, np.inf])),
        gym.spaces.MultiDiscrete([3, 4], start=[1, -2], dtype=np.int32),
        gym.spaces.MultiDiscrete([[3, 4], [1, 2]]),
        Uneven.action_space,
    ],
    ids=str,
)
def test_spaces_as_plain_values(space):
    assert space_from_record(json.loads(json.dumps(space_to_record(space)))) == space


def test_invalid_space_descriptions_are_rejected():
    with pytest.raises(ValueError, match="Text.* cannot be stored; expected Box"):
        space_to_record(gym.spaces.Text(3))
    for record in ({}, {"kind": "Box"}, {"kind": "Bag"}, {"kind": "Dict", "parts": 3}):
        with pytest.raises(ValueError, match="is not a valid space"):
            space_from_record(record)
