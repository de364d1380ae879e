"""run_agent.py: RLcycle's words and experiment files, and the settings that they stand for."""

import json
import sys

import pytest

from argument_parser import make_parser, resolve_settings
from interreplay.errors import UsageError
from interreplay.experiments.commands import run_agent
from interreplay.experiments.commands.run_agent import HARMLESS, INSTEAD, PREFIX, SETTINGS, translate

HYPER = "configs.hyper_params."


def settings(*words):
    return resolve_settings(make_parser().given(translate(words)))


def test_the_command_of_its_readme_keeps_its_meaning():
    made = settings("configs=atari/rainbow_dqn", "configs.hyper_params.batch_size=64")
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
        made = vars(settings(f"configs=cartpole/{name}", *(HYPER + word for word in words)))
        assert {setting: made[setting] for setting in expected} == expected, line


def test_actors_and_critics_have_theirs():
    rates = ("actor_learning_rate=.1", "critic_learning_rate=.2", "alpha_learning_rate=.3", "alpha=2", "tau=.5")
    words = [HYPER + rate for rate in rates]
    made = settings("configs=mujoco/sac", *words, "configs.experiment_info.env.name=Hopper-v5")
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
    assert settings("configs=lunarlander/rainbow", *ends).value_range == [-300, 300]


def test_environments_of_pybullet_are_mujocos(capsys):
    made = settings("configs=pybullet/sac", "configs.experiment_info.env.name=HalfCheetahPyBulletEnv-v0")
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


SHORT = "--total_env_steps 150 --learning_starts 60 --buffer_size 500 --evaluation_interval 0 --quiet".split()
EXPERIMENT = """
experiment_info:
  agent: rlcycle.dqn_base.agent.DQNBaseAgent
  learner: rlcycle.dqn_base.learner.DQNLearner
  loss: rlcycle.dqn_base.loss.CategoricalLoss
  device: cpu
  log_wandb: true
  env: {name: CartPole-v1, is_atari: false, max_episode_steps: 300}
  total_num_episodes: 10
  test_num: 2
defaults: [hyper_params: quick, models: small]
"""
QUICK = "batch_size: 16, use_per: true, per_alpha: 0.5, per_beta_max: 0.9, per_beta_total_steps: 9, tau: 0.01"
LINEAR, NOISY = (f"rlcycle.common.models.layers.{name}" for name in ("LinearLayer", "FactorizedNoisyLinearLayer"))


def layer(size, activation="relu", kind=LINEAR):
    return {"class": kind, "params": {"input_size": "undefined", "output_size": size, "post_activation_fn": activation}}


@pytest.fixture
def experiment(tmp_path):
    """Write an experiment as in RLcycle: a file, and files for hyperparameters and the model."""
    cfg = {"num_atoms": 11, "v_min": -5, "v_max": 5, "linear_features": layer(16)}
    cfg["advantage"] = {"fc1": layer(8, kind=NOISY), "fc2": layer("undefined", "identity", NOISY)}
    cfg["value"] = {"fc1": layer(8, kind=NOISY), "fc2": layer(1, "identity", NOISY)}
    model = {"model": {"class": "x.DuelingCategoricalDQN", "params": {"model_cfg": cfg}}}
    for path, text in (
        ("mine.yaml", EXPERIMENT),
        ("hyper_params/quick.yaml", f"hyper_params: {{{QUICK}, weight_decay: 0.0}}"),
        ("models/small.yaml", json.dumps(model)),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path / "mine.yaml"


def test_an_experiment_of_rlcycle_is_read(experiment):
    made = settings(f"configs={experiment}", "configs.hyper_params.batch_size=32")
    assert (made.trainer, made.env, made.buffer, made.horizon) == ("C51", "CartPole-v1", "PER", 300)
    assert made.buffer_args == {"alpha": 0.5, "final_beta": 0.9}
    assert (made.train_batch_size, made.tau, made.atoms, made.value_range) == (32, 0.01, 11, [-5, 5])
    assert list(made.network) == ["features", "value", "advantage"]
    assert made.network["features"] == {"linear": {"layer": "Linear", "out_features": 16}, "linear_activation": "ReLU"}
    assert made.network["value"]["fc2"] == {"layer": "NoisyLinear"}


def test_words_change_its_layers(experiment):
    word = "configs.model.params.model_cfg.linear_features.params.output_size=256"
    made = settings(f"configs={experiment}", word)
    assert made.network["features"]["linear"]["out_features"] == 256
    with pytest.raises(UsageError, match="the experiment has no such layer"):
        translate([f"configs={experiment}", word.replace("linear_features", "nothing")])
    with pytest.raises(UsageError, match="output_size must be a whole number of at least 1, got 'wide'"):
        translate([f"configs={experiment}", word.replace("256", "wide")])


CHANGES = [
    ("mine.yaml", "DQNBaseAgent", "MyAgent", "experiment_info.agent is .*MyAgent.*expected an agent of RLcycle"),
    ("mine.yaml", "quick", "slow", "hyper_params/slow.yaml does not exist"),
    ("models/small.yaml", "LinearLayer", "MyLayer", "model.linear_features.linear: class MyLayer has no equivalent"),
    ("models/small.yaml", ': 16, "', ': 16, "dilation": 2, "', "linear: dilation has no equivalent"),
]


def test_other_experiments_name_the_line_to_change(experiment):
    for file, old, new, message in CHANGES:
        path = experiment.parent / file
        text = path.read_text()
        path.write_text(text.replace(old, new, 1))
        with pytest.raises(UsageError, match=message):
            translate([f"configs={experiment}"])
        path.write_text(text)
    model = experiment.parent / "models" / "small.yaml"
    model.write_text(model.read_text().replace('"output_size": 16', '"output_size": 16, "init_w": 0.003'))
    assert translate([f"configs={experiment}"])


def perceptron(output, *more):
    """Return RLcycle's nested layers of a fully connected network."""
    return {"input": layer(8), "hidden": {"hidden1": layer(6)}, **output, **dict(more)}


AGENTS = {
    "dqn_base": ("DQNBaseAgent", "DQNLoss", "DDQN"),
    "quantiles": ("DQNBaseAgent", "QRLoss", "QRDQN"),
    "sac": ("SACAgent", None, "SAC"),
    "ddpg": ("DDPGAgent", None, "DDPG"),
    "a2c": ("A2CAgent", None, "A2C"),
    "a3c": ("A3CAgent", None, "A3C"),
}


@pytest.mark.parametrize("name", AGENTS)
def test_every_kind_of_experiment_is_read(experiment, name):
    """The structures of RLcycle's files: a value network, an actor with one or two outputs, and a critic."""
    agent, loss, trainer = AGENTS[name]
    text = EXPERIMENT.replace("dqn_base.agent.DQNBaseAgent", f"{name}.agent.{agent}")
    experiment.write_text(text.replace("dqn_base.loss.CategoricalLoss", f"{name}.loss.{loss}"))
    last = {"output": layer("undefined", "identity")}
    model: dict = {"params": {"model_cfg": {"fc": perceptron(last)}}}
    if loss is None:
        actor = perceptron(last)
        if name == "sac":
            actor = perceptron({"mu_stream": last, "log_sigma_stream": last})
        model = {"actor": actor, "critic": perceptron({"output": layer(1, "identity")})}
        model = {key: {"params": {"model_cfg": {"fc": layers}}} for key, layers in model.items()}
    elif loss == "QRLoss":
        model["params"]["model_cfg"]["num_quantiles"] = 4
    (experiment.parent / "models" / "small.yaml").write_text(json.dumps({"model": model}))
    hyper = {"gamma": 0.9, "actor_learning_rate": 0.01, "critic_learning_rate": 0.01}
    if loss is not None:
        hyper = {"gamma": 0.9, "learning_rate": 0.01}
    (experiment.parent / "hyper_params" / "quick.yaml").write_text(json.dumps({"hyper_params": hyper}))
    made = settings(f"configs={experiment}")
    assert (made.trainer, made.gamma) == (trainer, 0.9)
    streams = ["actor", "critic"] if loss is None else ["q"]
    assert list(made.network) == streams
    for layers in made.network.values():
        first, activation, second, _, final = layers.values()
        assert (first["out_features"], activation, second["out_features"]) == (8, "ReLU", 6)
        assert final == {"layer": "Linear"}


@pytest.mark.slow
def test_an_experiment_of_rlcycle_trains(experiment, tmp_path):
    assert run_agent.main([f"configs={experiment}", *SHORT, f"local_dir={tmp_path / 'runs'}"]) == 0
