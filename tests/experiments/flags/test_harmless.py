"""Words of the original command lines that change nothing, and their short names."""

import pytest

from argument_parser import make_parser
from interreplay.errors import UsageError
from interreplay.experiments.commands import actor_learner, run_agent, study, train
from interreplay.experiments.commands.lcer import SWITCHES, VALUES, translate, translate_enjoy
from interreplay.experiments.flags.original_flags import ORIGINAL
from tests.experiments.commands.command_lines import rejects

READ = make_parser().given
HARMLESS = ORIGINAL["without_value"]
HARMLESS_VALUES = ORIGINAL["with_value"]
DEFAULT_VALUES = ORIGINAL["default_only"]
ALL = [f"--{name}" for name in HARMLESS]
ALL += [word for name in HARMLESS_VALUES for word in (f"--{name}", "3")]
ALL += [word for name, value in DEFAULT_VALUES.items() for word in (f"--{name}", value)]
COUNT = len(HARMLESS) + len(HARMLESS_VALUES) + len(DEFAULT_VALUES)


def test_flags_without_effect_are_accepted_with_one_line_each(capsys):
    assert READ([*ALL, "--seed", "3"]) == {"seed": 3}
    assert capsys.readouterr().out.count(" has no effect: ") == COUNT
    assert READ(["--verbose", "True", "--local-mode=True", "--env", "x"]) == {"env": "x"}


def test_flags_without_effect_are_not_suggested(capsys):
    with pytest.raises(SystemExit):
        READ(["--agent_nam", "x"])
    assert "unknown flag --agent_nam; --help all lists every flag" in capsys.readouterr().err


def test_removed_flags_name_their_replacement(capsys):
    for flag, instead in ORIGINAL["removed"].items():
        rejects(capsys, train.main, [f"--{flag}", "other"], f"unknown flag --{flag}; {instead}; ")


def test_names_with_one_dash():
    line = "-trainer TD3 -env Hopper-v2 -knn 50 -mixup -gp -batch=128 -lr_is_no_flag"
    with pytest.raises(SystemExit):
        READ(line.split())
    made = READ(line.split()[:-1])
    assert (made["trainer"], made["env"], made["kneighbors"]) == ("TD3", "Hopper-v2", 50)
    assert made["mixup_interpolation"] and made["gaussian_process"] and made["train_batch_size"] == 128


FIRST_LINE = (
    "-trainer TD3 -knn 50 -mixup -gp --prioritized_replay -mc_hyper --use_queue --local_mode -v -batch 64"
    " --framework torch --cpu_only --verbose=True"
)
"""First line of an inputs file, as in the original cluster script."""


def planned(tmp_path, first, *lines):
    (tmp_path / "inputs.txt").write_text("\n".join([first, *lines]))
    made, folder = study.read_new(study.make_parser().given(["-input_path", str(tmp_path / "inputs.txt")]))
    return [study.make_run_settings(made, folder, run) for run in made.runs]


def test_inputs_files_have_the_same_flags(tmp_path, capsys):
    (made,) = planned(tmp_path, " ".join(ALL), "3 Hopper-v2 True A 1 out SAC")
    assert capsys.readouterr().out.count(" has no effect: ") == COUNT
    (plain,) = planned(tmp_path, "", "3 Hopper-v2 True A 1 out SAC")
    assert made == plain and (made["seed"], made["buffer"]) == (3, "NMER")


def test_inputs_files_have_the_same_short_names_and_values_to_reject(tmp_path, capsys):
    blended, uniform = planned(tmp_path, FIRST_LINE, "0 Hopper-v2 True A 1 out TD3", "1 Hopper-v2 False B 1,20 out SAC")
    assert (blended["trainer"], blended["buffer"], blended["buffer_args"]["k"]) == ("TD3", "BIER", 50)
    assert (uniform["trainer"], uniform["buffer"], uniform["updates_per_step"]) == ("SAC", "PER", 20)
    assert blended["train_batch_size"] == uniform["train_batch_size"] == 64 and blended["prioritized"] is not None
    (tmp_path / "inputs.txt").write_text("--framework tf\n0 Hopper-v2 True A 1 out SAC\n")
    assert study.main(["--inputs", str(tmp_path / "inputs.txt"), "--count"]) == 2
    assert "line 1: unknown flag --framework" in capsys.readouterr().err
    known = {*HARMLESS, *DEFAULT_VALUES, "on_manifold_testing"}
    for name, flag in ORIGINAL["short"].items():
        assert f"--{flag}" in make_parser()._option_string_actions or flag in known, name


@pytest.mark.parametrize("program", ["train.py", "run_agent.py", "main.py", "cluster_run.py"])
def test_all_programs_accept_them(program, monkeypatch, capsys):
    """Each program passes the same flags to the training command with and without them."""
    passed = []
    monkeypatch.setattr(train, "main", lambda words: passed.append(READ(words)) or 0)

    def parse(words):
        match program:
            case "train.py":
                return READ(translate(words))
            case "run_agent.py":
                return READ(run_agent.translate(["configs=lunarlander/dqn", *words]))
            case "cluster_run.py":
                return study.make_parser().given(["--envs", "Hopper-v5", *words])
            case "main.py":
                assert actor_learner.act(["--op_mode=train", "--env=CartPole-v1", "--seed=1", *words]) == 0
                return passed[-1]

    bare = parse([])
    capsys.readouterr()
    assert parse(ALL) == bare
    assert capsys.readouterr().out.count(" has no effect: ") == COUNT


def test_settings_of_rlcycle_and_of_the_platform_without_effect(monkeypatch, capsys):
    for word in ("log_wandb=False", "render_train=false", "configs.experiment_info.log_wandb=False"):
        assert run_agent.translate(["configs=lunarlander/dqn", word]) == ["--config=lunarlander/dqn"]
        assert capsys.readouterr().out.count(" has no effect: ") == 1
    with pytest.raises(UsageError, match="unknown key 'log_wandb'"):
        READ(run_agent.translate(["configs=lunarlander/dqn", "log_wandb=True"]))
    monkeypatch.setattr(train, "main", lambda words: 0)
    assert actor_learner.act(["--op_mode=train", "--debug=False", "--shared_queue_size=8"]) == 0
    assert "--debug, --shared_queue_size has no effect: " in capsys.readouterr().out


def lcer(line):
    from argument_parser import resolve_settings

    return resolve_settings(READ(translate(line.split())))


def test_lcers_defaults():
    made = lcer("")
    assert (made.trainer, made.env, made.total_env_steps, made.buffer) == ("SAC", "Hopper-v2", 125_001, "Uniform")
    assert (made.initial_alpha, made.alpha_lr, made.seed, made.learning_starts) == (0.2, 0.0, 123_456, 5_000)
    assert made.hiddens == [256, 256] and made.checkpoint_freq == 0 and made.preset == "none"


def test_every_flag_of_lcer_is_known():
    for name in SWITCHES:
        if name not in ("her", "cuda"):
            assert translate([f"--{name}"])
    for name, (default, *_) in VALUES.items():
        assert translate([f"--{name}", str(default)]) == translate([]), name
    assert "--device=cuda" in translate(["--cuda"])


@pytest.mark.parametrize(
    ("line", "buffer", "arguments"),
    [
        ("--lcercc", "LCER", {"variant": "center", "n_clusters": 1000}),
        ("--lcerrm --n-clusters 7", "LCER", {"variant": "member", "n_clusters": 7}),
        ("--nmer --k-neighbors 3", "NMER", {"k": 3}),
        ("--per", "PER", {}),
        ("--algo her --her-replay-k 3 --env-name FetchReach-v1", "HER", {"strategy": "future", "k": 3}),
        (
            "--model-based --lcerrm",
            "ModelBased",
            {
                "real": {"type": "LCER", "variant": "member", "n_clusters": 1000},
                "real_share": 0.05,
                "fit_every": 250,
                "fit_rows": 100_000,
                "rollouts": 400,
                "keep_fits": 4,
                "rollout_length": [1, 15, 20_000, 150_000],
            },
        ),
    ],
)
def test_lcers_methods(line, buffer, arguments):
    made = lcer(line)
    assert (made.buffer, made.buffer_args) == (buffer, arguments)
    assert made.hiddens == [256] * (3 if "her " in line else 2)


def test_lcers_entropy_flag_enables_tuning_and_updates_follow_rollouts():
    made = lcer("--no-automatic-entropy-tuning --lr .1 --updates-per-step 0 --n-update-batches 40 --no-eval")
    assert (made.alpha_lr, made.actor_lr, made.critic_lr, made.evaluation_interval) == (0.1, 0.1, 0.1, 0)
    assert made.updates_per_step == 0.04, "Hopper has 1,000 steps per episode"


def test_values_after_an_equals_sign_keep_their_dashes():
    made = lcer("--env-name=InvertedPendulum-v5 --target-entropy=-2 --lr=1e-3 --output-dir=my-runs")
    assert (made.env, made.target_entropy, made.actor_lr) == ("InvertedPendulum-v5", -2, 1e-3)
    assert made.output_dir == "my-runs"


@pytest.mark.parametrize("line", ["--resume my-runs/a-b --seed 3", "--resume=my-runs/a-b --seed 3"])
def test_a_run_is_resumed_without_lcers_defaults(line):
    assert translate(line.split()) == line.split()


def test_lcers_words_to_watch(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("interreplay.experiments.commands.lcer.has_screen", lambda: False)
    line = ["--checkpoint", str(tmp_path / "run"), "--n-enjoy-episodes", "3"]
    assert translate_enjoy(line) == [str(tmp_path / "run"), "--episodes", "3"]
    assert "no screen" in capsys.readouterr().out
    video = ["--video", str(tmp_path / "run.gif"), "--video_episodes", "3"]
    assert translate_enjoy([*line, "--make-gif", "--gif-image-width", "90"])[3:] == video
    assert "--gif-image-width has no effect" in capsys.readouterr().out
    with pytest.raises(UsageError, match="expected a trained policy"):
        translate_enjoy([*line, "--random-actions"])
