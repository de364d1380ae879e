"""Population-based training by Ray Tune changes learning rates and NMER's k during runs."""

import pytest
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

from interreplay.rllib import SACConfig

pytestmark = pytest.mark.usefixtures("cluster")


class Noted(tune.Callback):
    """Records the configured and the used settings of each trial."""

    def __init__(self):
        self.seen = []

    def on_trial_result(self, iteration, trials, trial, result, **info):
        # Settings of the result; the scheduler may have changed those of the trial since.
        config = result["config"]
        self.seen.append((trial.trial_id, config["lr"], dict(config["replay_buffer_config"]), result))


def reporter():
    """Return a callback that is sent to workers by value, because they cannot import this module."""

    def report_used_settings(algorithm, result, **_):
        rates = {name: o.param_groups[0]["lr"] for name, o in algorithm.learner.update_rule.optimizers.items()}
        result["used"] = {"lr": rates["actor"], "k": algorithm.replay_buffer.neighborhood.k}

    return report_used_settings


@pytest.mark.slow
def test_changed_settings_are_used(tmp_path):
    config = (
        SACConfig()
        .environment("Pendulum-v1")
        .training(
            hiddens=(8, 8),
            train_batch_size_per_learner=8,
            num_steps_sampled_before_learning_starts=20,
            steps_per_iteration=50,
            lr=tune.choice([2e-3, 2e-4]),  # not one of the values that it is changed to
        )
        .callbacks(on_train_result=reporter())
        .debugging(seed=0)
    )
    config.replay_buffer_config = {"type": "NMER", "capacity": 500, "k": tune.choice([5, 20])}
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="env_steps",
        mode="max",
        perturbation_interval=1,
        quantile_fraction=0.5,
        resample_probability=1.0,
        hyperparam_mutations={"lr": [1e-3, 1e-4, 1e-5], "replay_buffer_config": {"k": [5, 20]}},
        synch=True,
    )
    noted = Noted()
    found = tune.Tuner(
        SACConfig().algo_class,
        param_space=config.to_dict(),
        tune_config=tune.TuneConfig(num_samples=2, scheduler=scheduler),
        run_config=tune.RunConfig(
            storage_path=str(tmp_path), stop={"training_iteration": 2}, callbacks=[noted], verbose=0
        ),
    ).fit()
    assert not found.errors and len({trial for trial, *_ in noted.seen}) == 2
    for _, lr, replay, result in noted.seen:
        assert result["used"]["lr"] == lr and result["used"]["k"] == replay["k"]
    assert scheduler._num_perturbations > 0
    changed = {trial: {(lr, replay["k"]) for t, lr, replay, _ in noted.seen if t == trial} for trial, *_ in noted.seen}
    assert any(len(settings) > 1 for settings in changed.values()), "settings changed in the middle of a trial"
