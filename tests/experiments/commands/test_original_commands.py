"""The commands in the README and the cluster script of the original work: each runs with its original meaning."""

import json

import pytest

from custom_training import main
from interreplay.experiments.flags.original_flags import REMOVED

# Flags that make each command small; the commands contain none of them.
SMALL = (
    "--total_env_steps 100 --steps_per_iteration 100 --learning_starts 60 --train_batch_size 16 --buffer_size 1000"
    " --hiddens 8,8 --evaluation_interval 0 --checkpoint_freq 0 --quiet"
).split()
README = {
    "--trainer SAC --env InvertedPendulum-v2 --custom_replay_buffer True --knn_baseline": "NMER",
    "--trainer SAC --env HalfCheetah-v2 --custom_replay_buffer False": "Uniform",
    "--trainer DDPG --env InvertedPendulum-v2 --custom_replay_buffer False --prioritized_replay": "PER",
    "--trainer SAC --env Walker2d-v2 --custom_replay_buffer True --prioritized_replay --gaussian_process --gpytorch"
    " --mc_hyper --mean_type zero --kernel rbf --use_ard --use_delta --normalize --global_hyperparams": "BIER",
}
# Flags that its cluster script passed to every run, without flags about machines.
CLUSTER = (
    "--use_delta --gaussian_process --gpytorch --kneighbors 50 --prioritized_replay --mixup_interpolation"
    " --retrain_interval 1000 --kernel matern --mean_type zero --matern_nu 1.5 --global_hyperparams --use_ard"
    " --normalize --mc_hyper --interp_prio_update"
)
COMMANDS = {
    **README,
    f"--seed 1 --env Hopper-v2 --custom_replay_buffer True --round_robin_weights 1 --trainer TD3 {CLUSTER}": "BIER",
    "--trainer TD3 --env InvertedPendulum-v2 --custom_replay_buffer False --prioritized_replay": "PER",
}


@pytest.mark.slow
@pytest.mark.parametrize(("line", "method"), COMMANDS.items(), ids=COMMANDS)
def test_it_runs(line, method, tmp_path, capsys):
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
    wrong = []
    for flag, instead in REMOVED.items():
        with pytest.raises(SystemExit) as caught:
            main(["--trainer", "SAC", f"--{flag}", "other"])
        error = capsys.readouterr().err
        if caught.value.code != 2 or error.count("\n") != 1 or f"unknown flag --{flag}; {instead}; " not in error:
            wrong.append(flag)
    assert wrong == []
