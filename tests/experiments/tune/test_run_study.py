"""A study changes how Tune works only while it runs."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import tune
from ray.exceptions import OutOfMemoryError

from interreplay.errors import RunFailure
from interreplay.experiments.studies.study import Execution, StudyFolder
from interreplay.experiments.tune import run_study
from interreplay.experiments.tune.run_study import start_signal_actor


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
        run_study.run_trials([], unused, unused, unused)
    assert found[0]["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1" and found[0]["RAY_AIR_NEW_OUTPUT"] == "0"
    assert dict(os.environ) == before


def test_a_study_that_ends_because_memory_is_full_states_how_to_continue(cluster, tmp_path, monkeypatch):
    """Tune does not handle it if Ray ends a run's process during an iteration."""

    def fit(tuner: tune.Tuner) -> None:
        raise RuntimeError("Caught unexpected exception") from OutOfMemoryError("low on memory")

    monkeypatch.setattr(tune.Tuner, "fit", fit)
    monkeypatch.setattr(run_study, "start_signal_actor", lambda: None)
    jobs = [(tmp_path / "run", {"num_workers": 0})]
    with pytest.raises(RunFailure, match="memory was full.*--resume continues them"):
        run_study.run_trials(jobs, Execution(), StudyFolder(tmp_path), SimpleNamespace(beat=int))


def test_the_signal_actor_runs_on_the_driver_s_node(monkeypatch):
    """Otherwise Ray places about half of the actors without CPUs on another node, whose loss would end them."""
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "ab" * 28))
    monkeypatch.setattr(ray, "remote", lambda **options: lambda kind: SimpleNamespace(remote=lambda: options))
    options = start_signal_actor()
    assert options["num_cpus"] == 0
    strategy = options["scheduling_strategy"]
    assert (strategy.node_id, strategy.soft) == ("ab" * 28, False)
