"""Comparison with published learning curves."""

import numpy as np
import pandas as pd
import pytest
from run_folders import ours

from interreplay.experiments.report import draw
from interreplay.experiments.report.published import published_curves, published_table, published_task
from interreplay.experiments.report.reading import read_runs
from interreplay.experiments.report.report import Report, main, summary
from interreplay.experiments.report.sections import Scores, build
from interreplay.experiments.report.tables import all_tables


def test_ids_are_matched_with_published_tasks():
    for env, task in [
        ("HalfCheetah-v5", "HalfCheetah-v4"),
        ("HalfCheetah-v4", "HalfCheetah-v4"),
        ("dm_control/cheetah-run-v0", "cheetah-run"),
        ("dm_control/finger-turn_easy-v0", "finger-turn-easy"),
        ("dm_control/ball_in_cup-catch-v0", "ball-in-cup-catch"),
    ]:
        assert published_task(env) == task
        assert len(published_curves(env)), task
    assert not len(published_curves("Pendulum-v1"))


def test_published_points_are_those_of_the_sources():
    curves = published_curves("dm_control/cheetah-run-v0")
    (row,) = curves[(curves["method"] == "SimBa") & (curves["env_steps"] == 100_000)].to_dict("records")
    assert (row["mean"], row["sd"], row["seeds"]) == (pytest.approx(559, abs=0.5), pytest.approx(45, abs=0.5), 10)
    assert (curves["env_steps"] > 1).all(), "initial policies are not published results"
    assert not curves.duplicated(["method", "env_steps"]).any()
    curves = published_curves("dm_control/dog-walk-v0")
    (row,) = curves[(curves["method"] == "SimbaV2 (ratio 8)") & (curves["env_steps"] == 100_000)].to_dict("records")
    assert (row["mean"], row["seeds"]) == (231.7, 5), "the file of the source lists runs up to three times"


def test_missing_published_results_are_printed(tmp_path):
    ours(tmp_path, "Pendulum-v1", "NMER", 0, [0.0, 1.0])
    runs = read_runs([tmp_path])
    sections = build(runs, scores=Scores())
    tables = all_tables(runs, sections) | {"published": published_table(sections)}
    assert "no published results of these environments" in summary(Report(runs, sections, tables, [tmp_path]))


@pytest.mark.slow
def test_the_report_compares_with_published_results(tmp_path, monkeypatch):
    monkeypatch.setattr(draw, "SUFFIXES", ("svg",))
    for seed in range(2):
        ours(tmp_path / "runs", "HalfCheetah-v5", "NMER", seed, [100.0 * i + seed for i in range(26)])
        ours(tmp_path / "runs", "Pendulum-v1", "NMER", seed, [0.0, 1.0])
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out"), "--published"]) == 0
    table = pd.read_csv(tmp_path / "out" / "published.csv").set_index(["method", "env_steps"])
    assert set(table["env"]) == {"HalfCheetah-v5"}
    assert table.loc[("NMER", 10_000), "mean"] == 900.5 and table.loc[("NMER", 25_000), "mean"] == 2400.5
    assert np.isnan(table.loc[("NMER", 50_000), "mean"]), "nothing is extrapolated"
    crossq = table.loc[("CrossQ", 25_000)]
    assert crossq["mean"] == pytest.approx(4073, abs=1) and crossq["interpolated"]
    assert np.isnan(table.loc[("DroQ", 10_000), "mean"]), "before the first published point"
    page = (tmp_path / "out" / "index.html").read_text()
    for part in ("No published curve of Pendulum-v1.", "repeat each action twice", "Apache License", "4,073*", "v4"):
        assert part in page, part
    assert "CrossQ, published" in (tmp_path / "out" / "sac-published.svg").read_text()
