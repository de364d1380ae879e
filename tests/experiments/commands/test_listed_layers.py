"""Listed layers on the command line and in files, and RLcycle's own experiment files."""

import json

import pytest
import yaml

import run_agent
from interreplay.errors import UsageError
from interreplay.experiments.commands.run_agent import translate
from tests.experiments.commands.command_lines import settings

NETWORK = {"q": {"fc1": {"layer": "Linear", "out_features": 16}, "act": "ReLU", "out": "Linear"}}
SHORT = "--total_env_steps 150 --learning_starts 60 --buffer_size 500 --evaluation_interval 0 --quiet".split()
LINEAR, NOISY = (f"rlcycle.common.models.layers.{name}" for name in ("LinearLayer", "FactorizedNoisyLinearLayer"))


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"trainer": "DQN", "env": "CartPole-v1", "network": NETWORK}))
    return str(tmp_path / "mine.yaml")


def test_a_file_a_flag_and_words_name_layers(file):
    assert settings("--config", file).network == NETWORK
    flag = ("--trainer", "DQN", "--env", "CartPole-v1", f"--network={json.dumps(NETWORK)}")
    assert settings(*flag).network == NETWORK and settings(*flag[:4]).network is None
    made = settings("--config", file, "network.q.fc1.out_features=32", "network.q.act=Tanh").network["q"]
    assert made == {"fc1": {"layer": "Linear", "out_features": 32}, "act": "Tanh", "out": "Linear"}


# --- RLcycle's files ---------------------------------------------------------------------------------------------


def layer(size, activation="relu", kind=LINEAR):
    return {"class": kind, "params": {"input_size": "undefined", "output_size": size, "post_activation_fn": activation}}


@pytest.fixture
def experiment(tmp_path):
    """Write an experiment as in RLcycle: a file, and files for hyperparameters and the model."""
    about = {
        "agent": "rlcycle.dqn_base.agent.DQNBaseAgent",
        "learner": "rlcycle.dqn_base.learner.DQNLearner",
        "loss": "rlcycle.dqn_base.loss.CategoricalLoss",
        "device": "cpu",
        "log_wandb": True,
        "env": {"name": "CartPole-v1", "is_atari": False, "max_episode_steps": 300},
        "total_num_episodes": 10,
        "test_num": 2,
    }
    defaults = [{"hyper_params": "quick"}, {"models": "small"}]
    hyper = {
        "batch_size": 16,
        "use_per": True,
        "per_alpha": 0.5,
        "per_beta_max": 0.9,
        "per_beta_total_steps": 9,
        "weight_decay": 0.0,
        "tau": 0.01,
    }
    cfg = {
        "num_atoms": 11,
        "v_min": -5,
        "v_max": 5,
        "linear_features": layer(16),
        "advantage": {"fc1": layer(8, kind=NOISY), "fc2": layer("undefined", "identity", NOISY)},
        "value": {"fc1": layer(8, kind=NOISY), "fc2": layer(1, "identity", NOISY)},
    }
    for path, contents in (
        ("mine.yaml", {"experiment_info": about, "defaults": defaults}),
        ("hyper_params/quick.yaml", {"hyper_params": hyper}),
        ("models/small.yaml", {"model": {"class": "x.DuelingCategoricalDQN", "params": {"model_cfg": cfg}}}),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(yaml.safe_dump(contents, sort_keys=False))
    return tmp_path / "mine.yaml"


def test_an_experiment_of_rlcycle_is_read(experiment):
    made = settings(*translate([f"configs={experiment}", "configs.hyper_params.batch_size=32"]))
    assert (made.trainer, made.env, made.buffer, made.horizon) == ("C51", "CartPole-v1", "PER", 300)
    assert made.buffer_args == {"alpha": 0.5, "final_beta": 0.9}
    assert (made.train_batch_size, made.tau, made.atoms, made.value_range) == (32, 0.01, 11, [-5, 5])
    assert list(made.network) == ["features", "value", "advantage"]
    assert made.network["features"] == {"linear": {"layer": "Linear", "out_features": 16}, "linear_activation": "ReLU"}
    assert made.network["value"]["fc2"] == {"layer": "NoisyLinear"}


def test_words_change_its_layers(experiment):
    word = "configs.model.params.model_cfg.linear_features.params.output_size=256"
    made = settings(*translate([f"configs={experiment}", word]))
    assert made.network["features"]["linear"]["out_features"] == 256
    with pytest.raises(UsageError, match="the experiment has no such layer"):
        translate([f"configs={experiment}", word.replace("linear_features", "nothing")])


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("mine.yaml", "DQNBaseAgent", "MyAgent", "experiment_info.agent is .*MyAgent.*expected an agent of RLcycle"),
        ("mine.yaml", "quick", "slow", "defaults: hyper_params: slow; there is no file"),
        (
            "models/small.yaml",
            "layers.LinearLayer",
            "layers.MyLayer",
            "model.linear_features.linear: class MyLayer has no equivalent",
        ),
    ],
)
def test_other_experiments_name_the_line_to_change(experiment, file, old, new, message):
    path = experiment.parent / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=message):
        translate([f"configs={experiment}"])


def test_other_arguments_name_the_line_to_change(experiment):
    model = experiment.parent / "models" / "small.yaml"
    contents = yaml.safe_load(model.read_text())
    contents["model"]["params"]["model_cfg"]["value"]["fc1"]["params"] |= {"init_w": 0.003}
    model.write_text(yaml.safe_dump(contents, sort_keys=False))
    assert translate([f"configs={experiment}"])
    contents["model"]["params"]["model_cfg"]["value"]["fc1"]["params"] |= {"dilation": 2}
    model.write_text(yaml.safe_dump(contents, sort_keys=False))
    with pytest.raises(UsageError, match="model.value.fc1: dilation has no equivalent; remove the line"):
        translate([f"configs={experiment}"])


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
    contents = yaml.safe_load(experiment.read_text())
    about = contents["experiment_info"]
    about["agent"] = f"rlcycle.{name}.agent.{agent}"
    about["loss"] = f"rlcycle.{name}.loss.{loss}"
    experiment.write_text(yaml.safe_dump(contents, sort_keys=False))
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
    (experiment.parent / "models" / "small.yaml").write_text(yaml.safe_dump({"model": model}, sort_keys=False))
    hyper = {"gamma": 0.9, "actor_learning_rate": 0.01, "critic_learning_rate": 0.01}
    if loss is not None:
        hyper = {"gamma": 0.9, "learning_rate": 0.01}
    (experiment.parent / "hyper_params" / "quick.yaml").write_text(yaml.safe_dump({"hyper_params": hyper}))
    made = settings(*translate([f"configs={experiment}"]))
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
