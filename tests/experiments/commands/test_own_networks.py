"""Layers, encoders, losses and explorations of a user: the file of docs/networks.md trains, resumes and is exported."""

import json
import re
from pathlib import Path

import pytest
import torch

import custom_training
import interreplay
from interreplay.environments.own_modules import import_user_class
from interreplay.experiments.commands import main as command
from interreplay.learning.exploration import Exploration, make_exploration
from interreplay.learning.losses import CriticLoss, Huber, build_loss, make_loss
from tests.experiments.commands.command_lines import rejects, settings, users_folder

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "networks.md").read_text()
SHORT = "--total_env_steps 100 --evaluation_interval 0 --quiet".split()
ROWS = "--learning_starts 60 --buffer_size 500".split()
ONE = {"type": "my_networks:LogCosh", "scale": 0.5}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Use a current folder with the files of the page."""
    (module,) = (block for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S) if "class Sticky" in block)
    (config,) = re.findall(r"^```yaml\n(# own.yaml.*?)^```$", PAGE, re.M | re.S)
    (tmp_path / "own.yaml").write_text(config)
    yield from users_folder(tmp_path, monkeypatch, my_networks=module)


def trained(folder, *words):
    """Return the folder of a short run."""
    before = set(folder.glob("runs/*"))
    assert custom_training.main([*SHORT, "--output_dir", str(folder / "runs"), *words]) == 0
    (run,) = set(folder.glob("runs/*")) - before
    return run


def test_the_page_is_read(folder):
    made = settings("--config", "own.yaml")
    assert made.critic_loss == "my_networks:LogCosh"
    assert made.exploration == {"type": "my_networks:Sticky", "p": 0.1}
    assert made.encoder == {"type": "my_networks:Squares", "scale": 0.5}
    flags = "--trainer DQN --env CartPole-v1 --critic_loss my_networks:LogCosh scale=0.5 --exploration Greedy"
    assert settings(*flags.split()).critic_loss == ONE and settings(*flags.split()).exploration == "Greedy"


def test_losses_and_explorations_are_made_of_names():
    errors = torch.linspace(-3.0, 3.0, 7).expand(2, -1)
    expected = 0.25 * (errors.double() / 0.5).cosh().log()
    assert torch.allclose(make_loss(ONE).values(errors).double(), expected, atol=1e-6)
    assert build_loss(None, None, {"type": "Huber", "delta": 2.0}) == Huber(2.0)
    made = make_exploration({"type": "my_networks:Sticky", "p": 0.5})
    assert isinstance(made, Exploration) and made.p == 0.5
    assert import_user_class("my_networks:LogCosh", CriticLoss, "critic_loss") is type(make_loss(ONE))


WRONG = {
    "--critic_loss my_networks:LogCosh size=3": "unexpected keyword argument 'size'",
    "--critic_loss Huber --pal_alpha .3": "pal_alpha is 0.3 and critic_loss is Huber; expected one of them",
    "--exploration my_networks:LogCosh": "LogCosh is not a subclass of Exploration",
    "--encoder my_networks:LogCosh": "LogCosh is not a subclass of Module",
    "--encoder my_networks:Residual in_features=3": "encoder my_networks:Residual: ",
    "--encoder my_networks:Squares --normalize_observations": "expected normalize_observations False",
    "--trainer C51 --env CartPole-v1 --critic_loss Huber": "distributions have their own loss",
    "--critic_loss my_networks:LogCosh scale": "such as sigma=0.2 or 'none', got 'my_networks:LogCosh scale'",
}


def test_errors_are_one_line(folder, capsys):
    for words, message in WRONG.items():
        line = f"--trainer SAC --env Pendulum-v1 --output_dir {folder}/runs {words}"
        rejects(capsys, custom_training.main, [*line.split(), *SHORT], message)


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "env"), [("DQN", "CartPole-v1"), ("TD3", "Pendulum-v1"), ("A2C", "CartPole-v1")])
def test_a_name_of_a_built_in_loss_equals_its_setting(folder, trainer, env):
    """`Huber` by name is `huber_delta`; for unrolls, `Squared` is the default."""
    one = ["--critic_loss=Huber"]
    other = ["--huber_delta=1"]
    if trainer == "A2C":
        one = ["--critic_loss=Squared"]
        other = []
    words = [f"--trainer={trainer}", f"--env={env}", "--hiddens=8,8", *([] if trainer == "A2C" else ROWS)]
    if trainer == "DQN":
        words.append("--grad_clip_by=norm")  # both without the update in numpy
    first, second = trained(folder, *words, *one), trained(folder, *words, *other)
    policies = [interreplay.load_policy(run).nets.state_dict() for run in (first, second)]
    assert all(torch.equal(policies[0][name], policies[1][name]) for name in policies[1])


OWN = "--critic_loss my_networks:LogCosh --encoder my_networks:Squares"
CASES = {
    "DQN": "--config own.yaml",
    "SAC": f"--trainer SAC --env Pendulum-v1 --hiddens 8,8 {OWN} --exploration my_networks:Sticky "
    '--network={"actor":["my_networks:Residual","Linear"],"critic":["my_networks:Residual","Linear"]}',
    "A2C": f"--trainer A2C --env CartPole-v1 --lr_end none {OWN} "
    '--network={"features":"my_networks:Residual","actor":["Linear"],"critic":["Linear"]}',
}


@pytest.mark.slow
@pytest.mark.parametrize("trainer", CASES)
def test_own_classes_train_resume_and_are_exported(folder, trainer, capsys):
    words = CASES[trainer].split() + ([] if trainer == "A2C" else ROWS)
    short = [*words, "--steps_per_iteration", "100"]
    whole = trained(folder, *short, "--total_env_steps", "200")
    part = trained(folder, *short)
    assert custom_training.main(["--resume", str(part), "--total_env_steps", "200"]) == 0
    policies = [interreplay.load_policy(run) for run in (whole, part)]
    torch.testing.assert_close(policies[0].nets.state_dict(), policies[1].nets.state_dict(), rtol=0, atol=0)
    params = json.loads((part / "params.json").read_text())
    assert "my_networks:LogCosh" in str(params["critic_loss"])
    for file in ("policy.onnx", "policy.pt2"):
        assert command.main(["export", str(part), "--to", str(folder / file)]) == 0
        assert (folder / file).is_file()
    assert "1,000 observations" in capsys.readouterr().out


def test_model_sets_networks_in_python(folder):
    from interreplay.rllib import A2CConfig, DQNConfig, SACConfig

    layers = [{"layer": "Linear", "out_features": 8}, "ELU", "Linear"]
    made = SACConfig().model(hiddens=(8, 8), actor=layers).model(critic=layers, encoder="my_networks:Squares")
    assert made.network == {"actor": layers, "critic": layers} and tuple(made.hiddens) == (8, 8)
    assert made.encoder == "my_networks:Squares" and made.copy().network == made.network
    assert DQNConfig().model(q=layers, dueling=False).network == {"q": layers}
    assert A2CConfig().model(network={"actor": layers, "critic": layers}).network["actor"] == layers
    with pytest.raises(TypeError, match="DQNConfig.model has no argument 'actor'"):
        DQNConfig().model(actor=layers)
