"""Checkpoints are complete: a resumed run equals one that was never interrupted."""

import copy
import math
import shutil
from pathlib import Path

import failing_envs
import numpy as np
import pytest
import torch
from builders import same_state

from interreplay.errors import CheckpointError
from interreplay.rllib import SAC, IMPALAConfig
from interreplay.rllib import checkpoints as rllib_checkpoints
from interreplay.rllib.algorithms.learner import UPDATE_STATE
from tests.rllib.small_runs import CONFIGS, config, continued, of_preset, restored, rows_of, same, trained, weights


def assert_same_run(a, b):
    assert a.env_steps == b.env_steps
    assert same(weights(a), weights(b))
    for one, other in zip(a.learner._named_optimizers.values(), b.learner._named_optimizers.values(), strict=True):
        for p, q in zip(one.state.values(), other.state.values(), strict=True):
            assert all(torch.equal(p[k], q[k]) for k in p)
    mine, theirs = rows_of(a).columns(), rows_of(b).columns()
    assert all(torch.equal(mine[k], theirs[k]) for k in mine)
    one, other = a.replay_buffer.sample(64), b.replay_buffer.sample(64)
    assert torch.equal(one.slots, other.slots) and torch.equal(one.neighbor_slots, other.neighbor_slots)
    assert torch.equal(one.transitions.obs, other.transitions.obs)


@pytest.mark.parametrize(
    ("env", "buffer", "trainer"),
    [
        ("Pendulum-v1", "NMER", "SAC"),
        pytest.param("HalfCheetah-v5", "PER", "SAC", marks=pytest.mark.slow),
        pytest.param("InvertedPendulum-v5", "NMER", "SAC", marks=pytest.mark.slow),
        pytest.param("CartPole-v1", "PER", "SAC", marks=pytest.mark.slow),
        # After 150 steps 101 updates were made: the next is a policy update of TD3, in the middle of an episode.
        pytest.param("Pendulum-v1", "NMER", "TD3", marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", "PER", "TQC", marks=pytest.mark.slow),
        # After 150 steps 101 updates were made: the next is not a policy update of CrossQ.
        pytest.param("Pendulum-v1", "NMER", "CrossQ", marks=pytest.mark.slow),
        pytest.param("HalfCheetah-v5", "Uniform", "DDPG", marks=pytest.mark.slow),
        # After 150 steps 151 updates were made: between policy updates, after one reset and before another.
        pytest.param("Pendulum-v1", "PER", "droq", marks=pytest.mark.slow),
        pytest.param("Pendulum-v1", "NMER", "sr-sac", marks=pytest.mark.slow),
    ],
)
def test_resuming_equals_not_stopping(env, buffer, trainer, tmp_path):
    of_trainer = lambda: config(env, buffer, trainer=trainer)
    configured = of_trainer if trainer in CONFIGS else lambda: of_preset(trainer, env, buffer)
    assert_same_run(*continued(lambda: configured().build_algo(), tmp_path / "c", before=2))


@pytest.mark.slow
def test_resuming_compiled_updates_equals_not_stopping(tmp_path):
    made = lambda: config("Pendulum-v1", "NMER").training(torch_compile=True, steps_per_iteration=60).build_algo()
    assert_same_run(*continued(made, tmp_path / "c"))


@pytest.mark.slow
def test_resuming_within_an_iteration_with_updates_due(tmp_path):
    made = lambda: config(buffer="NMER").training(updates_per_step=3.0, batches_per_draw=2)
    straight = trained(made(), 2)
    stopped = made().build_algo()
    learn = stopped.learner.learn_from

    def stop_after(sample):
        if stopped.learner.updates == 49:
            stopped.request_stop()
        return learn(sample)

    stopped.learner.learn_from = stop_after
    stopped.train()
    assert stopped.experience.due > 0
    resumed = restored(made(), stopped.save_to_path(tmp_path / "c"))
    while resumed.env_steps < 150:
        resumed.train()
    assert_same_run(straight, resumed)


def test_from_checkpoint_restores_the_whole_algorithm(tmp_path):
    algorithm = trained(config(buffer="NMER", k=3))
    assert_same_run(algorithm, SAC.from_checkpoint(algorithm.save_to_path(tmp_path / "c")))


def test_settings_of_networks_may_be_numbers_of_numpy(tmp_path):
    layers = [{"layer": "Linear", "out_features": np.int64(8)}, {"layer": "ELU", "alpha": np.float32(0.5)}, "Linear"]
    algorithm = config().model(hiddens=[np.int64(8)], actor=layers).build_algo()
    path = algorithm.save_to_path(tmp_path / "saved")
    assert same(weights(SAC.from_checkpoint(path)), weights(algorithm))


def test_a_state_is_not_changed_by_further_training():
    algorithm = trained(config().training(updates_per_step=0.1))
    state = algorithm.learner.get_state()
    before = copy.deepcopy(state)
    algorithm.train()
    algorithm.learner.set_state(state)
    algorithm.train()
    for part in ("optimizer", "rl_module", UPDATE_STATE):
        same_state(state[part], before[part])


@pytest.mark.slow
def test_environments_without_saved_state_resume_with_a_new_episode(tmp_path):
    made = config(failing_envs.Draws).environment(env_config={"length": 70, "step": -1})
    algorithm = trained(made)
    assert not rows_of(algorithm).truncated[74]
    resumed = restored(made.copy(copy_frozen=False), algorithm.save_to_path(tmp_path / "c"))
    resumed.train()
    rows = rows_of(resumed)
    assert rows.truncated[74] and resumed.replay_buffer.storage.successor(torch.tensor([74])) == -1
    assert rows.episode[74] != rows.episode[75]
    assert not torch.equal(rows.obs[0], rows.obs[75]), "a resumed run must not replay its first episode"


def test_other_arguments_of_the_environment_apply_to_a_new_episode(saved):
    made = config().environment("Pendulum-v1", env_config={"g": 5.0, "max_episode_steps": 40})
    other = restored(made, saved)
    assert other.env_runner.env.unwrapped.envs[0].unwrapped.g == 5.0
    other.train()
    assert rows_of(other).truncated.nonzero().flatten().tolist() == [74, 114]


def test_env_config_is_compared_by_its_values(monkeypatch):
    runner = config().build_algo().env_runner
    texts = []
    for table in ({0: 1.0, "goal": math.nan}, {"goal": math.nan, "0": 1.0}, {0: 2.0, "goal": math.nan}):
        monkeypatch.setattr(runner.config, "env_config", {"table": table, "made_by": object()})
        texts.append(runner.state_dict()["env_config"])
    assert texts[0] == texts[1] != texts[2]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Path(trained(config()).save_to_path(tmp_path_factory.mktemp("saved") / "c"))


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (lambda: config("Pendulum-v1", "PER"), "replay buffer 'Uniform'"),
        (lambda: config("MountainCarContinuous-v0"), "environment 'Pendulum-v1'"),
        (lambda: config().training(hiddens=(8,)), r"setting hiddens '\[32, 32\]'; this run has '\[8\]'"),
        (lambda: config(trainer="TD3"), "algorithm 'SAC'"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_rejected(saved, other, what):
    with pytest.raises(CheckpointError, match=what):
        restored(other(), saved)


def test_networks_of_equal_settings_and_other_shapes_are_rejected(saved, monkeypatch):
    """The code of a user's networks may have changed since the checkpoint."""
    monkeypatch.setattr(rllib_checkpoints, "CHANGEABLE", rllib_checkpoints.CHANGEABLE | {"n_critics"})
    with pytest.raises(CheckpointError, match="the networks of .* differ from this run's: .* size mismatch"):
        restored(config().training(n_critics=3), saved)


@pytest.mark.slow
def test_a_buffer_with_another_part_is_rejected(tmp_path):
    fixed = config(buffer="ContinuousTransition", alpha=0.5).build_algo()
    folder = fixed.save_to_path(tmp_path / "fixed")
    with pytest.raises(CheckpointError, match="in .* the synthesizer of the state is Mixup; expected"):
        restored(config(buffer="ContinuousTransition"), folder)


def test_damaged_checkpoints_are_rejected(saved, tmp_path):
    files = sorted(p for p in saved.rglob("*") if p.is_file())
    algorithm = config().build_algo()
    for i, file in enumerate(files):
        damaged = tmp_path / str(i)
        shutil.copytree(saved, damaged)
        bad = damaged / file.relative_to(saved)
        bad.write_bytes(bad.read_bytes()[: max(0, bad.stat().st_size // 2 - 1)])
        with pytest.raises(CheckpointError) as caught:
            algorithm.restore_from_path(damaged)
        assert "\n" not in str(caught.value)
    algorithm.restore_from_path(saved)
    assert algorithm.env_steps == 75


def test_folders_that_are_not_local_are_rejected(tmp_path):
    algorithm = config().build_algo()
    for call in (algorithm.save_to_path, algorithm.restore_from_path, SAC.from_checkpoint):
        with pytest.raises(ValueError, match="path is 's3://bucket/c'; expected a local folder"):
            call("s3://bucket/c")
        with pytest.raises(ValueError, match="filesystem is 'S3'; expected None and a local folder"):
            call(tmp_path / "c", filesystem="S3")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_memory_begins_again_with_another_number_of_environments(count, tmp_path):
    def made(envs):
        small = {"hiddens": (8,), "lstm_cells": 4, "train_batch_size": 4, "steps_per_iteration": 20}
        unrolling = IMPALAConfig().environment("CartPole-v1").training(**small)
        return unrolling.env_runners(num_envs_per_env_runner=envs, rollout_fragment_length=1)

    resumed = restored(made(count), trained(made(2)).save_to_path(tmp_path / "c"))
    resumed.train()
    assert {len(part) for part in resumed.env_runner.memory_state().values()} == {count}


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_environments_starts_new_episodes_and_noise(count, tmp_path):
    stopped = trained(config(trainer="DDPG").env_runners(num_envs_per_env_runner=2))
    seen = set(rows_of(stopped).episode.tolist())
    rows = len(stopped.replay_buffer)
    made = config(trainer="DDPG").env_runners(num_envs_per_env_runner=count)
    resumed = restored(made, stopped.save_to_path(tmp_path / "c"))
    resumed.train()
    found = rows_of(resumed)
    assert len(found) > rows and not seen & set(found.episode[rows:].tolist())
    last = {episode: max(i for i in range(rows) if found.episode[i] == episode) for episode in seen}
    assert all(found.truncated[i] or found.terminated[i] for i in last.values())
