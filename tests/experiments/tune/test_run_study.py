"""A study changes how Tune works only while it runs."""

from __future__ import annotations

import os
from typing import Any

import pytest

from interreplay.experiments.tune import run_study


def test_variables_of_tune_are_set_only_during_a_study(monkeypatch):
    """Otherwise Tune would write no results of later experiments in the same process, or in its children."""
    monkeypatch.setenv("RAY_AIR_NEW_OUTPUT", "1")
    monkeypatch.delenv("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", raising=False)
    found = []

    def interrupted() -> None:
        found.append(dict(os.environ))
        raise KeyboardInterrupt

    monkeypatch.setattr(run_study, "start_signal_actor", interrupted)
    unused: Any = None
    before = dict(os.environ)
    with pytest.raises(KeyboardInterrupt):
        run_study.run_trials([], unused, unused, unused, unused)
    assert found[0]["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1" and found[0]["RAY_AIR_NEW_OUTPUT"] == "0"
    assert dict(os.environ) == before
