"""Runs with recorded experience, alone or mixed with collected rows: the command line, resuming, rejections."""

import json
import shutil

import pytest
import torch
from offline_data import episodes, minari_dataset

from interreplay import Mix
from interreplay.errors import UsageError
from interreplay.experiments.commands.train import main
from interreplay.experiments.flags.replay_flags import describe_source
from interreplay.experiments.flags.training_flags import make_parser, resolve_settings
from interreplay.experiments.training.start import configure
from interreplay.runs import state_files
from interreplay.runs.state_files.arrays import encode
from tests.experiments.commands.command_lines import read_csv, rejects, the_run
from tests.rllib.small_runs import config, continued, same, weights

pytest.importorskip("minari")
pytestmark = pytest.mark.usefixtures("minari_folder")


@pytest.fixture
def name():
    return minari_dataset(episodes(6, 30))


@pytest.mark.slow
def test_half_of_each_batch_is_recorded_and_resuming_is_exact(name, tmp_path):
    recorded = {"type": "Offline", "data": f"minari:{name}", "method": "NMER", "arguments": {"k": 3}}
    mix = Mix({"online": "PER", "offline": recorded}, {"offline": (0.5, 0.25)})
    made = config().replay(mix, capacity=1_000).training(anneal_steps=200)
    straight, resumed = continued(lambda: made.copy(copy_frozen=False).build_algo(), tmp_path / "c")
    results = [algorithm.train() for algorithm in (straight, resumed)]
    arrays = {}
    encode(state_files.load(tmp_path / "c", "replay_buffer"), arrays)
    stored = sum(array.nbytes for array in arrays.values())
    assert same(weights(straight), weights(resumed))
    statistics = results[-1]["replay_buffer"]
    assert statistics["offline/neighbor_distance"] > 0 and "online/neighbor_distance" not in statistics
    assert straight.replay_buffer.shares.current == pytest.approx({"online": 0.75, "offline": 0.25})
    offline = straight.replay_buffer.sources["offline"]
    assert len(offline) == 180 and stored < 75 * 200 + offline.nbytes({}) + 100_000
    again = type(straight).from_checkpoint(tmp_path / "c")
    assert again.replay_buffer.sources["offline"].storage.key == offline.storage.key


def alone(name, **inside):
    made = config(trainer="TD3")
    made.replay("Offline", data=f"minari:{name}", **inside)
    return made.training(collect=False, normalize_observations=True, anneal_steps=300)


@pytest.mark.slow
def test_learning_from_recorded_rows_alone(name, tmp_path):
    inside = {"method": "S4RL", "arguments": {"views": 2}}
    straight, resumed = continued(lambda: alone(name, **inside).build_algo(), tmp_path / "c")
    assert straight.env_steps == straight.learner.updates == resumed.learner.updates == 150
    assert straight.env_runner.num_env_steps_sampled_lifetime == 0
    assert same(weights(straight), weights(resumed))
    assert straight.train()["num_env_steps_sampled_lifetime"] == 225
    rows = straight.replay_buffer.storage[torch.arange(180)].obs.double()
    encoder = straight.learner.single_module.nets.encoder
    assert encoder.moments.count == 180
    assert encoder.moments.mean == pytest.approx(rows.mean(0).numpy(), abs=1e-6)


def test_collect_false_requires_recorded_rows():
    with pytest.raises(ValueError, match="collect is False; expected recorded experience"):
        config().training(collect=False).build_algo()


def flags(tmp_path, *more):
    small = "--env Pendulum-v1 --hiddens 16 --train_batch_size 16 --steps_per_iteration 40 --checkpoint_freq 1"
    rest = f"--evaluation_num_episodes 1 --evaluation_interval 2 --horizon 20 --quiet --local_dir {tmp_path}/results"
    return [*small.split(), *rest.split(), *more]


@pytest.mark.slow
def test_a_command_with_recorded_rows_and_its_resume(name, tmp_path, capsys):
    method = "--knn_baseline"
    share = ["--offline-data", f"minari:{name}", "--offline-share", ".5", "--offline-share-end", ".1"]
    words = flags(tmp_path, method, *share, "--learning_starts", "20", "--buffer_size", "500")
    assert main([*words, "--total_env_steps", "80"]) == 0
    assert f"offline data minari:{name}: 180 rows, 0.5 to 0.1 of every batch" in capsys.readouterr().out
    folder = the_run(tmp_path / "results")
    assert json.loads((folder / "params.json").read_text())["offline_key"]
    assert main(["--resume", str(folder), "--total_env_steps", "120", "--quiet"]) == 0
    assert [float(row["num_env_steps_sampled_lifetime"]) for row in read_csv(folder / "progress.csv")] == [40, 80, 120]
    shutil.rmtree(tmp_path / "minari")
    minari_dataset(episodes(6, 30, seed=50))
    resume = ["--resume", str(folder), "--total_env_steps", "160"]
    rejects(capsys, main, resume, "has changed since the run began: its key is")
    shutil.rmtree(tmp_path / "minari")
    rejects(capsys, main, resume, "is not on this machine")


@pytest.mark.slow
def test_a_command_that_learns_from_data_alone_and_its_resume(name, tmp_path, capsys):
    data = str(tmp_path / "minari" / name)
    words = flags(tmp_path, "--trainer", "TD3", "--buffer", "NMER", "--offline-data", data)
    assert main([*words, "--total_env_steps", "0", "--updates", "80"]) == 0
    folder = the_run(tmp_path / "results")
    assert "80 updates," in capsys.readouterr().out
    assert main(["--resume", str(folder), "--updates", "110", "--quiet"]) == 0
    message = "complete at 110 updates; a larger --updates continues it"
    rejects(capsys, main, ["--resume", str(folder), "--quiet"], message)
    rows = read_csv(folder / "progress.csv")
    assert [float(row["num_env_steps_sampled_lifetime"]) for row in rows] == [40, 80, 110]
    assert [float(row["learners/default_policy/num_updates_lifetime"]) for row in rows] == [40, 80, 110]
    assert float(rows[1]["evaluation/env_runners/episode_return_mean"]) < 0
    assert sorted(path.name for path in folder.glob("checkpoint_*")) == ["checkpoint_00000080", "checkpoint_00000110"]
    shutil.move(data, tmp_path / "elsewhere")
    assert main(["--resume", str(folder), "--updates", "120", "--quiet"]) == 2
    assert main(["--resume", str(folder), "--updates", "120", "--offline-data", str(tmp_path / "elsewhere")]) == 0
    capsys.readouterr()
    message = "of a run without env steps; --updates N continues it"
    rejects(capsys, main, ["--resume", str(folder), "--total_env_steps", "500"], message)


def test_recorded_rows_of_a_model_are_additional_real_rows():
    words = "--buffer ModelBased --buffer_arg members=2 --offline_data one,other --offline_where newest=9"
    kind, arguments = describe_source(resolve_settings(make_parser().given(words.split())))
    recorded = {"data": ["one", "other"], "where": "newest=9", "relabel": None}
    assert kind == "ModelBased" and (arguments["recorded"], arguments["members"]) == (recorded, 2)


ALONE = "--updates 9 --offline-data x --total_env_steps 0"


def test_flags_that_do_not_fit():
    for words, message in {
        "--offline_where newest=9": "--offline_where needs --offline_data",
        "--offline-share .5": "--offline_share needs --offline_data",
        "--total_env_steps 0 --offline-data x": "needs --offline_data to learn from, and --updates",
        "--updates 10 --offline-data x": "--updates 10 is for learning from data alone",
        f"{ALONE} --learning_starts 1": "--learning_starts applies to runs with",
        "--buffer ModelBased --offline-data x --offline-share .2": "ModelBased adds the recorded rows to its real",
        "--trainer IMPALA --offline-data x": "IMPALA learns from unrolls",
        "--preset rlpd": "preset rlpd needs --offline_data",
    }.items():
        with pytest.raises(UsageError, match=message):
            resolve_settings(make_parser().given(words.split()))


def test_unsuitable_data_is_rejected_in_one_line(name, tmp_path, capsys):
    for words, message in (
        (["--offline-data", "nowhere/at/all"], "does not exist; expected a Minari dataset"),
        (["--env", "InvertedPendulum-v5"], "belongs to another environment"),
        (["--buffer", "Elite"], "lacks the column behavior, which Elite needs"),
    ):
        rejects(capsys, main, [*flags(tmp_path, "--offline-data", f"minari:{name}"), *words], message)


@pytest.mark.slow
def test_the_preset_of_rlpd(name):
    words = ["--preset", "rlpd", "--env", "Pendulum-v1", "--offline-data", f"minari:{name}", "--hiddens", "8"]
    settings = resolve_settings(make_parser().given([*words, "--learning_starts", "30", "--train_batch_size", "8"]))
    made = configure(settings)
    assert made.replay_buffer_config["shares"] == {"offline": (0.5, 0.5)}
    algorithm = made.training(steps_per_iteration=33).evaluation(evaluation_interval=None).build_algo()
    algorithm.train()
    nets = algorithm.learner.single_module.nets
    assert (nets.critics.count, algorithm.learner.updates) == (10, 4 * 20)
    rule = algorithm.learner.update_rule
    assert (rule.settings.target_subset, rule.settings.policy_delay, rule.target_entropy) == (2, 20, -0.5)
    assert len(nets.critics.scales) == 1  # of layer normalization
