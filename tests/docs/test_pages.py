"""Pages of the documentation: their tables list all settings, flags, systems and parts, and their code runs."""

import importlib.util
import inspect
import re
from dataclasses import fields
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml

from interreplay.experiments.commands.lcer import SWITCHES, VALUES
from interreplay.experiments.commands.main import COMMANDS
from interreplay.experiments.flags.run_flags import CATALOGUE, FLAGS
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import get_accepted_values
from interreplay.learning.settings import LoopSettings, ReplaySettings
from interreplay.unrolls.mix_settings import TYPES, SourceSettings, make_mix
from interreplay.unrolls.schema import CUSTOM, ORIGINAL, read
from tests.unrolls.unroll_builders import unrolls

pytest.importorskip("mkdocs")
HOOK = Path(__file__).resolve().parents[2] / "docs" / "_hooks" / "settings_page.py"


@pytest.fixture(scope="module")
def hook():
    spec = importlib.util.spec_from_file_location("settings_page", HOOK)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_algorithm_is_in_one_family(hook):
    listed = [name for names in hook.FAMILIES.values() for name in names]
    assert sorted(listed) == sorted(ALGORITHMS)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_setting_of_an_algorithm_has_a_row_with_its_default(hook, name):
    (names,) = (names for names in hook.FAMILIES.values() if name in names)
    rows = dict(re.match(r"\| `(\w+)` \| (.*?) \| ", row).groups() for row in hook.rows(names))
    for field in fields(ALGORITHMS[name].settings):
        default = re.escape(f"`{hook.shown(field)}`")
        everywhere = re.fullmatch(default, rows[field.name])
        assert everywhere or re.search(default + r" \([^)]*\b" + name + r"\b", rows[field.name]), field.name


def test_settings_of_the_loop_are_listed_by_the_algorithms_that_have_them(hook):
    every, of_replay = hook.page().split("\n## ")[1:3]
    for field in fields(ReplaySettings):
        of_all = field.name in LoopSettings.__dataclass_fields__
        row = hook.line(field, f"`{hook.shown(field)}`")
        assert (row in every, row in of_replay) == (of_all, not of_all), field.name


def test_defaults_are_accepted_by_flags_and_other_settings_are_marked(hook):
    for row in ALGORITHMS.values():
        for field in (*fields(row.settings), *fields(ReplaySettings)):
            value = field.default
            if isinstance(value, bool):
                continue
            read = get_accepted_values(field).read(hook.shown(field))
            assert read == value or (isinstance(value, tuple) and tuple(read) == value), field.name
            marked = f"| {hook.IN_PYTHON}" in hook.line(field, "")
            assert marked == (field.name not in FLAGS), field.name


COMING_FROM = (Path(__file__).resolve().parents[2] / "docs" / "coming-from.md").read_text()
ROWS = [line.strip("|").split("|") for line in COMING_FROM.splitlines() if line.startswith("|") and "---" not in line]
OF_OTHERS = {"buffers", "envs", "seeds", "run"}
"""Flags of studies and of `rllib train`."""
OF_RLLIB = {"num_envs_per_env_runner", "gym_env_vectorize_mode", "capacity", "k", "alpha", "preset"}


def test_flags_on_our_side_are_flags():
    ours = " ".join(row[-1] for row in ROWS)
    named = {flag.replace("-", "_") for flag in re.findall(r"--([\w-]+)", ours)}
    assert len(named) > 15 and named - FLAGS.keys() - OF_OTHERS == set()
    assert {command for command in re.findall(r"`interreplay (\w+)", ours)} <= {*COMMANDS}


def test_settings_on_our_side_are_settings():
    known = {field.name for field in fields(ReplaySettings)}
    known |= {name for algorithm in ALGORITHMS.values() for name in algorithm.defaults}
    ours = " ".join(row[-1] for row in ROWS)
    named = set(re.findall(r"`(\w+)=", ours))
    assert {"updates_per_step", "initial_alpha"} <= named and named - known - OF_RLLIB == set()


@pytest.mark.slow
def test_the_code_for_users_of_other_libraries_trains_and_acts(cluster):
    here = re.findall(r"```python\n(.*?)```", COMING_FROM, re.DOTALL)[1]
    short = here.replace("1_000_000", "150").replace("10_000", "100").replace("HalfCheetah-v5", "Pendulum-v1")
    env = gym.make("Pendulum-v1")
    scope = {"obs": env.reset(seed=0)[0]}
    exec(short.replace("updates_per_step=1", "updates_per_step=1, steps_per_iteration=75"), scope)
    assert env.action_space.contains(np.asarray(scope["action"]))
    scope["algo"].stop()


MIGRATION = (Path(__file__).parents[2] / "docs" / "migration.md").read_text()
OF_LCER = MIGRATION.partition("## From LCER's system")[2].partition("\n## ")[0]


def test_every_flag_of_theirs_has_a_row_that_names_flags_of_ours():
    rows = [line.split("|")[1:3] for line in OF_LCER.splitlines() if line.startswith("| `")]
    theirs = [flag for there, _ in rows for flag in re.findall(r"--([a-z0-9-]+)", there)]
    assert sorted(theirs) == sorted(name.replace("_", "-") for name in (*SWITCHES, *VALUES))
    ours = {flag for _, here in rows for flag in re.findall(r"--([a-z_]+)", here)}
    assert len(ours) > 20 and ours - FLAGS.keys() == set()
    arguments = {name for _, here in rows for name in re.findall(r"--buffer_arg '?([a-z_]+)=", here)}
    known = set().union(
        *(inspect.signature(CATALOGUE[kind]).parameters for kind in ("LCER", "HER", "NMER", "ModelBased"))
    )
    assert len(arguments) > 8 and arguments - known == set()


UNROLLS_PAGE = (Path(__file__).resolve().parents[2] / "docs" / "unrolls.md").read_text()


def test_the_code_for_unrolls_runs():
    (listed,) = re.findall(r"```yaml\n(.*?)```", UNROLLS_PAGE, re.DOTALL)
    assert list(make_mix(yaml.safe_load(listed)).sources) == ["queue", "elite", "uniform"]
    (code,) = re.findall(r"```python\n(.*?)```", UNROLLS_PAGE, re.DOTALL)
    names = {"unrolls": unrolls(40), "rng": np.random.default_rng(0), "logits": unrolls(32, seed=1).policy}
    exec(code, names)
    assert names["mix"].batches == 2 and names["batch"].size == 32
    (text,) = re.findall(r"`'(\[\{\"type\".*?)'`", UNROLLS_PAGE)
    assert [entry["type"] for entry in read(text, 32)] == ["queue", "uniform"]


def test_the_tables_for_unrolls_are_complete():
    first, second = (set(re.findall(r"`([a-z_]+)`", part)) for part in UNROLLS_PAGE.split("## `--replay_parameters`"))
    assert {*SourceSettings.__annotations__, *TYPES} <= first
    assert {*CUSTOM, *ORIGINAL} - {"custom", "standard", "queue", "p"} <= second
