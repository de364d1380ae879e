"""Commands in the READMEs of the original systems run word by word; `test_printed_commands.py` runs the others."""

import json
import shlex

import pytest

import main as platform
import run_agent
import train
from custom_training import main
from interreplay.experiments.flags.original_flags import REMOVED
from interreplay.experiments.rllib_command import main as rllib
from tests.experiments.commands.command_lines import rejects

RLCYCLE = [
    "configs=atari/rainbow_dqn configs.experiment_info.env.name=AlienNoFrameskip-v4",
    "configs=pybullet/sac configs.hyper_params.batch_size=64",
]
"""Commands that run. The others differ in one word, which `test_run_agent.py` and `test_configurations.py` read."""
QUEUES = (
    '[{"type": "queue", "capacity": 1, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 1000, "sample_ratio": 0.5}]'
)
ELITE = (
    '[{"type": "custom", "capacity": 1000, "sample_ratio": 0.5, "dist_function":"ln_norm",'
    ' "sample_strategy":"elite_sampling", "lambda_batch_multiplier":6, "alfa_annealing_factor":2.0} ,'
    '{"type": "queue", "capacity": 1, "sample_ratio": 0.5}]'
)
PONG = "--op_mode=train --env=PongNoFrameskip-v4 --environment_max_steps=1000000"


def last_row(folder):
    (run,) = folder.iterdir()
    return run, json.loads((run / "result.json").read_text().splitlines()[-1])


@pytest.mark.slow
def test_nmer_baselines_by_rllib(tmp_path):
    line = "train --run SAC --env CartPole-v0"
    assert rllib.main([*line.split(), "--stop", '{"env_steps": 200}', "--local-dir", str(tmp_path)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("line", RLCYCLE)
def test_rlcycle(line, tmp_path, capsys):
    pixels = "conv_dtype=float32 encoder=shallow" if "atari" in line else ""
    rows = "learning_starts=60 buffer_size=1000"
    short = f"total_env_steps=200 evaluation_interval=0 checkpoint_freq=0 hiddens=8,8 {rows} {pixels}"
    assert run_agent.main([*line.split(), *short.split(), "--quiet", f"local_dir={tmp_path}"]) == 0
    assert last_row(tmp_path)[1]["num_env_steps_sampled_lifetime"] >= 200
    assert ("MuJoCo" in capsys.readouterr().out) == ("pybullet" in line)


@pytest.mark.slow
def test_the_platform(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    line = f"{PONG} --batch_size=10 --r_f_steps=10 --worker_count=2 --envs_per_worker=2"
    short = ["--environment_max_steps=200"]
    assert platform.main([*line.split(), f"--replay_parameters={QUEUES}", *short]) == 0
    run, row = last_row(tmp_path / "results")
    assert row["num_env_steps_sampled_lifetime"] >= 200
    load = f"--op_mode=train_w_load --environment_max_steps=400 --load_model_url={run}"
    assert platform.main([*load.split(), "--env=PongNoFrameskip-v4", "--batch_size=10"]) == 0
    assert last_row(tmp_path / "results")[1]["num_env_steps_sampled_lifetime"] >= 400
    assert platform.main([*load.split(), "--env=BreakoutNoFrameskip-v4"]) == 2
    test = f"--op_mode=test --test_episode_count=1 --load_model_url={run}".split()
    capsys.readouterr()
    assert platform.main([*test, "--render=True"]) == 2
    error = capsys.readouterr().err
    assert "--render=False" in error and f"interreplay evaluate {run} --video FILE.gif" in error


@pytest.mark.slow
def test_the_platform_with_elite_sampling(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = "--environment_max_steps=300 --batch_size=4 --r_f_steps=10 --worker_count=1 --envs_per_worker=2"
    sooner = "--training_fill_in_factor=.01"
    assert platform.main([*PONG.split(), f"--replay_parameters={ELITE}", *short.split(), sooner]) == 0
    assert last_row(tmp_path / "results")[1]["learners"]["default_policy"]["replayed_share"] > 0


LCER = "--num-steps 120 --start-steps 60 --batch-size 16 --hidden-size 8 --eval-timesteps 60 --no-eval"


@pytest.mark.slow
@pytest.mark.parametrize("line", ["", "--lcerrm --n-clusters 10", "--nmer --per", "--model-based --lcerrm"])
def test_lcer(line, tmp_path):
    fits = "--update-env-model 100 --n-rollout-samples 600" if "model" in line else ""
    words = shlex.split(f"{line} {LCER} {fits}")
    assert train.main([*words, "--save-agent", "--quiet", "--output_dir", str(tmp_path)]) == 0
    run, row = last_row(tmp_path)
    assert row["num_env_steps_sampled_lifetime"] == 120
    assert json.loads((run / "params.json").read_text())["env"] == "Hopper-v5"


# Flags that make each command small; the commands contain none of them.
SMALL = (
    "--total_env_steps 100 --steps_per_iteration 100 --learning_starts 60 --train_batch_size 16 --buffer_size 1000"
    " --hiddens 8,8 --evaluation_interval 0 --checkpoint_freq 0 --quiet"
).split()
COMMANDS = {
    "--trainer SAC --env HalfCheetah-v2 --custom_replay_buffer False": "Uniform",
    "--trainer SAC --env Walker2d-v2 --custom_replay_buffer True --prioritized_replay --gaussian_process --gpytorch"
    " --mc_hyper --mean_type zero --kernel rbf --use_ard --use_delta --normalize --global_hyperparams": "BIER",
}
# Flags that its cluster script passed to every run, without flags about machines.
CLUSTER = (
    "--use_delta --gaussian_process --gpytorch --kneighbors 50 --prioritized_replay --mixup_interpolation"
    " --retrain_interval 1000 --kernel matern --mean_type zero --matern_nu 1.5 --global_hyperparams --use_ard"
    " --normalize --mc_hyper --interp_prio_update"
)
COMMANDS |= {
    f"--seed 1 --env Hopper-v2 --custom_replay_buffer True --round_robin_weights 1 --trainer TD3 {CLUSTER}": "BIER",
    "--trainer TD3 --env InvertedPendulum-v2 --custom_replay_buffer False --prioritized_replay": "PER",
}


@pytest.mark.slow
@pytest.mark.parametrize(("line", "method"), COMMANDS.items(), ids=COMMANDS)
def test_the_original_interreplay(line, method, tmp_path, capsys):
    assert main([*line.split(), *SMALL, "--local_dir", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    (folder,) = tmp_path.iterdir()
    params = json.loads((folder / "params.json").read_text())
    trainer = line.split("--trainer ")[1].split()[0]
    assert (params["trainer"], params["buffer"], params["env"][-2:]) == (trainer, method, "v5")
    assert (params["prioritized"] is not None) == ("--prioritized_replay" in line and method != "PER")
    assert "is retired; using" in out
    last = json.loads((folder / "result.json").read_text().splitlines()[-1])
    assert last["learners"]["default_policy"]["num_updates_lifetime"] == 41


def test_removed_flags_name_their_replacement(capsys):
    for flag, instead in REMOVED.items():
        words = ["--trainer", "SAC", f"--{flag}", "other"]
        rejects(capsys, main, words, f"unknown flag --{flag}; {instead}; ")
