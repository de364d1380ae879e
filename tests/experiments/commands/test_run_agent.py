"""run_agent.py: RLcycle's words, and the settings that they stand for."""

import sys

import pytest

from argument_parser import make_parser, resolve_settings
from interreplay.errors import UsageError
from interreplay.experiments.commands import run_agent
from interreplay.experiments.commands.run_agent import HARMLESS, INSTEAD, PREFIX, SETTINGS, translate

HYPER = "configs.hyper_params."


def settings(line):
    return resolve_settings(make_parser().given(translate(line.split())))


def test_the_command_of_its_readme_keeps_its_meaning():
    made = settings("configs=atari/rainbow_dqn configs.hyper_params.batch_size=64")
    assert (made.trainer, made.env, made.train_batch_size, made.n_step) == ("Rainbow", "ALE/Pong-v5", 64, 3)
    assert translate([]) == ["--config=atari/rainbow_dqn"] == translate(["configs=atari/rainbow_dqn"])
    assert translate(["--help"]) == ["--help"] and translate(["--resume", "x"]) == ["--resume", "x"]
    assert settings("configs.hyper_params.gamma=.5").trainer == "Rainbow", "what RLcycle trains by default"


MEANINGS = {
    "dqn replay_buffer_size=5000": {"buffer_size": 5000},
    "dqn update_starting_point=77": {"learning_starts": 77},
    "dqn train_freq=8": {"updates_per_step": 0.125, "rollout_fragment_length": 8},
    "dqn tau=.005": {"tau": 0.005, "target_update_period": 1},
    "dqn learning_rate=1e-3 adam_eps=1e-4": {"lr": 1e-3, "optimizer_eps": 1e-4},
    "dqn gradient_clip=5": {"grad_clip": 5.0},
    "dqn eps=.9 eps_final=.2": {"initial_epsilon": 0.9, "final_epsilon": 0.2},
    "dqn max_exploration_frame=50": {"epsilon_steps": 50},
    "dqn use_per=True per_alpha=.4 per_beta=.6": {"buffer": "PER", "buffer_args": {"alpha": 0.4, "beta": 0.6}},
    "dqn per_alpha=.4 use_per=True": {"buffer": "PER", "buffer_args": {"alpha": 0.4}},
    "dqn use_per=False": {"buffer": "Uniform", "buffer_args": {}},
    "rainbow use_per=False": {"buffer": "Uniform", "buffer_args": {}, "trainer": "Rainbow"},
}


def test_settings_keep_their_meaning():
    for line, expected in MEANINGS.items():
        name, *words = line.split()
        made = vars(settings(f"configs=cartpole/{name} {' '.join(HYPER + word for word in words)}"))
        assert {setting: made[setting] for setting in expected} == expected, line


def test_actors_and_critics_have_theirs():
    line = f"configs=mujoco/sac {HYPER}actor_learning_rate=.1 {HYPER}critic_learning_rate=.2 {HYPER}tau=.5"
    made = settings(f"{line} {HYPER}alpha_learning_rate=.3 {HYPER}alpha=2 configs.experiment_info.env.name=Hopper-v5")
    assert (made.actor_lr, made.critic_lr, made.alpha_lr, made.initial_alpha, made.tau) == (0.1, 0.2, 0.3, 2.0, 0.5)
    assert made.env == "Hopper-v5"


def test_every_word_names_a_flag_or_a_replacement():
    flags = make_parser().parse_args([]).__dict__.keys() | resolve_settings({}).__dict__.keys()
    known = {option.lstrip("-") for option in make_parser()._option_string_actions}
    assert flags and all(flag.partition(".")[0] in known for flag in SETTINGS.values())
    assert not SETTINGS.keys() & INSTEAD.keys()
    for key in INSTEAD.keys() - {key for key, values in HARMLESS.items() if not values}:
        with pytest.raises(UsageError, match=INSTEAD[key].split("(")[0]):
            translate(["configs=cartpole/dqn", f"{PREFIX}{key}=neither"])


def test_settings_without_effect_are_accepted_with_one_line(capsys):
    for key, values in HARMLESS.items():
        word = f"{PREFIX}{key}={(values or ('anything',))[0]}"
        assert translate(["configs=cartpole/dqn", word]) == ["--config=cartpole/dqn"]
        assert capsys.readouterr().out == f"{PREFIX}{key} has no effect: {INSTEAD[key]}\n"


def test_the_ends_of_the_range_are_given_together():
    ends = [f"configs.model.params.model_cfg.v_{end}" for end in ("min=-300", "max=300")]
    assert settings(f"configs=lunarlander/rainbow {' '.join(ends)}").value_range == [-300, 300]


def test_environments_of_pybullet_are_mujocos(capsys):
    made = settings("configs=pybullet/sac configs.experiment_info.env.name=HalfCheetahPyBulletEnv-v0")
    assert (made.trainer, made.env) == ("SAC", "HalfCheetah-v5")
    assert capsys.readouterr().out.count("MuJoCo") == 2


def test_without_arguments_it_prints_how_to_call_it(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run_agent.py"])
    assert run_agent.main([]) == 2
    out = capsys.readouterr().out
    assert out.startswith("usage: run_agent.py configs=NAME") and "cartpole/dqn, " in out
    with pytest.raises(SystemExit):
        run_agent.main(["--help"])
    out = capsys.readouterr().out
    assert out.startswith("usage: run_agent.py configs=NAME") and "--trainer ALGORITHM" in out
