"""Words of the original command lines that change nothing, and their short names."""

import pytest

from argument_parser import make_parser
from interreplay.errors import UsageError
from interreplay.experiments.commands.lcer import SWITCHES, VALUES, enjoyed, translated
from interreplay.experiments.flags.harmless import DEFAULT_VALUES, HARMLESS, HARMLESS_VALUES

READ = make_parser().given


def test_flags_without_effect_are_accepted_with_one_line_each(capsys):
    words = [f"--{name}" for name in HARMLESS]
    words += [word for name in HARMLESS_VALUES for word in (f"--{name}", "3")]
    words += [word for name, value in DEFAULT_VALUES.items() for word in (f"--{name}", value)]
    assert READ([*words, "--seed", "3"]) == {"seed": 3}
    assert capsys.readouterr().out.count(" has no effect: ") == len(HARMLESS) + len(HARMLESS_VALUES) + len(
        DEFAULT_VALUES
    )
    assert READ(["--verbose", "True", "--local-mode=True", "--env", "x"]) == {"env": "x"}


@pytest.mark.parametrize("words", ["--framework tf", "--restore_path runs/a", "--noise_multiple 0.5"])
def test_other_values_are_rejected(words, capsys):
    with pytest.raises(SystemExit):
        READ(words.split())
    assert f"unknown flag {words.split()[0]}; " in capsys.readouterr().err


def test_names_with_one_dash():
    line = "-trainer TD3 -env Hopper-v2 -knn 50 -mixup -gp -batch=128 -lr_is_no_flag"
    with pytest.raises(SystemExit):
        READ(line.split())
    made = READ(line.split()[:-1])
    assert (made["trainer"], made["env"], made["kneighbors"]) == ("TD3", "Hopper-v2", 50)
    assert made["mixup_interpolation"] and made["gaussian_process"] and made["train_batch_size"] == 128


def lcer(line):
    from argument_parser import settings_for

    return settings_for(READ(translated(line.split())))


def test_lcers_defaults():
    made = lcer("")
    assert (made.trainer, made.env, made.total_env_steps, made.buffer) == ("SAC", "Hopper-v2", 125_001, "Uniform")
    assert (made.initial_alpha, made.alpha_lr, made.seed, made.learning_starts) == (0.2, 0.0, 123_456, 5_000)
    assert made.hiddens == [256, 256] and made.checkpoint_freq == 0 and made.preset == "none"


def test_every_flag_of_lcer_is_known():
    for name in SWITCHES:
        if name not in ("her", "cuda"):
            assert translated([f"--{name}"])
    for name, default in VALUES.items():
        assert translated([f"--{name}", str(default)]) == translated([]), name
    assert "--device=cuda" in translated(["--cuda"])


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


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--updates-per-step 0", "expected one of --updates-per-step and --n-update-batches"),
        ("--lcercc --lcerrm", "expected one of them"),
        ("--target-update-interval 2", "expected 1"),
        ("--model-based --per", "without priorities"),
    ],
)
def test_contradictions_of_lcer(line, why):
    with pytest.raises(UsageError, match=why):
        translated(line.split())


def test_lcers_words_to_watch(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("interreplay.experiments.commands.lcer.has_screen", lambda: False)
    line = ["--checkpoint", str(tmp_path / "run"), "--n-enjoy-episodes", "3"]
    assert enjoyed(line) == [str(tmp_path / "run"), "--episodes", "3"] and "no screen" in capsys.readouterr().out
    video = ["--video", str(tmp_path / "run.gif"), "--video_episodes", "3"]
    assert enjoyed([*line, "--make-gif", "--gif-image-width", "90"])[3:] == video
    assert "--gif-image-width has no effect" in capsys.readouterr().out
    with pytest.raises(UsageError, match="expected a trained policy"):
        enjoyed([*line, "--random-actions"])
