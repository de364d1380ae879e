"""The files of examples/tuned: every setting is accepted, and every experiment trains for a few steps."""

import importlib.util
from pathlib import Path

import pytest
from ray.tune.search.variant_generator import generate_variants

from interreplay.experiments.rllib_command.experiment_files import read_file
from interreplay.experiments.rllib_command.experiments import config_for, configured
from interreplay.rllib.algorithms.off_policy import OffPolicyConfig
from interreplay.rllib.algorithms.rllib_settings import TABLE

pytestmark = pytest.mark.usefixtures("cluster")

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "tuned"
FILES = sorted(FOLDER.glob("*.yaml"))
# Settings that make every run small; each algorithm receives those that it has.
SMALL = {"steps_per_iteration": 60, "num_steps_sampled_before_learning_starts": 40, "train_batch_size_per_learner": 32}
SMALL |= {"hiddens": [8, 8], "num_env_runners": 0, "min_sample_timesteps_per_iteration": 60, "num_epochs": 1}
SMALL |= {"minibatch_size": 32, "seed": 0}


def variants(path: Path):
    for experiment in read_file(path):
        if experiment.env.startswith("dm_control/") and importlib.util.find_spec("dm_control") is None:
            pytest.skip("dm_control is not installed")
        for _, settings in generate_variants(experiment.config):
            yield experiment, settings


def test_every_file_is_described():
    described = (FOLDER / "README.md").read_text()
    assert FILES and all(f"`{path.name}`" in described for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_is_understood(path, tmp_path):
    for experiment, settings in variants(path):
        config = configured(config_for(experiment.run, experiment.env, str), settings)
        config.validate()
        assert experiment.request()["GPU"] == 0
        assert experiment.tuner(tmp_path)._local_tuner.get_run_config().stop


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_learns(path):
    done = []
    for experiment, settings in variants(path):
        config = config_for(experiment.run, experiment.env, str)
        refused = TABLE["refused"] if isinstance(config, OffPolicyConfig) else {}
        settings |= {name: value for name, value in SMALL.items() if name in vars(config) and name not in refused}
        if (experiment.name, settings) in done:  # except the seed
            continue
        done.append((experiment.name, settings))
        algorithm = configured(config, settings).build_algo()
        try:
            result = algorithm.train()
            assert result["num_env_steps_sampled_lifetime"] >= 60
            assert any("loss" in name for name in result["learners"]["default_policy"])
        finally:
            algorithm.stop()
