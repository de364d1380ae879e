"""The generated page of settings lists every setting of every algorithm with its default."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import fields
from pathlib import Path

import pytest

from interreplay.learning.algorithms_table import ALGORITHMS

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
