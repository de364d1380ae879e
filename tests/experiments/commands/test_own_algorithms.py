"""An algorithm that a user wrote, named as ``module:Class``: training, resuming, evaluation, export and studies."""

import re
import sys

import pytest
import torch
from test_own_parts import PAGE

from interreplay.errors import UsageError
from interreplay.experiments.commands import evaluate, export, train
from interreplay.experiments.commands.study import read_new
from interreplay.experiments.rllib_command.experiments import make_default_config
from interreplay.experiments.training.start import configure
from interreplay.learning.algorithms_table import ALGORITHMS
from tests.experiments.commands.command_lines import settings, users_folder

NAME = "my_alg:ClippedSAC"
TINY = (
    "--env Pendulum-v1 --learning_starts 60 --train_batch_size 16 --buffer_size 500 --hiddens 16,16 --quiet "
    "--total_env_steps 120 --evaluation_num_episodes 1 --steps_per_iteration 60 --checkpoint_freq 1"
).split()
MORE = """
import torch

from interreplay.learning.update import Update, UpdateResult
from interreplay.learning.value.dqn import DQNUpdate
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.rllib import DQN, DQNConfig, IMPALA, IMPALAConfig, SAC

class Values(DQNUpdate):
    pass

class ValuesConfig(DQNConfig):
    update_class = Values

class MyDQN(DQN):
    config_class = ValuesConfig

class Unrolls(IMPALAUpdate):
    pass

class UnrollsConfig(IMPALAConfig):
    update_class = Unrolls

class MyIMPALA(IMPALA):
    config_class = UnrollsConfig

class Still(Update):
    metrics = ("loss",)

    def __init__(self, nets, settings):
        self.optimizers = {"policy": torch.optim.Adam(nets.actor.parameters())}

    def learn(self, batch, rng):
        return UpdateResult(torch.zeros_like(batch.weights), torch.zeros(1))

class StillConfig(SACConfig):
    update_class = Still

class Sits(OffPolicyAlgorithm):
    config_class = StillConfig

class Renamed(SAC):
    pass

class NoConfig(OffPolicyAlgorithm):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Use a current folder with my_alg.py as on the page, and more_algs.py."""
    block = next(block for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    yield from users_folder(tmp_path, monkeypatch, my_alg=block, more_algs=f"{block}{MORE}")


def test_settings_and_presets_are_those_of_the_algorithm_that_it_derives_from(folder):
    own, sac = (vars(settings("--env", "Pendulum-v1", "--trainer", name)) for name in (NAME, "SAC"))
    assert own == sac | {"trainer": NAME}
    assert own["tau"] == 0.02, "of the environment's preset"
    assert settings("--trainer", NAME, "--preset", "droq").updates_per_step == 20
    assert ALGORITHMS["more_algs:MyIMPALA"].unrolls and ALGORITHMS["more_algs:MyDQN"].like == "DQN"


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("name", "update", "env"),
    [
        (NAME, "ClippedUpdate", "Pendulum-v1"),
        ("more_algs:MyDQN", "Values", "CartPole-v1"),
        ("more_algs:MyIMPALA", "Unrolls", "CartPole-v1"),
        ("more_algs:Renamed", "Update", "Pendulum-v1"),
    ],
)
def test_the_configuration_makes_its_algorithm_with_its_update(folder, name, update, env):
    of_unrolls = ["--num_envs_per_worker", "1"]
    made = settings("--trainer", name, "--env", env, "--hiddens", "16", *of_unrolls)
    algorithm = configure(made).build_algo()
    assert type(algorithm).__name__ == name.rpartition(":")[2]
    assert update in [kind.__name__ for kind in type(algorithm.learner.update_rule).__mro__]
    algorithm.stop()


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_run_is_resumed_evaluated_and_exported(folder, capsys):
    assert train.main([*TINY, "--trainer", NAME]) == 0
    (home,) = (folder / "results").iterdir()
    assert home.name.startswith("ClippedSAC_Pendulum-v1_Uniform_s0_")
    assert train.main(["--resume", str(home), "--total_env_steps", "180"]) == 0
    sys.modules.pop("my_alg")  # as in another process
    assert evaluate.main([str(home), "--episodes", "1"]) == 0
    assert export.main([str(home), "--to", "policy.pt2"]) == 0
    out = capsys.readouterr().out
    assert "resuming from checkpoint_00000120" in out and "1 episode: return" in out
    assert "ClippedSAC on Pendulum-v1" in out and (folder / "policy.pt2").exists()


@pytest.mark.usefixtures("cluster")
def test_a_checkpoint_gives_the_algorithm_back_in_python(folder):
    made = settings("--trainer", NAME, *TINY[:-2])
    algorithm = configure(made).build_algo()
    path = algorithm.save_to_path(str(folder / "checkpoint"))
    weights = [p.clone() for p in algorithm.learner.single_module.nets.parameters()]
    again = type(algorithm).from_checkpoint(path)
    assert type(again) is type(algorithm) and type(again.config).__name__ == "ClippedSACConfig"
    assert all(map(torch.equal, again.learner.single_module.nets.parameters(), weights))
    algorithm.stop()
    again.stop()
    (folder / "my_alg.py").unlink()
    sys.modules.pop("my_alg")
    with pytest.raises(UsageError, match="there is no module 'my_alg' to import"):
        type(algorithm).from_checkpoint(path)


@pytest.mark.usefixtures("cluster")
def test_a_checkpoint_of_an_update_with_its_own_optimizers_is_restored(folder):
    algorithm = configure(settings("--trainer", "more_algs:Sits", *TINY)).build_algo()
    path = algorithm.save_to_path(str(folder / "checkpoint"))
    algorithm.stop()
    again = type(algorithm).from_checkpoint(path)
    assert list(again.learner.update_rule.optimizers) == ["policy"]
    again.stop()


@pytest.mark.usefixtures("cluster")
def test_an_update_for_boxes_is_rejected_for_discrete_actions(folder):
    made = settings("--trainer", NAME, "--env", "CartPole-v1", "--hiddens", "16")
    with pytest.raises(UsageError, match="ClippedUpdate derives from SACUpdate; expected DiscreteSACUpdate as base"):
        configure(made).build_algo()


def test_studies_and_the_rllib_command_take_it(folder):
    (folder / "mine.yaml").write_text(f"envs: [Pendulum-v1]\ntrainers: [SAC, '{NAME}']\nbuffers: [Uniform]\n")
    study, _ = read_new({"study": "mine.yaml"})
    assert [run.trainer for run in study.runs] == ["SAC", NAME]
    assert study.runs[1].name == "my_alg-ClippedSAC_Pendulum-v1_Uniform_s0"
    config = make_default_config(NAME, "Pendulum-v1", print)
    assert type(config).__name__ == "ClippedSACConfig" and config.algo_class.__name__ == "ClippedSAC"


WRONG = {
    "my_alg:ClippedUpdate": ["ClippedUpdate is not an algorithm", "OffPolicyAlgorithm"],
    "more_algs:NoConfig": ["NoConfig is not an algorithm", "config_class"],
    "SACK": ["did you mean SAC?", "or module:Class"],
}


def test_errors_are_one_line(folder):
    for name, parts in WRONG.items():
        with pytest.raises(UsageError) as caught:
            settings("--trainer", name)
        assert "\n" not in str(caught.value) and all(part in str(caught.value) for part in parts), caught.value
