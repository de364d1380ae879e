"""Checkpoints store plain data, and loading one from elsewhere does not execute code."""

import json
import os
import pickle
import shutil
import sys
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.classic_control.pendulum import PendulumEnv
from ray.rllib.algorithms.callbacks import DefaultCallbacks
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import enjoy
from interreplay import rllib
from interreplay.environments.wrapped import NAME
from interreplay.errors import CheckpointError, UsageError
from interreplay.experiments.evaluation.play import watch
from interreplay.rllib import SAC, TD3
from interreplay.rllib.algorithms.module import OffPolicyModule
from interreplay.runs import state_files
from interreplay.runs.state_files import manifest
from tests.rllib.small_runs import config, same, trained, weights

CODE = "subprocess.getoutput"


class Evil:
    """Creates a file when it is unpickled."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


class Callbacks(DefaultCallbacks):
    """Callbacks of a user."""


class Other(PendulumEnv):
    """Environment of a user."""


class Arms(PendulumEnv):
    """Environment with arguments named as those of an exploration in a checkpoint."""

    def __init__(self, type, attributes, render_mode=None):
        super().__init__(render_mode)


gym.register("Arms-v0", Arms)


class Module(OffPolicyModule):
    """Networks of a user, with parameters of the usual shapes."""

    def encode(self, obs):
        return 0.5 * super().encode(obs)


def reseal(checkpoint: Path) -> None:
    """Write the manifest again, as an attacker could."""
    (checkpoint / manifest.MANIFEST).unlink(missing_ok=True)
    manifest.seal(checkpoint)


def configured(checkpoint: Path, **settings) -> None:
    """Change the configuration in a checkpoint."""
    state = state_files.load(checkpoint)
    state["settings"] |= {name: {"setting": value} for name, value in settings.items()}
    state_files.save(checkpoint, state)
    reseal(checkpoint)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "checkpoint_000001"
    trained(config(buffer="NMER")).save_to_path(folder)
    return folder


@pytest.fixture
def checkpoint(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "checkpoint_000001"))


@pytest.fixture
def ran(tmp_path):
    return tmp_path / "ran"


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stock") / "checkpoint_000001"
    made = PPOConfig().environment("CartPole-v1").training(train_batch_size=64, minibatch_size=32)
    made.env_runners(num_env_runners=0).debugging(seed=3).build_algo().save_to_path(folder)
    return folder


def test_a_checkpoint_is_a_few_files_without_pickles(made):
    names = {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}
    arrays = {"state.json", "arrays.safetensors", "policy/state.json", "policy/arrays.safetensors"}
    assert names == {"checkpoint.json", "manifest.json"} | arrays
    for path in made.rglob("*.json"):
        json.loads(path.read_text())


def test_an_additional_pickle_is_rejected(checkpoint, ran):
    (checkpoint / "algorithm_state.pkl").write_bytes(pickle.dumps(Evil(ran)))
    with pytest.raises(CheckpointError, match=r"algorithm_state\.pkl is not listed"):
        SAC.from_checkpoint(checkpoint)
    reseal(checkpoint)
    SAC.from_checkpoint(checkpoint)
    assert not ran.exists(), "listed or not, it is never read"


NAMES_CODE = {
    "callbacks_class": CODE,
    "callbacks_on_algorithm_init": CODE,
    "env_runner_cls": CODE,
    "sample_collector": CODE,
    "input_": CODE,
    "output": "/somewhere/else",
    "exploration_config": {"type": CODE},
    "evaluation_config": {"callbacks_class": CODE},
    "_env_to_module_connector": CODE,
    "extra_python_environs_for_driver": {"PYTHONPATH": "/somewhere"},
}


@pytest.mark.parametrize("name", NAMES_CODE)
def test_settings_that_could_execute_code_are_rejected_by_name(name, checkpoint):
    configured(checkpoint, **{name: NAMES_CODE[name]})
    for act in (SAC.from_checkpoint, watch):
        with pytest.raises(CheckpointError, match=f"sets {name} to .*, which could execute code"):
            act(checkpoint)


def test_a_replay_buffer_that_names_code_is_an_unknown_method(checkpoint, ran):
    configured(checkpoint, replay_buffer_config={"type": CODE, "cmd": f"touch {ran}"})
    with pytest.raises(ValueError, match="subprocess.getoutput"):
        SAC.from_checkpoint(checkpoint)
    assert not ran.exists()


def test_environments_that_name_code_are_rejected(checkpoint, ran, capsys):
    for env, message in {
        CODE: "is not registered with Gymnasium",
        "antigravity:Fly-v0": "names a module of the standard library",
        "no_such_module:Env-v0": "no module named 'no_such_module'",
    }.items():
        configured(checkpoint, env=env, env_config={"cmd": f"touch {ran}"})
        assert enjoy.main([str(checkpoint), "--episodes", "1"]) == 2
        error = capsys.readouterr().err
        assert message in error.replace("No module", "no module") and error.count("\n") == 1
    assert not ran.exists()


def test_code_in_the_folder_of_a_run_is_not_imported(checkpoint, ran, tmp_path, monkeypatch, capsys):
    run = tmp_path / "results" / "run"
    shutil.copytree(checkpoint, run / "checkpoint_00000100")
    (run / "payload.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    around = {"env": "Pendulum-v1", "arguments": {}, "around": [{"type": "results.run.payload:W"}]}
    for change in ({"env": "results.run.payload:Env-v0"}, {"env_config": around}):
        configured(run / "checkpoint_00000100", **({"env": NAME} | change))
        assert enjoy.main([str(run), "--episodes", "1"]) == 2
        assert "is the folder of a run, from which no code is imported" in capsys.readouterr().err
        with pytest.raises(UsageError, match="is the folder of a run, from which no code is imported"):
            SAC.from_checkpoint(run / "checkpoint_00000100")
    assert not ran.exists()


def test_other_classes_are_rejected(checkpoint):
    path = checkpoint / "checkpoint.json"
    for name, message in {
        "subprocess:Popen": "names a module of the standard library",
        "interreplay.rllib.nowhere:SACConfig": "cannot be imported",
        "interreplay.rllib:SAC": "expected a configuration of an algorithm",
    }.items():
        path.write_text(json.dumps(json.loads(path.read_text()) | {"class": name}))
        reseal(checkpoint)
        with pytest.raises((CheckpointError, UsageError), match=message):
            SAC.from_checkpoint(checkpoint)


PASSED_AGAIN = {
    "callbacks_class": lambda: config().callbacks(Callbacks),
    "evaluation_config": lambda: config().evaluation(evaluation_interval=1, evaluation_config={"env": Other}),
    "_rl_module_spec": lambda: config().rl_module(rl_module_spec=RLModuleSpec(module_class=Module)),
    "env": lambda: config(lambda context: Other()),
}


@pytest.mark.parametrize("name", PASSED_AGAIN)
def test_settings_that_are_not_plain_data_are_passed_again(name, tmp_path):
    algorithm = PASSED_AGAIN[name]().build_algo()
    algorithm.save_to_path(tmp_path / "c")
    with pytest.raises(CheckpointError, match=rf"does not store {name}, .*from_checkpoint\(path, config="):
        SAC.from_checkpoint(tmp_path / "c")
    again = SAC.from_checkpoint(tmp_path / "c", config=PASSED_AGAIN[name]().debugging(seed=1))
    assert same(weights(algorithm), weights(again))
    assert type(again.learner.single_module) is type(algorithm.learner.single_module)
    assert again.config.callbacks_class is algorithm.config.callbacks_class
    if name == "callbacks_class":
        assert len(watch(tmp_path / "c", episodes=1, seed=1).episodes) == 1, "acting needs no callbacks"
    elif name == "_rl_module_spec":
        with pytest.raises(CheckpointError, match="does not store its RLModule, which is a class of your own"):
            watch(tmp_path / "c", episodes=1, seed=1)


def test_callbacks_of_evaluations_are_left_out(tmp_path):
    made = config().evaluation(evaluation_interval=1, evaluation_config={"callbacks_on_episode_step": print})
    made.build_algo().save_to_path(tmp_path / "c")
    restored = SAC.from_checkpoint(tmp_path / "c")
    assert restored.config.evaluation_config == {"explore": False, "num_envs_per_env_runner": 1}


def test_arguments_of_an_environment_may_have_any_names(tmp_path):
    made = config().environment(f"{Arms.__module__}:Arms-v0", env_config={"type": "long", "attributes": {"joints": 3}})
    made.build_algo().save_to_path(tmp_path / "c")
    assert SAC.from_checkpoint(tmp_path / "c").config.env_config == {"type": "long", "attributes": {"joints": 3}}


@pytest.mark.slow
def test_checkpoints_of_rllibs_own_algorithms_require_trust(stock, capsys):
    assert enjoy.main([str(stock), "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert "--trust_checkpoint loads it" in error and error.count("\n") == 1
    assert enjoy.main([str(stock), "--episodes", "1", "--trust_checkpoint"]) == 0


# -- from Python ----------------------------------------------------------------------------------


def test_from_checkpoint_of_another_algorithm(made):
    with pytest.raises(ValueError, match="expected TD3"):
        TD3.from_checkpoint(made)


def test_a_component_is_restored_alone(made):
    source = SAC.from_checkpoint(made)
    algorithm = config(buffer="NMER", seed=1).build_algo()
    assert not same(weights(source), weights(algorithm))
    algorithm.restore_from_path(made, component="learner_group/learner/rl_module")
    assert same(weights(source), weights(algorithm)) and algorithm.env_steps == 0
    with pytest.raises(CheckpointError, match="cannot be read"):
        algorithm.restore_from_path(made, component="learner_group/nothing")


def test_restored_networks_continue_the_statistics_of_observations(tmp_path):
    source, algorithm = (config(seed=n).training(normalize_observations=True).build_algo() for n in (0, 1))
    source.train()
    source.save_to_path(tmp_path / "c")
    algorithm.restore_from_path(tmp_path / "c", component="learner_group/learner/rl_module")
    encoders = [each.learner.single_module.nets.encoder for each in (source, algorithm)]
    before = encoders[1].moments.count
    algorithm.train()
    assert before == encoders[0].moments.count == 75 and encoders[1].moments.count == 150


@pytest.mark.parametrize(
    ("trainer", "settings"),
    [
        ("SAC", {"actor_lr": [[0, 1e-3], [1000, 1e-4]], "grad_clip": 1.0, "target_entropy": -1, "n_step": 3}),
        ("SAC", {"normalize_observations": True, "lr": 5e-4}),
        ("TD3", {"exploration": {"type": "OrnsteinUhlenbeck", "sigma": 0.3}, "huber_delta": 1.0}),
        ("DDPG", {"actor_l2": 1e-3}),
    ],
)
def test_every_setting_is_restored(trainer, settings, tmp_path):
    algorithm = config(trainer=trainer).training(**settings).build_algo()
    again = getattr(rllib, trainer).from_checkpoint(algorithm.save_to_path(tmp_path / "c"))
    explorations = [each.config.exploration for each in (algorithm, again)]
    assert len({(type(each), getattr(each, "sigma", None)) for each in explorations}) == 1
    for name in {*algorithm.config.own_settings(), "lr", "given_rates"} - {"exploration"}:
        assert getattr(again.config, name) == getattr(algorithm.config, name), name
