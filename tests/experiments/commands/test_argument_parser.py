"""The flags: each has a type and an effect, and the forms of the original work keep their meaning."""

from pathlib import Path

import pytest

import argument_parser
from argument_parser import GROUPS, make_parser, resolve_settings, settings_resumed
from custom_training import main
from interreplay.errors import UsageError
from interreplay.experiments.flags.run_flags import INVOCATION, METHOD
from interreplay.learning.setting_fields import Boolean
from tests.experiments.commands.command_lines import given

ROOT = Path(__file__).resolve().parents[3]
FLAGS = {flag.name: flag for flags in GROUPS.values() for flag in flags}


MEANINGS = {
    "": ("Uniform", {}),
    "--trainer SAC --env InvertedPendulum-v2 --custom_replay_buffer True --knn_baseline": ("NMER", {}),
    "--trainer SAC --env HalfCheetah-v2 --custom_replay_buffer False": ("Uniform", {}),
    "--custom_replay_buffer False --prioritized_replay": ("PER", {}),
    "--prioritized_replay --prioritized_replay_alpha .7": ("PER", {"alpha": 0.7}),
    "--prioritized_replay --use_importance_sampling": ("PER", {}),
    "--mixup_interpolation --kneighbors 5 --mixup_alpha .4": ("NMER", {"k": 5, "alpha": 0.4}),
    "--knn_baseline False": ("Uniform", {}),
    "--knn_baseline --prob_interpolation .8": ("NMER", {"prob_interpolation": 0.8}),
    "--knn_baseline --interp_decay_rate .5": ("NMER", {"interp_decay": 0.5}),
    "--buffer NMER --buffer-arg k=10 --buffer_arg alpha=.5": ("NMER", {"k": 10, "alpha": 0.5}),
    "--buffer NMER --knn_baseline --kneighbors 3": ("NMER", {"k": 3}),
    "--buffer PER --custom_replay_buffer False --prioritized_replay": ("PER", {}),
    "--naive_mixup_baseline --mixup_alpha .2": ("NaiveMixup", {"alpha": 0.2}),
    "--ct_baseline --custom_replay_buffer True": ("ContinuousTransition", {}),
    "--s4rl_baseline": ("S4RL", {}),
    "--smote_interpolation --kneighbors 4": ("NMER", {"k": 4, "alpha": 1.0}),
    "--smote_interpolation --naive_mixup_baseline": ("NaiveMixup", {"alpha": 1.0}),
    "--gaussian_process": ("BIER", {}),
    "--gpytorch --mc_hyper": ("BIER", {"hyperparameters": "monte_carlo"}),
    "--gpytorch --global_hyperparams --mc_hyper False": ("BIER", {"hyperparameters": "rows"}),
    "--gpytorch --global_hyperparams False": ("BIER", {"hyperparameters": "local"}),
    "--buffer BIER --kernel matern --matern_nu 1.5 --composite_kernel --use_priors --standardize_gpr_x --train_size 32"
    " --retrain_interval 500 --warmstart_global False --sample_gp_cov --weighted_updates": (
        "BIER",
        {"kernel": "matern", "nu": 1.5, "composite": True, "priors": True, "scaling": "standardize", "train_size": 32}
        | {"retrain_interval": 500, "warm_start": False, "sample_posterior": True, "weighted_updates": True},
    ),
    "--gpytorch --gp_pca --fp32 False --use_botorch --perform_holdout_eval --mixup_alpha .4 --kneighbors 8": (
        "BIER",
        {"pca_components": 8, "precision": "float64", "optimizer": "lbfgs", "holdout_split": 0.2}
        | {"priors": True, "alpha": 0.4, "k": 8},
    ),
    "--gpytorch --gp_pca --gp_pca_components 3 --perform_holdout_eval --holdout_split .3 --mixup_interpolation"
    " --standardize_gpr_x False": ("BIER", {"pca_components": 3, "holdout_split": 0.3, "scaling": "none"}),
}
NO_WEIGHTS = {"beta": 0.0, "final_beta": 0.0}
WITH_PRIORITIES = {
    "--custom_replay_buffer True --prioritized_replay True": ("NMER", {}, {}, False),
    "--buffer NMER --prioritized_replay": ("NMER", {}, {}, False),
    "--noisy_replay_baseline --prioritized_replay": ("Noise", {}, {}, False),
    "--knn_baseline --prioritized_replay --prioritized_replay_beta .5 --prioritized_replay_eps 1e-3"
    " --interp_prio_update": ("NMER", {}, {"beta": 0.5, "eps": 1e-3}, True),
    "--prioritized_replay --use_importance_sampling False --knn_baseline": ("NMER", {}, NO_WEIGHTS, False),
    "--trainer SAC --env Walker2d-v2 --custom_replay_buffer True --prioritized_replay --gaussian_process --gpytorch"
    " --mc_hyper --mean_type zero --kernel rbf --use_ard --use_delta --normalize --global_hyperparams": (
        "BIER",
        {"kernel": "rbf", "ard": True, "mean": "zero", "hyperparameters": "monte_carlo", "scaling": "minmax"},
        {},
        False,
    ),
}
"""Methods that draw by priorities; the last part is whether neighbors get priorities, too."""


def test_what_the_replay_flags_mean():
    without = {line: (*expected, None, False) for line, expected in MEANINGS.items()}
    for line, expected in (without | WITH_PRIORITIES).items():
        found = resolve_settings(given(line))
        assert (found.buffer, found.buffer_args, found.prioritized, found.credit_both) == expected, line


def test_round_robin_weights():
    for text, expected in {"1": 1, "2.5": 2.5, "1 1": 1, "1,20": 20, "[1, 20]": 20, "'(2, 1)'": 0.5}.items():
        assert resolve_settings(given(f"--round_robin_weights {text} --seed 3")).updates_per_step == expected


def test_two_numbers_may_be_negative():
    assert given("--value_range -10,10")["value_range"] == given("--value-range=-10,10")["value_range"] == (-10.0, 10.0)


def test_an_algorithm_brings_its_replay_method_and_length_of_returns():
    shown = lambda line: resolve_settings(given(f"--env CartPole-v1 --preset none --trainer {line}"))
    rainbow, dqn = shown("Rainbow"), shown("DQN")
    assert (rainbow.buffer, rainbow.buffer_args, rainbow.n_step, rainbow.dueling) == ("PER", {"alpha": 0.5}, 3, True)
    assert (dqn.buffer, dqn.buffer_args, dqn.n_step, dqn.value_range) == ("Uniform", {}, 1, [-10.0, 10.0])
    other = shown("Rainbow --buffer CER --n_step 1 --double False")
    assert (other.buffer, other.buffer_args, other.n_step, other.double) == ("CER", {}, 1, False)
    assert shown("Rainbow --buffer-arg beta=.5").buffer_args == {"alpha": 0.5, "beta": 0.5}
    assert shown("DQN --prioritized_replay").buffer == "PER"


def test_booleans_stand_alone_or_with_a_value():
    for name in (name for name, flag in FLAGS.items() if isinstance(flag.type, Boolean)):
        assert given(f"--{name}") == {name: True}
        assert given(f"--{name} False --seed 1") == {name: False, "seed": 1}


def test_every_default_is_what_its_reader_accepts():
    for flag in FLAGS.values():
        if isinstance(flag.default, bool | int | float):
            assert flag.type(str(flag.default)) == flag.default


def test_every_flag_reaches_the_settings_or_the_translation():
    settings = set().union(*(vars(resolve_settings({"trainer": trainer})) for trainer in argument_parser.TRAINERS))
    for name in FLAGS:
        assert name in settings or name in METHOD or name in INVOCATION
    source = "".join(path.read_text() for path in [*ROOT.glob("*.py"), *(ROOT / "interreplay").rglob("*.py")])
    for name in set(FLAGS) - METHOD:
        assert f".{name}" in source or f'"{name}"' in source, f"--{name} is read nowhere"


def test_the_catalogue_is_listed(capsys):
    assert main(["--list-buffers"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(argument_parser.CATALOGUE)
    assert all(len(line.split(maxsplit=1)[1]) > 30 for line in lines)


def test_values_of_buffer_arguments():
    for text, expected in {
        **{"10": 10, ".75": 0.75, "1e-3": 1e-3, "true": True, "False": False, "null": None, "None": None},
        **{"center": "center", "[1, 2]": [1, 2], "(1, 2)": [1, 2], "'10'": "10", "1j": "1j", "": ""},
    }.items():
        ((name, value),) = given(f'--buffer-arg "x={text}"')["buffer_arg"]
        assert (name, value, type(value)) == ("x", expected, type(expected))


def test_defaults_of_an_algorithm_give_way_to_flags():
    shown = lambda line: resolve_settings(given(f"--env HalfCheetah-v5 {line}"))
    td3, ddpg = shown("--trainer TD3"), shown("--trainer DDPG --hiddens 64,64 --exploration_sigma .4")
    assert (td3.hiddens, td3.policy_delay, td3.exploration, td3.exploration_sigma) == ([256, 256], 2, "Gaussian", 0.1)
    assert (ddpg.hiddens, ddpg.actor_lr, ddpg.critic_lr, ddpg.tau) == ([64, 64], 1e-4, 1e-3, 1e-3)
    assert (ddpg.exploration, ddpg.exploration_sigma, ddpg.train_batch_size) == ("OrnsteinUhlenbeck", 0.4, 64)
    assert not hasattr(td3, "alpha_lr") and not hasattr(ddpg, "policy_delay") and shown("").policy_delay == 1
    # Other kinds of noise have different default scales.
    assert shown("--trainer DDPG --exploration Gaussian").exploration_sigma == 0.1
    assert shown("--trainer TD3 --exploration OrnsteinUhlenbeck --exploration_theta .3").exploration_sigma == 0.2


def test_help_shows_the_default_of_every_algorithm():
    text = " ".join(make_parser().format_help().split())
    assert "default: 0.005 (SAC, TQC, TD3), 0.001 (DDPG)" in text
    assert "(default: 1.0 (SAC, TQC, CrossQ))" in text and "(default: 25 (TQC))" in text
    assert "(default: 0.15 (TD3, DDPG))" in text and "DQN with its variants" in text


def saved():
    return vars(resolve_settings(given("--buffer NMER --buffer-arg k=5 --hiddens 8 8")))


def test_resuming_takes_the_checkpoints_settings():
    settings = settings_resumed(saved(), given("--resume x --total_env_steps 99999 --quiet"))
    assert (settings.buffer, settings.buffer_args, settings.total_env_steps) == ("NMER", {"k": 5}, 99_999)
    assert settings.quiet is True
    compiled = saved() | {"torch_compile": True}  # the machine that resumes may lack a compiler
    assert settings_resumed(compiled, given("--resume x --torch_compile false")).torch_compile is False


def test_resuming_accepts_equal_settings():
    for line in (
        "--buffer NMER --kneighbors 5 --hiddens 8,8 --env InvertedPendulum-v2 --gamma .99",
        "--buffer NMER",
        "--knn_baseline --prioritized_replay False",
        "--kneighbors 5",
    ):
        assert vars(settings_resumed(saved(), given(f"--resume x {line}"))) == saved()


def test_resuming_rejects_different_settings():
    for line, parts in {
        "--env Hopper-v5": ["env InvertedPendulum-v5", "Hopper-v5"],
        "--buffer Uniform": ["buffer", "NMER", "Uniform"],
        "--knn_baseline --kneighbors 6": ["buffer_args {'k': 5}", "{'k': 6}"],
        "--prioritized_replay --knn_baseline": ["prioritized None, not {}"],
        "--custom_replay_buffer False": ["buffer NMER, not Uniform"],
        "--gamma .9": ["gamma 0.99, not 0.9; leave the flag out (a resumed run may change no learning"],
        "--buffer_size 500000": ["buffer_size 1000000", "500000"],
    }.items():
        with pytest.raises(UsageError) as caught:
            settings_resumed(saved(), given(f"--resume x {line}"))
        for part in ["the checkpoint was made with", *parts]:
            assert part in str(caught.value)


def test_a_checkpoint_from_before_a_setting_existed_is_resumed_with_its_default():
    saved = vars(resolve_settings({"seed": 3})) | {"round_robin_weights": 2.0}
    for newer in ("normalize_observations", "updates_per_step", "target_entropy"):
        del saved[newer]
    resumed = settings_resumed(saved, {"quiet": True})
    assert (resumed.normalize_observations, resumed.updates_per_step, resumed.target_entropy) == (False, 2.0, "auto")


def test_settings_of_a_run_are_read_only():
    settings = resolve_settings({})
    with pytest.raises(AttributeError, match="read-only: cannot set seed to 3"):
        settings.seed = 3
    assert settings.replace(seed=3).seed == 3 and settings.seed == 0
