"""A learned model in addition to replay: training, results, checkpoints, rejections."""

from types import SimpleNamespace

import pytest
import torch

from interreplay import ModelBased
from interreplay.experiments.commands.preparation import prepare
from interreplay.experiments.flags.training_flags import resolve_settings
from tests.rllib.small_runs import config, continued, run, same, weights

QUICK = {"members": 3, "elites": 2, "model_hiddens": (16, 16), "max_epochs": 2, "fit_every": 25, "rollouts": 4}
QUICK["model_batch_size"] = 32


def modelled(env="Pendulum-v1", trainer="SAC", real="Uniform", **arguments):
    return config(env, "ModelBased", trainer=trainer, real=real, **QUICK | {"real_share": 0.25} | arguments)


@pytest.mark.slow
@pytest.mark.parametrize(("trainer", "real", "model"), [("SAC", "NMER", "deterministic"), ("TD3", "PER", "stochastic")])
def test_learning_and_resuming_in_the_middle_of_a_schedule(trainer, real, model, tmp_path):
    def made():
        arguments = {"model": model, "rollout_length": (1, 3, 60, 200), "keep_fits": 2}
        return modelled(trainer=trainer, real=real, **arguments).build_algo()

    straight, resumed = continued(made, tmp_path / "c")
    results = [algorithm.train() for algorithm in (straight, resumed)]
    assert straight.replay_buffer.length > 1
    assert same(weights(straight), weights(resumed)) and resumed.env_steps == 225
    assert torch.equal(straight.replay_buffer.sample(32).slots, resumed.replay_buffer.sample(32).slots)
    statistics = results[-1]["replay_buffer"]
    assert statistics["model/holdout_error"] > 0 and {f"model/holdout_error_{j}" for j in range(3)} <= statistics.keys()
    assert {"model/error_over_spread", "model/spread_correlation", "model/epochs"} <= statistics.keys()
    assert statistics["model/rollout_length"] == 3 and statistics["model/rollout_rows"] == 300
    assert 0 < statistics["model/rollout_seconds"] < statistics["model/fit_seconds"] * 50
    assert statistics["real/replays_per_row"] > 0 and statistics["model/replays_per_row"] > 0


def test_rollouts_are_compared_with_the_simulator_by_length():
    made = modelled("InvertedPendulum-v5", rollout_length=2).training(on_manifold_rows=8)
    _, results = run(made, 1)
    statistics = results[0]["replay_buffer"]
    for number in (1, 2):
        assert statistics[f"model/on_manifold_state_error_at_{number}"] > 0
        assert statistics[f"model/on_manifold_reward_error_at_{number}"] >= 0


@pytest.mark.slow
def test_env_config_determines_the_termination_function():
    def terminated(**arguments):
        made = modelled("Hopper-v5", rollout_length=4).environment("Hopper-v5", env_config=arguments)
        algorithm, _ = run(made, 1)
        return int(algorithm.replay_buffer.virtual.storage.column("terminated").sum())

    assert terminated() > 0 == terminated(terminate_when_unhealthy=False)


@pytest.mark.slow
def test_a_source_object_and_rejections():
    made = config().replay(ModelBased("NMER", **QUICK), capacity=700)
    assert made.replay_buffer_config == {"type": "ModelBased", "real": "NMER", "capacity": 700, **QUICK}
    algorithm, _ = run(made, 1)
    assert algorithm.replay_buffer.real.capacity == 700 and len(algorithm.replay_buffer.virtual) > 0
    with pytest.raises(ValueError, match="ModelBased takes no argument 'rollout'; did you mean rollouts"):
        modelled(rollout=3)


def test_the_check_before_a_run_knows_the_environment_and_leaves_the_connection_to_the_run(tmp_path):
    given = {"env": "Hopper-v5", "buffer": "ModelBased", "buffer_size": 1_000, "output_dir": str(tmp_path)}
    model = prepare(given, [], None).source
    assert model.context is None and model.most_rows == 15 * model.count_rows(1)


def test_the_preset_is_that_of_the_paper():
    for env, length, ratio in (("HalfCheetah-v5", 1, 40), ("Hopper-v5", 15, 20), ("InvertedPendulum-v5", 1, 10)):
        settings = resolve_settings({"env": env, "preset": "mbpo"})
        assert settings.buffer == "ModelBased" and settings.updates_per_step == ratio
        made = ModelBased(**settings.buffer_args)
        context = {"environment": env, "environment_arguments": {}, "compute_terminated": None, "device": None}
        made.connect(SimpleNamespace(**context))
        assert made.most_rows == 4 * 100_000 * length
        assert made.shares.current["real"] == 0.05
    other = resolve_settings({"env": "Hopper-v5", "preset": "mbpo", "buffer_arg": [("real", "NMER")]})
    assert other.buffer_args["real"] == "NMER"
