"""Reports of the studies of ratios and critics: tables of all seeds, effects, conclusions and figures."""

import itertools
import json

import numpy as np
import pytest
from run_folders import row, write

from benchmarks.studies import critic_study, near_partners, ratio_statistics, ratio_study, ten_tasks


def kept(folder, env, arm, seed, value, trainer="SAC"):
    """Write a finished run as Tune does; the return rises from 0 to twice `value`, so that its area is `value`."""
    name = f"{trainer}_{env.replace('/', '-')}_{arm}_s{seed}"
    rows = [row(steps, None, value * share) for steps, share in ((2_000, 0), (7_000, 1), (12_000, 2))]
    run = write(folder / name, rows, {"env": env, "trainer": trainer})
    (run / "status.json").write_text(json.dumps({"state": "finished", "seconds": 120}))


def study(folder, arms, seeds, envs=("A-v0", "B-v0")):
    """Write a study's folder; seeds differ by a hundredth, and random play returns 0."""
    for env in envs:
        for arm, value in arms.items():
            for seed in range(seeds):
                kept(folder, env, arm, seed, value * (1 + seed / 100))
    (folder / "random_returns.json").write_text(json.dumps({env: {"mean": 0.0} for env in envs}))
    return folder


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Use few resamples; the tables of these tests require no precision."""
    monkeypatch.setattr(ratio_statistics.bootstrapped, "__defaults__", (200, 0))
    monkeypatch.setattr(ratio_statistics.permuted, "__defaults__", (200, 0))


def ratios(tmp_path):
    """Write six complete seeds, and a seed that only one arm has."""
    arms = {"Uniform-1": 50, "NMER-1": 50, "Uniform-20": 100, "NMER-20": 150}
    kept(tmp_path / "sac_nmer_ratio", "A-v0", "NMER-20", 6, 1_000)
    return study(tmp_path / "sac_nmer_ratio", arms, seeds=6)


@pytest.mark.slow
def test_update_ratios(tmp_path):
    text, draw = ratio_study.make_report(ratios(tmp_path))
    assert "| A-v0 | NMER-20 | 150, 152, 153, 154, 156, 158 | 154 | 154 | 2 |" in text
    for line in (
        "| A: NMER at 20 against Uniform at its better ratio | 1.50 | 1.4",
        "| B: both at 20 | 1.50 |",
        "| both at 1 | 1.00 |",
        "| effect at 20 over effect at 1 | 1.50 |",
        "By the decision rule fixed before the first run: supported in kind.",
    ):
        assert line in text
    for tasks in ("A-v0", "B-v0", "without A-v0", "without B-v0"):
        assert f"| {tasks} | 1.50 (1.4" in text
    assert "2.00 (1.9" in text.split("| A-v0 |")[-1], "Uniform at 20 against Uniform at 1"
    assert "| 1.00 |\n| both at 1" in text and "| 0.50 |\n| effect at 20" in text  # probabilities of improvement
    assert len(draw().axes) == 3


@pytest.mark.slow
def test_stable_critics(tmp_path):
    ratios(tmp_path)
    folder = study(tmp_path / "sac_stable_critic", {"Uniform-LN": 200, "NMER-LN": 200, "NaiveMixup": 50}, seeds=4)
    text, draw = critic_study.make_report(folder)
    assert "| A-v0 | NMER-20 | 150, 152, 153, 154 | 152 |" in text  # as many seeds as the study has
    assert "| A-v0 | NMER-1 |" not in text
    for line in (
        "| NMER against Uniform, both with LayerNorm | 1.00 |",
        "| LayerNorm against none, both Uniform | 2.00 |",
        "| NMER against NaiveMixup | 3.00 |",
        "| NaiveMixup against Uniform | 0.50 |",
        "By the decision rule fixed before the first run: excluded in size: +29 % (SAC).",
    ):
        assert line in text
    assert "| without A-v0 | 1.00 (0.9" in text
    assert len(draw().axes) == 3


@pytest.mark.slow
def test_a_task_in_which_both_arms_are_at_the_floor_has_no_interval(tmp_path):
    arms = {"Uniform-1": -5, "NMER-1": -5, "Uniform-20": -9, "NMER-20": 150}
    text, _ = ratio_study.make_report(study(tmp_path / "sac_nmer_ratio", arms, seeds=4))
    assert "| A-v0 | 20.00 (–) | 20.00 (–) | 1.00 (–) |" in text


@pytest.mark.slow
def test_an_unfinished_study_has_no_conclusion(tmp_path):
    folder = ratios(tmp_path)
    run = {"trainer": "SAC", "env": "A-v0", "label": "NMER-20", "flags": {}}
    runs = [run | {"name": f"SAC_A-v0_NMER-20_s{seed}", "seed": seed} for seed in range(8)]
    (folder / "study.yaml").write_text(json.dumps({"runs": runs}))
    (folder / "SAC_A-v0_NMER-20_s4/status.json").write_text(json.dumps({"state": "running"}))
    assert "2 of 8 runs have not finished; the decision requires all of them." in ratio_study.make_report(folder)[0]


def test_an_interval_needs_two_seeds(tmp_path):
    folder = study(tmp_path / "sac_nmer_ratio", {"Uniform-1": 50, "NMER-1": 50}, seeds=2)
    kept(folder, "A-v0", "NMER-20", 0, 150)
    message = "0 seeds are finished in all 6 pairs of task and arm; expected at least 2"
    with pytest.raises(SystemExit, match=message):
        ratio_study.make_report(folder)


@pytest.mark.slow
def test_near_partners(tmp_path):
    ratios(tmp_path)
    study(tmp_path / "sac_stable_critic", {"Uniform-LN": 200, "NMER-LN": 300, "NaiveMixup": 50}, seeds=4)
    folder = study(tmp_path / "sac_near_partners", {"NaiveMixup-LN": 250}, seeds=4)
    text, draw = near_partners.make_report(folder)
    for line in (
        "| A-v0 | NMER-LN | 300, 303, 306, 309 | 304 |",
        "| NMER against NaiveMixup, both with LayerNorm | 1.20 |",
        "| NaiveMixup against Uniform, both with LayerNorm | 1.25 |",
        "| LayerNorm against none, both NaiveMixup | 5.00 |",
        "By the decision rule fixed before the first run: near partners help.",
    ):
        assert line in text
    assert len(draw().axes) == 3


def ten_tasks_folders(tmp_path, seeds):
    """Write runs in which NMER has 1.5 times the area of uniform replay, on two tasks; one was used for settings."""
    envs = ("HalfCheetah-v5", "dm_control/walker-walk-v0")
    for env, seed in itertools.product(envs, range(seeds)):
        kept(tmp_path / ten_tasks.CONFIRMATION, env, ten_tasks.ARM, seed, 900 + 9 * seed)
        kept(tmp_path / "nmer_ten_tasks", env, ten_tasks.UNIFORM, seed, 600 + 6 * seed)
        kept(tmp_path / "mixup_ten_tasks", env, ten_tasks.MIXUP, seed, 1_200 + 12 * seed)
    kept(tmp_path / ten_tasks.CONFIRMATION, envs[0], "recipe", 0, 5_000)  # an arm that is not compared
    random = {env: {"mean": 0.0} for env in envs}
    for name in ("nmer_ten_tasks", "mixup_ten_tasks"):
        (tmp_path / name / "random_returns.json").write_text(json.dumps(random))
    return tmp_path / "nmer_ten_tasks"


@pytest.mark.slow
def test_ten_tasks(tmp_path):
    text, draw = ten_tasks.make_report(ten_tasks_folders(tmp_path, 3))
    for line in (
        "| walker-walk | 900, 909, 918 | 600, 606, 612 | 1,800, 1,818, 1,836 | 1,200, 1,212, 1,224 | 1.50 (1.4",
        "| all tasks | 1.50 (1.4",
        "| the 1 tasks on which no setting was chosen | 1.50 (1.4",
        "| without HalfCheetah | 1.50 (1.4",
        "By the decision rule fixed before the first run: the benefit of NMER is confirmed",
    ):
        assert line in text
    assert [axis.get_title() for axis in draw().axes] == ["HalfCheetah", "walker-walk", ""]


@pytest.mark.slow
def test_ten_tasks_with_random_partners(tmp_path):
    text, draw = ten_tasks.make_report(ten_tasks_folders(tmp_path, 2).parent / "mixup_ten_tasks")
    assert "| all tasks | 0.75 (0.7" in text.split("against mixup-layer-norm")[1]
    assert "| all tasks | 2.00 (1.9" in text.split("mixup-layer-norm against uniform-layer-norm")[1]
    assert "near partners are worse than random ones" in text
    assert len(draw().axes) == 3


def test_ten_tasks_with_one_seed_have_no_interval_and_no_decision(tmp_path, monkeypatch):
    note = "4 of 6 runs have not finished; the decision requires all of them."
    monkeypatch.setattr(ten_tasks, "missing_runs", lambda folder: note)
    text, _ = ten_tasks.make_report(ten_tasks_folders(tmp_path, 1))
    assert "| all tasks | 1.50 | 1.00 |" in text
    assert text.endswith(note)


def test_mean_areas_below_a_hundredth_of_the_published_return_count_as_that():
    """BRO's published return on walker-walk is 747."""
    task = {ten_tasks.ARM: np.array([14.94, 14.94]), ten_tasks.UNIFORM: np.array([-50.0, 40.0])}
    pair = (ten_tasks.ARM, ten_tasks.UNIFORM)
    assert ten_tasks.estimate_ratio({"dm_control/walker-walk-v0": task}, pair)[0] == pytest.approx(2.0, rel=0.01)


CONCLUSIONS = [
    (near_partners, 1.01, 2.0, "near partners help"),
    (near_partners, 0.5, 0.99, "near partners harm"),
    (near_partners, 0.8, 1.2, "less than is claimed for NMER either way"),
    (near_partners, 0.7, 1.2, "undecided"),
    (near_partners, 0.9, 1.3, "undecided"),
    (ten_tasks, 1.01, 2.0, "the benefit of NMER is confirmed"),
    (ten_tasks, 0.5, 0.99, "NMER harms"),
    (ten_tasks, 0.9, 1.15, "the difference is negligible"),
    (ten_tasks, 0.9, 1.2, "undecided"),
]


def test_conclusions_follow_the_interval():
    for study, low, high, expected in CONCLUSIONS:
        assert study.conclusion(ratio_statistics.Estimate(1.0, low, high)) == expected, (study.__name__, low, high)
