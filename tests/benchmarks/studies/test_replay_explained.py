"""Statistics of the experience-replay study, compared with definitions and known cases."""

import json

import numpy as np
import pandas as pd
import pytest
from run_folders import row, write
from scipy import stats

from benchmarks.studies.experience_replay import areas_table, capacities_table, draw, explanation_table, read_runs
from benchmarks.studies.ratio_statistics import improvement
from benchmarks.studies.replay_explained import CORRELATION, ERROR, explained, over_seeds, rank_correlation, ratio

ARMS = ("Last-64", "Uniform", "PER", "CER")


def made(seed=0, n=30, slope=-1.0):
    """Return runs whose area depends on correlation only; errors depend on correlation and on independent noise."""
    rng = np.random.default_rng(seed)
    correlation = rng.random(n)
    error = correlation + 0.3 * rng.standard_normal(n)
    area = 100 + 50 * slope * correlation + rng.standard_normal(n)
    columns = {"task": "T", "arm": np.resize(ARMS, n), "seed": np.arange(n) // 4, "area": area}
    return pd.DataFrame(columns | {CORRELATION: correlation, ERROR: error})


def test_rank_correlation_is_spearmans():
    runs = made()
    assert rank_correlation(runs, ERROR) == pytest.approx(stats.spearmanr(runs["area"], runs[ERROR]).statistic)


def test_the_partial_correlation_is_that_of_residuals():
    runs = made(1)
    ranks = {name: stats.rankdata(runs[name]) for name in ("area", ERROR, CORRELATION)}
    design = np.column_stack([np.ones(len(runs)), ranks[CORRELATION]])
    left = [ranks[name] - design @ np.linalg.lstsq(design, ranks[name], rcond=None)[0] for name in ("area", ERROR)]
    assert rank_correlation(runs, ERROR, held=CORRELATION) == pytest.approx(np.corrcoef(left)[0, 1])


def test_partial_correlation_separates_cause_and_correlate():
    runs = made(2, n=80)
    assert rank_correlation(runs, ERROR) < -0.5, "it looks like a cause"
    cause, other = explained(runs, CORRELATION, ERROR, 200), explained(runs, ERROR, CORRELATION, 200)
    assert cause.high < -0.9 and other.low < 0 < other.high
    assert cause.low <= cause.value <= cause.high


def test_correlation_is_nan_for_constant_values():
    runs = made().assign(**{CORRELATION: 1.0})
    assert np.isnan(rank_correlation(runs, CORRELATION)) and np.isnan(rank_correlation(runs, ERROR, CORRELATION))


def test_seeds_are_drawn_within_arms():
    runs = made()
    drawn = list(over_seeds(runs["arm"], 5, 0))
    assert len(drawn) == 5
    for places in drawn:
        assert runs["arm"].iloc[places].value_counts().to_dict() == runs["arm"].value_counts().to_dict()
        assert len(set(places)) < len(runs)


def test_ratios_and_probabilities():
    found = ratio([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    assert found.value == pytest.approx(2.0) and found.low < 2.0 < found.high
    assert ratio([3.0], [2.0]) == (1.5, 1.5, 1.5)
    assert improvement([3.0, 1.0], [2.0, 1.0]) == pytest.approx((1 + 1 + 0 + 0.5) / 4)


def kept(folder, task, buffer, seed, returns, cosine, batch=64):
    """Write a run's folder as Tune does."""
    settings = {"env": task, "buffer": buffer, "buffer_size": 50_000, "seed": seed, "train_batch_size": batch}
    rows = []
    for i, value in enumerate(returns):
        numbers = {"td_error_mean": 0.1 * (i + 1), "state_cosine": cosine, "state_cosine_expected": 0.2}
        rows.append(row(1_000 * (i + 1), None, value, replay_buffer=numbers, training_iteration=i + 1))
    run = write(folder / f"{task}_{buffer}{batch}_{seed}", rows, settings)
    (run / "status.json").write_text('{"state": "finished"}')
    return run


def test_runs_become_tables_and_a_figure(tmp_path):
    for seed in range(3):
        kept(tmp_path, "A-v0", "Uniform", seed, [20 + seed, 60], 0.2)
        kept(tmp_path, "A-v0", "PER", seed, [30 + seed, 90], 0.25)
        kept(tmp_path, "A-v0", "Online", seed, [10, 10 - seed], 1.0, batch=1)
        kept(tmp_path, "A-v0", "Online", seed, [10, 20 + seed], 0.9)
    (kept(tmp_path, "A-v0", "PER", 3, [30], 0.25) / "status.json").write_text('{"state": "running"}')
    (tmp_path / "random_returns.json").write_text(json.dumps({"A-v0": {"mean": 10.0}}))
    runs, evaluations = read_runs(tmp_path)
    assert len(runs) == 12 and len(evaluations) == 24 and set(runs["arm"]) == {"Uniform", "PER", "Online-1", "Last-64"}
    uniform = runs[runs["arm"] == "Uniform"].sort_values("seed")
    assert uniform["area"].tolist() == [30.0, 30.5, 31.0] and uniform[CORRELATION].tolist() == pytest.approx([0.0] * 3)
    assert runs[ERROR].tolist() == pytest.approx([0.15] * 12)
    areas = areas_table(runs)
    assert "| A-v0 | PER | 50,000 | 50, 50, 51 | 50 | 1.66 (" in areas and "| 1.00 |" in areas
    assert "| A-v0 | 9 |" in explanation_table(runs, resamples=20)
    assert len(draw(runs, evaluations).axes) == 4
    small = runs.assign(capacity=100, area=runs["area"] / 2)
    assert "| A-v0 | 100 | 0.50 (" in capacities_table(pd.concat([runs, small])) and "100" not in capacities_table(runs)


def test_a_folder_without_runs_is_rejected(tmp_path):
    (tmp_path / "random_returns.json").write_text("{}")
    with pytest.raises(SystemExit, match="no finished run with an evaluation"):
        read_runs(tmp_path)
