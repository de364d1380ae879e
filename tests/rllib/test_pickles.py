"""Checkpoints from elsewhere cannot run anything when they are loaded."""

from __future__ import annotations

import io
import os
import pickle
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from ray import cloudpickle
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.sac import SACConfig as StockConfig
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

import custom_training
import enjoy
from interreplay.errors import CheckpointError, UsageError
from interreplay.rllib import SAC
from interreplay.rllib.checkpoints import safe_pickle
from interreplay.rllib.checkpoints.pickle_nesting import check_nesting
from interreplay.rllib.evaluation.play import PlaybackOptions, watch
from interreplay.runs.state_files import manifest
from tests.rllib.small_runs import config, same, weights

pytestmark = pytest.mark.usefixtures("cluster")

LINE = "--env Pendulum-v1 --total_env_steps 40 --steps_per_iteration 20 --learning_starts 20 --train_batch_size 8"
LINE += " --buffer_size 100 --hiddens 8 --evaluation_interval 0 --quiet"
CODE = "subprocess.getoutput"


class Evil:
    """Writes a file where it is loaded."""

    def __init__(self, target: Path):
        self.target = target

    def __reduce__(self):
        return os.system, (f"touch {self.target}",)


class Calls:
    """Calls a class where it is loaded."""

    def __init__(self, called, *arguments):
        self.called, self.arguments = called, arguments

    def __reduce__(self):
        return self.called, self.arguments


def reseal(checkpoint: Path) -> None:
    """Writes the manifest anew, as somebody else could."""
    (checkpoint / manifest.MANIFEST).unlink(missing_ok=True)
    manifest.seal(checkpoint)


def poisoned(checkpoint: Path, target: Path, name: str = "algorithm_state.pkl") -> None:
    """Puts code into a checkpoint's state."""
    path = checkpoint / name
    path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()) | {"more": Evil(target)}))
    reseal(checkpoint)


def configured(checkpoint: Path, **settings) -> None:
    """Changes the configuration in a checkpoint."""
    path = checkpoint / safe_pickle.CONSTRUCTOR
    made = pickle.loads(path.read_bytes())
    ((state,), more) = made["ctor_args_and_kwargs"]
    path.write_bytes(cloudpickle.dumps(made | {"ctor_args_and_kwargs": ((state | settings,), more)}))
    if (checkpoint / manifest.MANIFEST).exists():
        reseal(checkpoint)


STOCK = {
    "PPO": lambda: PPOConfig().environment("CartPole-v1").training(train_batch_size=64, minibatch_size=32),
    "DQN": lambda: DQNConfig().environment("CartPole-v1"),
    "SAC-stock": lambda: StockConfig().environment("Pendulum-v1"),
}


def make(name: str, folder: Path) -> Path:
    made = STOCK[name]().env_runners(num_env_runners=0).debugging(seed=3) if name in STOCK else config(buffer="NMER")
    algorithm = made.build_algo()
    if name == "SAC":
        algorithm.train()
    algorithm.save_to_path(folder / "checkpoint_000001")
    algorithm.stop()
    return folder / "checkpoint_000001"


@pytest.fixture(
    scope="module", params=["SAC", "PPO", *(pytest.param(n, marks=pytest.mark.slow) for n in list(STOCK)[1:])]
)
def made(request, tmp_path_factory):
    return make(request.param, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def ours_made(tmp_path_factory):
    return make("SAC", tmp_path_factory.mktemp("ours_made"))


@pytest.fixture
def checkpoint(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "checkpoint_000001"))


@pytest.fixture
def ours(ours_made, tmp_path):
    return Path(shutil.copytree(ours_made, tmp_path / "checkpoint_000001"))


@pytest.fixture
def ran(tmp_path):
    return tmp_path / "ran"


def test_a_poisoned_checkpoint_is_refused_unless_trusted(tmp_path, capsys, ran):
    assert custom_training.main([*LINE.split(), "--local_dir", str(tmp_path / "r")]) == 0
    (run,) = (tmp_path / "r").iterdir()
    (checkpoint,) = run.glob("checkpoint_*")
    safe_pickle.check(checkpoint)
    poisoned(checkpoint, ran)
    on = ["--resume", str(run), "--total_env_steps", "60", "--quiet"]
    capsys.readouterr()
    assert custom_training.main(on) == 2
    err = capsys.readouterr().err
    assert "names posix.system" in err and "--trust_checkpoint" in err and len(err.splitlines()) == 1
    assert not ran.exists()
    assert custom_training.main([*on, "--trust_checkpoint"]) == 0
    assert ran.exists()


@pytest.mark.parametrize("classes", [True, False])
def test_pickles_that_name_code_are_refused(classes, tmp_path, ran):
    path = tmp_path / "algorithm_state.pkl"
    for thing in (Evil(ran), eval, pickle.loads, pytest.raises):
        path.write_bytes(pickle.dumps({"a": thing}))
        with pytest.raises(CheckpointError, match="names "):
            safe_pickle.load(path) if classes else safe_pickle.check(tmp_path)
    # A way around: a module of ours that leads to another.
    path.write_bytes(b"cinterreplay.rllib.run.build\nos.system\n(S'touch x'\ntR.")
    with pytest.raises(CheckpointError, match=r"names interreplay.rllib.run.build.os.system"):
        safe_pickle.load(path)
    assert not ran.exists()


def test_classes_in_pickles_are_names_that_nothing_can_call_or_change(tmp_path, ran):
    path = tmp_path / "class_and_ctor_args.pkl"
    settings = {"env": "CartPole-v1", "replay_buffer_config": {"type": CODE, "cmd": f"touch {ran}"}}
    setting = b"cray.rllib.algorithms.ppo.ppo\nPPOConfig\n(N(dVvalidate\nI1\nstb."  # BUILD: PPOConfig.validate = 1
    calls = [cloudpickle.dumps(Calls(PPO, settings)), b"cray.rllib.utils.from_config\npartial\n(tR.", setting]
    before = PPOConfig.validate
    for content in calls:
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="cannot be read"):
            safe_pickle.load(path)
    path.write_bytes(cloudpickle.dumps(PPO))
    assert safe_pickle.load(path) == safe_pickle.ClassReference("ray.rllib.algorithms.ppo.ppo", "PPO")
    assert PPOConfig.validate is before and not ran.exists()


def test_damaged_pickles_are_one_line(ours):
    path = ours / safe_pickle.CONSTRUCTOR
    content = path.read_bytes()
    for i in range(0, len(content), len(content) // 40):
        damaged = bytearray(content)
        damaged[i] ^= 0x41
        for bad in (bytes(damaged), content[:i]):
            path.write_bytes(bad)
            try:
                safe_pickle.load(path)
            except CheckpointError as error:
                assert "\n" not in str(error)


# -- configurations -------------------------------------------------------------------------------


LEVELS = 200_000
NESTED = {
    "a key of tuples": b"\x80\x04}N" + b"\x85" * LEVELS + b"Ns.",
    "queues": b"\x80\x04\x8c\x0bcollections\x8c\x05deque\x93\x94"
    + b"h\x00" * (LEVELS - 1)
    + b")R"
    + b"\x85\x85R" * (LEVELS - 1)
    + b".",
    "lists from outside": b"\x80\x04" + b"]" * LEVELS + b"a" * (LEVELS - 1) + b".",
}


@pytest.mark.parametrize("pickled", NESTED.values(), ids=NESTED)
def test_deeply_nested_pickles_are_one_line_and_end_no_process(pickled, tmp_path):
    (tmp_path / "state.pkl").write_bytes(pickled)
    with pytest.raises(
        CheckpointError, match=r"state\.pkl cannot be read: its values are nested in more than 1,000 levels"
    ):
        safe_pickle.check(tmp_path)


def test_nesting_is_that_of_values_however_they_are_pickled(tmp_path):
    def nested(levels):
        found = deque()
        for i in range(levels - 2):
            found = [(found,), {"a": found}, deque([found]), {i: (1, found)}][i % 4]
        return found

    circle = [1, {}]
    circle[1]["self"] = circle
    shared = [nested(9)] * 3000
    for protocol in range(2, 6):
        for value in (circle, shared, list(range(5000)), [[i] for i in range(5000)], np.ones((3, 4)), {1.5: None}):
            check_nesting(io.BytesIO(pickle.dumps(value, protocol)))
        check_nesting(io.BytesIO(pickle.dumps(nested(250), protocol)))
    with pytest.raises(ValueError, match="more than 1,000 levels"):
        check_nesting(io.BytesIO(b"\x80\x04" + b"]" * 1002 + b"a" * 1001 + b"."))
    check_nesting(io.BytesIO(b"\x80\x04" + b"]" * 1000 + b"a" * 999 + b"."))


def test_what_is_rebuilt_acts_as_what_was_saved(made):
    plain, trusted = (
        watch(made, PlaybackOptions(episodes=2, seed=1, trusted=trusted)).episodes for trusted in (False, True)
    )
    assert plain == trusted


def code(ran: Path) -> dict[str, str]:
    return {"type": CODE, "cmd": f"touch {ran}"}


EVERYWHERE = {
    "replay_buffer_config": code,
    "exploration_config": code,
    "policy_mapping_fn": code,
    "custom_evaluation_function": lambda ran: CODE,
    "callbacks_class": lambda ran: CODE,
    "callbacks_on_algorithm_init": lambda ran: CODE,
    "env_runner_cls": lambda ran: CODE,
    "sample_collector": lambda ran: CODE,
    "input_": lambda ran: CODE,
    "input_config": lambda ran: {"cmd": f"touch {ran}"},
    "output": str,
    "model": lambda ran: {"custom_model": CODE, "custom_model_config": {"cmd": f"touch {ran}"}},
    "extra_python_environs_for_driver": lambda ran: {"PYTHONPATH": str(ran)},
    "evaluation_config": lambda ran: {"callbacks_class": CODE, "replay_buffer_config": code(ran)},
}


def test_a_configuration_that_names_code_everywhere(checkpoint, ran):
    """RLlib's own algorithms act without all of it; of ours the buffer is needed, and refused."""
    configured(checkpoint, **{name: value(ran) for name, value in EVERYWHERE.items()})
    try:
        seen = watch(checkpoint, PlaybackOptions(episodes=1, seed=1))
        assert len(seen.episodes) == 1
    except CheckpointError as error:
        assert "sets replay_buffer_config to" in str(error) and "--trust_checkpoint" in str(error)
        assert (checkpoint / manifest.MANIFEST).exists(), "ours"
    assert not ran.exists()


def test_the_same_runs_where_it_is_trusted(tmp_path, ran):
    """Without this the tests above would show nothing: RLlib does call what a buffer's type says."""
    checkpoint = make("PPO", tmp_path)
    configured(checkpoint, replay_buffer_config=code(ran))
    watch(checkpoint, PlaybackOptions(episodes=1, seed=1))
    assert not ran.exists()
    watch(checkpoint, PlaybackOptions(episodes=1, seed=1, trusted=True))
    assert ran.exists()


@pytest.mark.slow
def test_the_same_from_the_shell(tmp_path, ran):
    checkpoint = make("PPO", tmp_path)
    configured(checkpoint, **{name: value(ran) for name, value in EVERYWHERE.items()})
    command = [sys.executable, "-m", "interreplay.rllib.command.main", "evaluate", str(checkpoint)]
    done = subprocess.run(
        [*command, "--run", "PPO", "--episodes", "1"], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("1 episode: return ") and not ran.exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda ran: {"env": CODE, "env_config": {"cmd": f"touch {ran}"}}, "is not registered with Gymnasium"),
        (lambda ran: {"env": "antigravity:Fly-v0"}, "a module of Python's own"),
        (lambda ran: {"env": "no_such_module:Env-v0"}, "no module 'no_such_module' to import.*PYTHONPATH"),
        (lambda ran: {"_env_to_module_connector": CODE}, "sets _env_to_module_connector to subprocess"),
        (lambda ran: {"_rl_module_spec": RLModuleSpec(module_class=PPOConfig)}, "expected a RLModule"),
        (lambda ran: {"_model_config": {"fcnet_activation": "os.system"}}, "sets _model_config"),
        (lambda ran: {"enable_rl_module_and_learner": False}, "sets enable_rl_module_and_learner"),
        (lambda ran: {"class": PPO}, "expected a AlgorithmConfig"),
        (lambda ran: {"more": Evil(ran)}, "names posix.system"),
    ],
)
def test_settings_that_acting_needs_are_refused_by_name(ours, ran, settings, message, capsys):
    configured(ours, **settings(ran))
    assert enjoy.main([str(ours), "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    with pytest.raises((CheckpointError, UsageError), match=message):
        watch(ours, PlaybackOptions(episodes=1))
    assert not ran.exists()


def test_weights_are_loaded_from_the_checkpoint_alone(ours, tmp_path):
    configured(ours, _rl_module_spec=RLModuleSpec(load_state_path=str(tmp_path / "elsewhere")))
    assert len(watch(ours, PlaybackOptions(episodes=1, seed=1)).episodes) == 1


# -- files ----------------------------------------------------------------------------------------


@pytest.fixture
def msgpack_runs(monkeypatch, ran):
    """What RLlib takes for msgpack and msgpack-numpy, which unpickles arrays of objects."""

    def load(file, **_):
        ran.write_text("ran")
        return {}

    for name in ("msgpack", "msgpack_numpy"):
        module = ModuleType(name)
        module.load, module.patch, module.__version__ = load, lambda: None, "1.0.0"
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "unlisted"])
@pytest.mark.parametrize("name", ["algorithm_state.msgpack", "learner_group/learner/state.msgpack", "x.msgpck"])
def test_msgpack_beside_the_pickle(ours, ran, msgpack_runs, listed, name):
    (ours / name).write_bytes(b"\x80")
    if listed:
        reseal(ours)
    with pytest.raises(CheckpointError, match="MessagePack" if listed else "is not listed"):
        watch(ours, PlaybackOptions(episodes=1))
    algorithm = config(buffer="NMER").build_algo()
    with pytest.raises(CheckpointError, match="MessagePack" if listed else "is not listed"):
        algorithm.restore_from_path(ours)
    assert not ran.exists()
    if name == "algorithm_state.msgpack":
        algorithm.restore_from_path(ours, trusted=True)
        assert ran.exists(), "as it does where it is trusted"


def test_msgpack_in_a_checkpoint_of_rllibs_own(tmp_path, ran, msgpack_runs, capsys):
    checkpoint = make("PPO", tmp_path)
    (checkpoint / "learner_group" / "learner" / "state.msgpack").write_bytes(b"\x80")
    assert enjoy.main([str(checkpoint), "--episodes", "1"]) == 2
    error = capsys.readouterr().err
    assert "state.msgpack is MessagePack" in error and error.count("\n") == 1 and not ran.exists()


def test_links_out_of_a_checkpoint_of_rllibs_own(tmp_path, ran):
    checkpoint = make("PPO", tmp_path)
    shutil.move(checkpoint / "learner_group", tmp_path / "elsewhere")
    poisoned(tmp_path / "elsewhere", ran, "state.pkl")
    (checkpoint / "learner_group").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="learner_group is a symbolic link"):
        watch(checkpoint, PlaybackOptions(episodes=1))
    assert not ran.exists()


# -- from Python ----------------------------------------------------------------------------------


def test_from_checkpoint_goes_on_with_the_same_run(ours):
    plain, trusted = SAC.from_checkpoint(ours), SAC.from_checkpoint(str(ours), trusted=True)
    assert plain.env_steps == trusted.env_steps == 75
    assert plain.config.replay_buffer_config == trusted.config.replay_buffer_config
    for algorithm in (plain, trusted):
        algorithm.train()
    assert same(weights(plain), weights(trusted))
    for algorithm in (plain, trusted):
        algorithm.stop()


@pytest.mark.parametrize(
    "settings",
    [
        lambda ran: {"replay_buffer_config": code(ran)},
        lambda ran: {"callbacks_on_algorithm_init": CODE},
        lambda ran: {"more": Evil(ran)},
        lambda ran: {"_learner_connector": CODE},
        lambda ran: {"output": str(ran)},
    ],
)
def test_from_checkpoint_refuses_settings_that_could_run_anything(ours, ran, settings):
    configured(ours, **settings(ran))
    with pytest.raises(CheckpointError):
        SAC.from_checkpoint(ours)
    assert not ran.exists()


def test_from_checkpoint_refuses_states_that_name_code(ours, ran):
    poisoned(ours, ran)
    with pytest.raises(CheckpointError, match="names posix.system"):
        SAC.from_checkpoint(ours)
    assert not ran.exists()
    SAC.from_checkpoint(ours, trusted=True).stop()
    assert ran.exists()


def test_from_checkpoint_of_another_algorithm(ours):
    from interreplay.rllib import TD3

    with pytest.raises(ValueError, match="expected TD3"):
        TD3.from_checkpoint(ours)
    with pytest.raises(ValueError, match="filesystem is 's3'"):
        SAC.from_checkpoint(ours, "s3")


def test_parts_of_a_checkpoint_are_looked_through_too(ours, ran):
    part = ours / "learner_group" / "learner" / "rl_module"
    algorithm = config(buffer="NMER").build_algo()
    algorithm.restore_from_path(part, component="learner_group/learner/rl_module")
    poisoned(part, ran, "module_state.pkl")
    with pytest.raises(CheckpointError, match="names posix.system"):
        algorithm.restore_from_path(part, component="learner_group/learner/rl_module")
    with pytest.raises(CheckpointError, match="expected a local folder"):
        algorithm.restore_from_path("s3://bucket/module", component="learner_group/learner/rl_module")
    assert not ran.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainer", "settings"),
    [
        ("SAC", {"actor_lr": [[0, 1e-3], [1000, 1e-4]], "grad_clip": 1.0, "target_entropy": -1, "n_step": 3}),
        ("SAC", {"normalize_observations": True, "lr": 5e-4}),
        ("TD3", {"exploration": {"type": "OrnsteinUhlenbeck", "sigma": 0.3}, "huber_delta": 1.0}),
        ("DDPG", {"actor_l2": 1e-3}),
    ],
)
def test_every_setting_of_ours_is_taken_over(trainer, settings, tmp_path):
    from interreplay import rllib

    kind = getattr(rllib, trainer)
    made = config(trainer=trainer).training(**settings).env_runners(num_envs_per_env_runner=2).build_algo()
    made.train()
    made.save_to_path(tmp_path / "c")
    plain, trusted = kind.from_checkpoint(tmp_path / "c"), kind.from_checkpoint(tmp_path / "c", trusted=True)
    for algorithm in (made, plain, trusted):
        algorithm.train()
    assert same(weights(made), weights(plain)) and same(weights(made), weights(trusted))
    for algorithm in (made, plain, trusted):
        algorithm.stop()
    assert len(watch(tmp_path / "c", PlaybackOptions(episodes=1, seed=1)).episodes) == 1
