"""Tune's search spaces over replay methods and their arguments are resolved per trial, and their choices checked."""

from types import SimpleNamespace

import pytest
from ray import tune
from ray.tune.experiment import Experiment
from ray.tune.registry import get_trainable_cls
from ray.tune.search.variant_generator import generate_variants

from interreplay.errors import UsageError
from interreplay.experiments.rllib_command.experiments import configure, make_default_config, trial_name
from interreplay.experiments.rllib_command.main import make_parser, read_experiments
from interreplay.rllib import SAC, IMPALAConfig, SACConfig, TD3Config
from interreplay.rllib.stock.configs import DOTTED, StockSACConfig

grid = tune.grid_search


def of_trials(config):
    """Return the replay methods of the trials that Tune creates from a configuration, resolved as by Tune."""
    found = []
    for _, settings in generate_variants(config.to_dict()):
        made = type(config)().update_from_dict(settings | {"__stdout_file__": None, "__stderr_file__": None})
        made.validate()
        found.append(made.replay_buffer_config)
    return found


METHODS = [{"type": "NMER", "capacity": 2000}, {"type": "Uniform", "capacity": 2000}]
OF_3 = {"type": "NMER", "k": 3}
OF_RLLIB = {"type": "PrioritizedEpisodeReplayBuffer"}


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (lambda c: c.training(replay_buffer_config={"type": grid(["NMER", "Uniform"]), "capacity": 2000}), METHODS),
        (lambda c: c.replay(grid(["NMER", "Uniform"]), capacity=2000), METHODS),
        (lambda c: c.training(replay_buffer_config=grid(METHODS)), METHODS),
        (lambda c: c.training(replay_buffer_config=grid([OF_3, OF_RLLIB])), [OF_3, {"type": "PER"}]),
        (lambda c: c.replay(grid(["EpisodeReplayBuffer"])), [{"type": "Uniform"}]),
        (lambda c: c.replay(tune.choice(["NMER"]), k=tune.choice([4])), [{"type": "NMER", "k": 4}]),
        (lambda c: c.training(replay_buffer_config=tune.choice(METHODS[:1])), METHODS[:1]),
        (lambda c: c.replay(tune.sample_from(lambda spec: "NMER")), [{"type": "NMER"}]),
        (lambda c: c.replay("NMER", k=grid([3, 10])), [{"type": "NMER", "k": 3}, {"type": "NMER", "k": 10}]),
    ],
)
def test_trials_have_the_methods_of_the_search_space(choose, expected):
    assert of_trials(choose(SACConfig().environment("Pendulum-v1"))) == expected


def test_unrolls_and_stock_algorithms_have_search_spaces_too():
    found = of_trials(IMPALAConfig().environment("CartPole-v1").replay(grid(["Fresh", "UnrollMix"])))
    assert [each["type"] for each in found] == ["Fresh", "UnrollMix"]
    for made in (
        StockSACConfig().replay(grid(["NMER", "PER"]), capacity=99),
        StockSACConfig().training(replay_buffer_config={"type": grid(["NMER", "PER"]), "capacity": 99}),
    ):
        found = of_trials(made.environment("Pendulum-v1"))
        assert found == [{"type": DOTTED, "buffer": kind, "capacity": 99} for kind in ("NMER", "PER")]


def test_an_open_search_space_cannot_be_built():
    for method, arguments in ((grid(["NMER"]), {}), ("NMER", {"k": tune.choice([3])})):
        with pytest.raises(ValueError, match="has an open search space; expected tune.Tuner"):
            SACConfig().environment("Pendulum-v1").replay(method, **arguments).validate()


@pytest.mark.parametrize("run", ["SAC", "SAC-stock"])
@pytest.mark.parametrize(
    "replay",
    [
        {"type": grid(["NMER", "PER"]), "capacity": 500},
        grid([{"type": "NMER", "capacity": 500}, {"type": "PER", "capacity": 500}]),
    ],
)
def test_the_command_checks_every_choice_of_a_search_space(run, replay):
    words = ["train", "--run", run, "--env", "Pendulum-v1", "--config", str({"replay_buffer_config": replay})]
    (experiment,) = read_experiments(make_parser().parse_args(words))
    config = configure(make_default_config(experiment.run, experiment.env, str), experiment.config)
    found = of_trials(config)
    assert [each.get("buffer", each["type"]) for each in found] == ["NMER", "PER"]
    with pytest.raises(UsageError, match="no replay buffer 'NMERR'"):
        configure(make_default_config("SAC", "Pendulum-v1", str), {"replay_buffer_config": {"type": "NMERR"}})


def test_registering_our_algorithms_keeps_rllibs_names():
    for kind in (SACConfig, IMPALAConfig, TD3Config):
        Experiment.register_if_needed(kind().algo_class)
    ours = "interreplay."
    theirs = "ray."
    for name, module in (("SAC", theirs), ("IMPALA", theirs), ("TD3", ours), ("interreplay.SAC", ours)):
        assert get_trainable_cls(name).__module__.startswith(module)
    trial = SimpleNamespace(trial_id="ab_00000")
    assert trial_name("SAC", "ALE/Pong-v5", trial) == "SAC_ALE_Pong-v5_ab_00000"


def test_a_trial_with_a_rejected_configuration_shows_the_reason():
    with pytest.raises(TypeError, match="SAC has no setting 'taau'; did you mean tau"):
        SAC(config={"env": "Pendulum-v1", "taau": 1})
    rejected = SAC.__new__(SAC)
    rejected.config = None
    assert repr(rejected) == "SAC"
