"""Runs keep their transitions, recover those after a checkpoint, learn from them again, and are forked."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import failing_envs
import gymnasium as gym
import numpy as np
import pytest
import torch
from kept_rows import equal, everything, intact

from interreplay.errors import CheckpointError, UsageError
from interreplay.experience import ModelBased
from interreplay.experience.offline_data.saved_rows import open_saved
from interreplay.experience.store import ExperienceStore
from interreplay.experiments.commands.experience import main as experience
from interreplay.experiments.commands.fork import main as fork_command
from interreplay.experiments.commands.train import main
from interreplay.experiments.training import start
from interreplay.experiments.training.start import fork, reseed
from interreplay.learning.networks.normalization import RewardScale
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.runs.results.reader import curve, read_rows
from interreplay.runs.state_files import manifest
from interreplay.transitions import cat
from tests.experiments.commands.command_lines import rejects, the_run
from tests.rllib.small_runs import config, rows_of, same, trained, weights

pytestmark = pytest.mark.usefixtures("own_cache")
ROOT = Path(__file__).resolve().parents[2]


def flags(tmp_path, *more):
    small = "--env Pendulum-v1 --hiddens 16 --train_batch_size 16 --steps_per_iteration 40 --checkpoint_freq 1"
    rest = f"--evaluation_interval 0 --learning_starts 30 --horizon 20 --quiet --local_dir {tmp_path}/results"
    return [*small.split(), *rest.split(), *more]


@pytest.mark.slow
def test_a_run_keeps_the_rows_of_its_buffer(tmp_path):
    assert main(flags(tmp_path, "--total_env_steps", "100")) == 0
    store = intact(the_run(tmp_path / "results") / "experience")
    assert store.rows == 100 and store.column("step").tolist() == list(range(1, 101))
    versions = store.column("version")
    assert versions[:30].tolist() == [0] * 30 and versions[-1] == 70 and (np.diff(versions) >= 0).all()
    about = store.header.about
    assert (store.header.env, about["trainer"], about["buffer"], about["seed"]) == ("Pendulum-v1", "SAC", "Uniform", 0)
    assert store.episodes().lengths.tolist() == [20] * 5


@pytest.mark.slow
def test_rows_are_those_that_were_added_and_results_do_not_change():
    recorded = config().build_algo()
    kept = []
    recorded.record_rows(kept.append)
    recorded.train()
    recorded.train()
    assert same(weights(trained(config(), 2)), weights(recorded))
    rows = cat(kept)
    assert not rows.extras and not rows_of(recorded).extras
    assert equal(rows, rows_of(recorded))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "rows"),
    [(["--keep_experience", "0"], 0), (["--keep_experience", "40"], 40), (["--num_envs_per_worker", "2"], 100)],
)
def test_the_number_of_kept_rows(tmp_path, words, rows):
    assert main(flags(tmp_path, "--total_env_steps", "100", *words)) == 0
    folder = the_run(tmp_path / "results") / "experience"
    if not rows:
        assert not folder.exists()
        return
    store = ExperienceStore(folder)
    assert rows - 5 < store.rows <= rows and store.column("step")[-1] == 100


@pytest.mark.slow
def test_resuming_is_exact_and_moves_later_rows_aside(tmp_path):
    assert main(flags(tmp_path, "--total_env_steps", "120", "--keep_checkpoints", "9")) == 0
    run = the_run(tmp_path / "results")
    whole = everything(ExperienceStore(run / "experience"))
    assert main(["--resume", str(run / "checkpoint_00000080"), "--total_env_steps", "120", "--quiet"]) == 0
    assert equal(everything(intact(run / "experience")), whole)
    assert equal(everything(ExperienceStore(run / "experience_aside_00000080")), whole[80:])


@pytest.mark.slow
def test_recovered_rows_are_in_the_buffer_and_their_updates_are_made(tmp_path, capsys):
    assert main(flags(tmp_path, "--total_env_steps", "120", "--keep_checkpoints", "9", "--episode_table")) == 0
    run = the_run(tmp_path / "results")
    for path in (run / "checkpoint_00000120", *run.glob("best_*")):  # as after a crash
        shutil.rmtree(path)
    before = everything(ExperienceStore(run / "experience"))
    assert main(["--resume", str(run), "--recover", "--total_env_steps", "160", "--quiet"]) == 0
    assert "recovered 40 rows after step 80; the run continues at step 120" in capsys.readouterr().out
    store = intact(run / "experience")
    assert store.rows == 160 and store.column("step").tolist() == list(range(1, 161))
    assert equal(everything(store)[:120], before)
    newer = everything(store)[120:]
    assert set(newer.episode.tolist()).isdisjoint(before.episode.tolist())
    lines = [line.split(",")[:2] for line in (run / "episodes.csv").read_text().splitlines()[1:]]
    assert lines == [[str(n), str(20 * n)] for n in range(1, 9)], "every episode once"
    last = read_rows(run)[0][-1]
    assert last["num_env_steps_sampled_lifetime"] == 160
    assert last["learners/default_policy/num_updates_lifetime"] == 131  # as without the crash
    saved = cat(list(open_saved("x", run / "checkpoint_00000160").portions()))
    stored = everything(store).replace(truncated=saved.terminated, extras={})
    assert equal(saved.replace(truncated=saved.terminated), stored)


def test_recovered_rows_count_as_in_an_uninterrupted_run():
    algorithm = config().build_algo()
    rows = config().build_algo().env_runner.collect(160, random_actions=True)
    assert algorithm.recover([rows[:10], rows[10:]]) == 160
    assert algorithm.training_iteration == 160 // 75
    assert algorithm.experience.due == 111, "from the fiftieth row on"


def test_rows_are_not_recovered_if_earlier_ones_after_the_checkpoint_were_dropped(tmp_path, monkeypatch):
    store = SimpleNamespace(check=list, column=lambda name: np.arange(101, 121))
    monkeypatch.setattr(start, "find_store", lambda folder: folder)
    monkeypatch.setattr(start, "ExperienceStore", lambda place: store)
    with pytest.raises(UsageError, match="after the checkpoint at step 80 begin at step 101; expected all rows"):
        start.recover(SimpleNamespace(env_steps=80), tmp_path, print)


@pytest.mark.slow
def test_recovering_nothing_and_without_experience(tmp_path, capsys):
    assert main(flags(tmp_path, "--total_env_steps", "80")) == 0
    run = the_run(tmp_path / "results")
    assert main(["--resume", str(run), "--recover", "--total_env_steps", "120", "--quiet"]) == 0
    assert "no rows of experience after step 80 to recover" in capsys.readouterr().out
    shutil.rmtree(run / "experience")
    words = ["--resume", str(run), "--recover", "--total_env_steps", "160"]
    rejects(capsys, main, words, "has no recorded experience")
    rejects(capsys, main, ["--recover"], "--recover requires --resume RUN")


@pytest.mark.slow
def test_the_list_the_plot_and_the_export(tmp_path, capsys, minari_folder, monkeypatch):
    minari = pytest.importorskip("minari")
    assert main(flags(tmp_path, "--total_env_steps", "80")) == 0
    run = the_run(tmp_path / "results")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)  # short names fit in a line
    assert experience(["results", "--plot", str(tmp_path / "returns.png")]) == 0
    out = capsys.readouterr().out
    assert (tmp_path / "returns.png").stat().st_size > 5_000
    store = ExperienceStore(run / "experience")
    low = f"{store.episodes().returns.min():,.1f}"
    line = next(line for line in out.splitlines() if run.name in line)
    assert {"Pendulum-v1", "80", "4", low} <= set(line.split())
    assert experience(["export", str(run), "pendulum/kept-v0"]) == 0
    dataset = minari.load_dataset("pendulum/kept-v0")
    rows = everything(store)
    episodes = list(dataset.iterate_episodes())
    assert (dataset.total_steps, len(episodes)) == (80, 4)
    assert np.concatenate([one.actions for one in episodes]) == pytest.approx(2 * rows.actions.numpy(), abs=1e-6)
    assert np.concatenate([one.rewards for one in episodes]) == pytest.approx(rows.rewards.numpy())
    assert np.concatenate([one.observations[1:] for one in episodes]) == pytest.approx(rows.next_obs.numpy())
    assert experience(["export", str(run), "pendulum/kept-v0"]) == 2
    assert experience([str(tmp_path / "nowhere")]) == 2
    (tmp_path / "empty").mkdir()
    assert experience([str(tmp_path / "empty")]) == 2
    assert "contains no experience" in capsys.readouterr().err


# -- forks -------------------------------------------------------------------------------------------


def parent(tmp_path, buffer="Uniform", **arguments):
    """A parent of 150 steps with a checkpoint, and its settings."""
    algorithm = trained(config(buffer=buffer, **arguments), 2)
    algorithm.save_to_path(tmp_path / "checkpoint_00000150")
    method = {"buffer": buffer, "buffer_args": arguments, "prioritized": None, "credit_both": False}
    settings = method | {"buffer_size": 5_000, "n_step": 1, "trainer": "SAC", "seed": 0}
    manifest.add(tmp_path / "checkpoint_00000150", "settings.json", json.dumps(settings))
    return algorithm, settings | {"fork_from": str(tmp_path / "checkpoint_00000150")}


def forked(settings, buffer="Uniform", seed=0, **arguments):
    made = config(buffer=buffer, seed=seed, **arguments).build_algo()
    own = settings | {"buffer": buffer, "buffer_args": arguments, "seed": seed}
    fork(made, SimpleNamespace(**own), str)
    return made


@pytest.mark.slow
def test_an_arm_with_the_parent_s_method_and_streams_continues_as_the_parent(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "reseed", lambda *arguments: None)
    algorithm, settings = parent(tmp_path, "PER")
    arm = forked(settings, "PER", seed=3)
    for each in (algorithm, arm):
        each.train()
        each.train()
    assert same(weights(algorithm), weights(arm))
    assert equal(rows_of(algorithm), rows_of(arm))


@pytest.mark.parametrize(
    "method", ["NMER", pytest.param("PER", marks=pytest.mark.slow), pytest.param("LAP", marks=pytest.mark.slow)]
)
def test_another_method_is_rebuilt_from_the_parent_s_rows(tmp_path, method):
    algorithm, settings = parent(tmp_path)
    arm = forked(settings, method)
    assert arm.env_steps == 150 and same(weights(algorithm), weights(arm))
    assert equal(rows_of(algorithm), rows_of(arm))
    successors = [each.replay_buffer.storage.successor(torch.arange(150)) for each in (arm, algorithm)]
    assert torch.equal(*successors)
    if method == "PER":
        slots = arm.replay_buffer.sample(2_000).slots
        assert len(slots.unique()) == 150 and slots.bincount(minlength=150).max() < 40  # equal priorities
    arm.train()
    assert arm.env_steps == 225 and arm.learner.updates == algorithm.learner.updates + 75
    following = rows_of(arm)
    ends = (following.terminated | following.truncated)[:150]
    assert bool(ends[149]) or int(arm.replay_buffer.storage.successor(torch.tensor([149]))) == 150


def test_a_method_of_other_recorded_rows_is_rebuilt(tmp_path):
    _, settings = parent(tmp_path)
    lines = []
    fork(config().build_algo(), SimpleNamespace(**settings | {"offline_where": "newest=30"}), lines.append)
    assert "Uniform rebuilt from the parent's transitions" in lines[0]


@pytest.mark.slow
def test_arms_may_scale_rewards_and_networks_of_other_shapes_are_rejected(tmp_path):
    _, settings = parent(tmp_path)
    settings |= {"buffer": "Uniform", "buffer_args": {}, "seed": 1}
    arm = config().training(scale_rewards=True).build_algo()
    fork(arm, SimpleNamespace(**settings), str)
    scale = RewardScale(arm.config.gamma)
    scale.observe(rows_of(arm))
    assert arm.learner.reward_scale.divisor == scale.divisor > 1, "the parent's returns count"
    arm.train()
    assert arm.env_steps == 225
    again = config().training(scale_rewards=True).build_algo()
    arm.save_to_path(tmp_path / "checkpoint_00000225")
    manifest.add(tmp_path / "checkpoint_00000225", "settings.json", json.dumps(settings | {"scale_rewards": True}))
    fork(again, SimpleNamespace(**settings | {"fork_from": str(tmp_path / "checkpoint_00000225")}), str)
    assert again.learner.reward_scale.divisor == arm.learner.reward_scale.divisor
    other = config().training(n_critics=3).build_algo()
    with pytest.raises(CheckpointError, match="setting n_critics .2.; this run has .3."):
        fork(other, SimpleNamespace(**settings), str)


@pytest.mark.slow
def test_arms_of_one_seed_are_identical_and_others_differ(tmp_path):
    _, settings = parent(tmp_path)
    first, second, other = forked(settings, seed=1), forked(settings, seed=1), forked(settings, seed=2)
    for each in (first, second, other):
        each.train()
    assert same(weights(first), weights(second)) and not same(weights(first), weights(other))
    assert not torch.equal(rows_of(first).actions[150:], rows_of(other).actions[150:])
    before = first.replay_buffer.rng.bit_generator.state
    reseed(first, 1)
    assert first.replay_buffer.rng.bit_generator.state != before


def test_a_fork_without_further_env_steps_is_rejected(monkeypatch):
    stopped = []
    monkeypatch.setattr(start, "build", lambda *_: SimpleNamespace(env_steps=200, stop=lambda: stopped.append(True)))
    monkeypatch.setattr(start, "fork", lambda *_: None)
    settings = SimpleNamespace(fork_from="parent", total_env_steps=200)
    with pytest.raises(UsageError, match="--fork_from parent is at step 200; expected a larger --total_env_steps"):
        start.start(settings, [], print)
    assert stopped


def test_a_learned_model_has_the_random_numbers_of_the_fork():
    source = ModelBased()
    before = source.rng.bit_generator.state
    runners = SimpleNamespace(foreach_env_runner=lambda act: None)
    learner = SimpleNamespace(generator=torch.Generator())
    reseed(SimpleNamespace(env_steps=50, learner=learner, env_runner_group=runners, replay_buffer=source), 1)
    assert source.rng.bit_generator.state != before
    assert len({part.rng.bit_generator.state["state"]["state"] for part in (source, source.real, source.virtual)}) == 3


def test_a_fork_continues_in_another_environment_with_the_same_spaces(tmp_path):
    algorithm, settings = parent(tmp_path)
    entry_point = "gymnasium.envs.classic_control:PendulumEnv"
    gym.register("OtherPendulum-v0", entry_point=entry_point, max_episode_steps=200)
    try:
        arm = config("OtherPendulum-v0").build_algo()
        fork(arm, SimpleNamespace(**settings), str)
        assert same(weights(algorithm), weights(arm))
        arm.train()
    finally:
        del gym.registry["OtherPendulum-v0"]
    rows = rows_of(arm)
    assert not rows_of(algorithm).truncated[149]  # the parent was within an episode
    assert rows.truncated[149] and rows.episode[150] > rows.episode[149], "the other environment begins a new one"


@pytest.mark.slow
def test_other_algorithms_spaces_and_missing_columns_are_rejected(tmp_path):
    _, settings = parent(tmp_path)
    with pytest.raises(CheckpointError, match="has the algorithm 'SAC'; this run has 'TD3'"):
        fork(config(trainer="TD3").build_algo(), SimpleNamespace(**settings | {"trainer": "TD3"}), str)
    with pytest.raises(CheckpointError, match="has the observation space"):
        fork(config("InvertedPendulum-v5").build_algo(), SimpleNamespace(**settings), str)
    with pytest.raises(UsageError, match="lack the column behavior, which the replay method requires"):
        forked(settings, "Elite")


def test_forks_keep_the_optimizer_of_the_parent(tmp_path, monkeypatch):
    monkeypatch.setattr(start, "find_checkpoints", lambda path: [path])
    monkeypatch.setattr(OffPolicyAlgorithm, "check_identity", lambda *args, **options: None)
    monkeypatch.setattr(start, "read_settings", lambda folder: {"optimizer": "Adam"})
    monkeypatch.setattr(start.state_files, "resolve", lambda folder: folder)
    algo = object.__new__(OffPolicyAlgorithm)
    settings = SimpleNamespace(trainer="DQN", fork_from=tmp_path, optimizer="RMSprop")
    with pytest.raises(UsageError, match="has the state of Adam; expected --optimizer Adam"):
        fork(algo, settings, str)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_command_fork_runs_a_study_with_paired_differences(tmp_path, capsys):
    words = flags(tmp_path, "--total_env_steps", "100", "--keep_checkpoints_at", "50,70", "--keep_checkpoints", "1")
    assert main([*words, "--evaluation_interval", "1", "--evaluation_num_episodes", "1"]) == 0
    run = the_run(tmp_path / "results")
    assert sorted(path.name for path in run.glob("kept_*")) == ["kept_checkpoint_00000050", "kept_checkpoint_00000070"]
    store = ExperienceStore(run / "experience")
    ends = {int(each.path.name.removeprefix("rows_")) + rows for each in store.segments for rows, _ in each.commits}
    assert {50, 70} <= ends, "the store has the rows of each checkpoint before the checkpoint is written"
    words = [str(run), "--steps", "60", "--seeds", "1", "--output_dir", str(tmp_path / "fork"), "--arms", "Uniform,PER"]
    rejects(capsys, fork_command, [*words, "--at", "49"], "no checkpoint at or before this step, only at 50, 70")
    assert fork_command([*words, "--at", "60"]) == 0
    out = capsys.readouterr().out
    assert "kept_checkpoint_00000050 at step 50: 2 runs of 60 steps" in out and "differences of runs with equal" in out
    table = (tmp_path / "fork" / "paired.csv").read_text().splitlines()
    assert len(table) == 3 and (tmp_path / "fork" / "paired.png").stat().st_size > 5_000
    for path in (tmp_path / "fork").glob("SAC_*"):
        steps = [step for step, _ in curve(path)]
        assert steps[0] > 50 and steps[-1] == 110
    params = json.loads(next((tmp_path / "fork").glob("SAC_*PER_s0/params.json")).read_text())
    assert (params["hiddens"], params["horizon"], params["keep_experience"]) == ([16], 20, 0)


class Succeeding(failing_envs.Counting):
    """Episodes of five or six steps, the last of which is a success; the other steps report none."""

    made = 0

    def __init__(self):
        Succeeding.made += 1
        super().__init__(length=5 + Succeeding.made % 2)

    def step(self, action):
        obs, reward, over, cut, _ = super().step(action)
        return obs, reward, over, cut, {"is_success": True} if over else {}


def test_successes_of_several_environments_are_kept():
    algorithm = config(Succeeding).env_runners(num_envs_per_env_runner=2).build_algo()
    kept = []
    algorithm.record_rows(kept.append)
    algorithm.train()
    rows = cat(kept)
    assert torch.equal(rows.extras["success"], rows.terminated) and rows.terminated.any()
