"""The generated page of settings lists every setting of every algorithm with its default."""

import importlib.util
import re
from dataclasses import fields
from pathlib import Path

import pytest

from interreplay.experiments.flags.run_flags import FLAGS
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.setting_fields import accepted_by
from interreplay.learning.settings import LoopSettings, ReplaySettings

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
            read = accepted_by(field).read(hook.shown(field))
            assert read == value or (isinstance(value, tuple) and tuple(read) == value), field.name
            marked = f"| {hook.IN_PYTHON}" in hook.line(field, "")
            assert marked == (field.name not in FLAGS), field.name
