"""The arms of studies/actor_learner_recipes.yaml are what the two commands train."""

from pathlib import Path

import pytest
import yaml

from argument_parser import make_parser, resolve_settings
from interreplay.experiments.commands.actor_learner import read, translate
from interreplay.experiments.studies.grid import GRID_KEYS, expand

STUDY = Path(__file__).resolve().parents[3] / "studies/actor_learner_recipes.yaml"
MEASUREMENT = {
    *("total_env_steps", "steps_per_iteration", "evaluation_num_episodes", "evaluation_interval"),
    *("checkpoint_freq", "keep_checkpoints", "seed", "output_dir"),
}
"""Settings of the study that determine how runs are measured, not how they learn."""


@pytest.mark.parametrize("label", ["Platform", "Preset"])
def test_an_arm_has_the_settings_of_its_command(label):
    contents = yaml.safe_load(STUDY.read_text())
    grid = {key: contents[key] for key in GRID_KEYS}
    for run in expand(grid):
        if run.label != label:
            continue
        words = ["--trainer=IMPALA", f"--env={run.env}"]
        if label == "Platform":
            words = translate(read([f"--env={run.env}", f"--environment_max_steps={run.flags['total_env_steps']}"]))
        expected = vars(resolve_settings(make_parser().given(words)))
        found = vars(resolve_settings(run.given()))
        for name in expected.keys() - MEASUREMENT:
            assert found[name] == expected[name], name
