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
    config = SACConfig().environment("Pendulum-v1").callbacks(on_train_result=reporter()).debugging(seed=0)
    config.training(hiddens=(8, 8), train_batch_size=8, learning_starts=20, steps_per_iteration=50)
    config.training(lr=tune.choice([2e-3, 2e-4]))  # not one of the values that it is changed to
    config.replay_buffer_config = {"type": "NMER", "capacity": 500, "k": tune.choice([5, 20])}
    changes = {"lr": [1e-3, 1e-4, 1e-5], "replay_buffer_config": {"k": [5, 20]}}
    always = {"perturbation_interval": 1, "quantile_fraction": 0.5, "resample_probability": 1.0, "synch": True}
    best = {"time_attr": "training_iteration", "metric": "env_steps", "mode": "max"}
    scheduler = PopulationBasedTraining(hyperparam_mutations=changes, **always, **best)
    noted = Noted()
    how = tune.RunConfig(storage_path=str(tmp_path), stop={"training_iteration": 2}, callbacks=[noted], verbose=0)
    two = tune.TuneConfig(num_samples=2, scheduler=scheduler)
    kind = SACConfig().algo_class
    found = tune.Tuner(kind, param_space=config.to_dict(), tune_config=two, run_config=how).fit()
    assert not found.errors and len({trial for trial, *_ in noted.seen}) == 2
    for _, lr, replay, result in noted.seen:
        assert result["used"]["lr"] == lr and result["used"]["k"] == replay["k"]
    assert scheduler._num_perturbations > 0
    changed = {trial: {(lr, replay["k"]) for t, lr, replay, _ in noted.seen if t == trial} for trial, *_ in noted.seen}
    assert any(len(settings) > 1 for settings in changed.values()), "settings changed in the middle of a trial"
