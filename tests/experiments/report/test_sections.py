"""Comparisons and their numbers, for runs small enough to compute manually."""

import json

import numpy as np
import pytest
from run_folders import ours, row, settings, stock, study, write

from interreplay.analysis import read_runs
from interreplay.errors import UsageError
from interreplay.experiments.report.report import Report, summary
from interreplay.experiments.report.sections import Scores, build, read_scores
from interreplay.experiments.report.tables import all_tables, summaries


def tables_of(top, **options):
    runs = read_runs([top])
    sections = build(runs, **({"scores": Scores()} | options))
    return sections, all_tables(runs, sections)


def pick(table, **values):
    for name, value in values.items():
        table = table[table[name] == value]
    return table


def one(table, **values):
    (row,) = pick(table, **values).to_dict("records")
    return row


def test_unfinished_runs_are_drawn_and_count_on_request_only(tmp_path):
    _, tables = tables_of(study(tmp_path))
    counted = tables["runs"][tables["runs"]["counted"]]
    assert len(counted) == 12 and tables["runs"]["final"].notna().sum() == 12
    assert one(tables["efficiency"], env="Hopper-v5", method="NMER")["runs"] == 3
    (section,), tables = tables_of(tmp_path, count="all")
    row = one(tables["efficiency"], env="Hopper-v5", method="NMER")
    assert row["runs"] == 5 and row["last_step"] == 1000, "the crashed run ends there"
    assert any("Compared up to 1,000 steps" in note for task in section.tasks for note in task.notes)


def test_every_run_is_listed_with_its_own_numbers(tmp_path):
    for seed, returns in enumerate([[0.0, 4.0, 8.0], [0.0, 2.0, 1.0]]):
        ours(tmp_path, "Hopper-v5", "NMER", seed, returns)
    _, tables = tables_of(tmp_path)
    assert [one(tables["runs"], seed=seed)["final"] for seed in (0, 1)] == pytest.approx([7.6, 1.1])
    assert [one(tables["runs"], seed=seed)["auc"] for seed in (0, 1)] == [4.0, 1.25]


def test_a_measure_that_no_run_has_is_reported(tmp_path):
    """Not with advice to count unfinished runs."""
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [1.0])
    (section,), _ = tables_of(tmp_path, measure="success")
    assert section.notes == ["Runs have no success rate: nothing is compared. --measure selects another result."]


def test_efficiency(tmp_path):
    for seed in range(2):
        ours(tmp_path, "Hopper-v5", "Uniform", seed, [0.0, 0.0, 10.0])
        ours(tmp_path, "Hopper-v5", "NMER", seed, [0.0, 20.0, 20.0])
    _, tables = tables_of(tmp_path, scores=Scores({"Hopper-v5": {"low": 0.0, "high": 20.0, "threshold": 10.0}}))
    uniform, nmer = (one(tables["efficiency"], method=method) for method in ("Uniform", "NMER"))
    # Trapezoids over two intervals of the same length: (0 + 5) / 2 and (10 + 20) / 2
    assert (uniform["auc"], nmer["auc"], pytest.approx(nmer["auc_ratio"])) == (2.5, 15, 6)
    assert (uniform["final"], nmer["final"]) == pytest.approx((9, 20))
    assert (uniform["steps"], nmer["steps"], nmer["steps_ratio"]) == (3000, 2000, 1.5)
    assert (uniform["reached"], nmer["reached"]) == (2, 2)
    assert one(tables["aggregate"], method="NMER", measure="auc")["iqm"] == 0.75
    assert one(tables["aggregate"], method="NMER", measure="final")["mean"] == 1
    assert one(tables["improvement"], method="NMER", measure="auc")["probability"] == 1


def test_the_scale_extends_from_random_actions_to_the_best_method(tmp_path):
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [5.0, 40.0])  # at 1,000 steps, where learning starts, training returns 0
    ours(tmp_path, "Hopper-v5", "NMER", 0, [7.0, 102.0])  # and 2
    _, tables = tables_of(tmp_path)
    scale = one(tables["scale"])
    assert (scale["low"], scale["high"], scale["threshold"]) == pytest.approx((1, 97.25, 1 + 0.8 * 96.25))
    assert "random actions" in scale["how"] and "NMER" in scale["how"]

    for buffer, values in (("Uniform", [5.0, 40.0]), ("NMER", [7.0, 102.0])):
        ours(tmp_path / "later", "Hopper-v5", buffer, 0, values, learning_starts=0)
    scale = tables_of(tmp_path / "later")[1]["scale"]
    assert one(scale)["low"] == 6, "without random actions, it starts with the curves"


def test_equal_returns_are_no_scale(tmp_path):
    """For example of a task that no run solves, whose means differ by rounding errors."""
    for seed in range(3):
        rows = [row(1000.0 * (i + 1), -51.3, -51.3) for i in range(3)]
        write(tmp_path / str(seed), rows, settings("MountainCarContinuous-v0", "NMER", seed, 3000))
    write(tmp_path / "3", rows, settings("MountainCarContinuous-v0", "Uniform", 0, 3000))
    assert tables_of(tmp_path)[0][0].tasks[0].scale is None


def test_known_returns_do_not_scale_success_rates(tmp_path):
    rows = [row(1000.0 * (i + 1), 0.0, -50.0, **{"evaluation/env_runners/success_rate": i / 4}) for i in range(5)]
    write(tmp_path / "a", rows, settings("FetchReach-v4", "HER", 0, 5000))
    scores = Scores({"FetchReach-v4": {"low": -50.0, "high": -2.0, "threshold": -10.0}})
    _, tables = tables_of(tmp_path, scores=scores, measure="success")
    assert one(tables["aggregate"], measure="auc")["iqm"] == 0.5 and one(tables["efficiency"])["steps"] == 5000


def test_evaluation_and_training_returns_are_not_mixed(tmp_path):
    ours(tmp_path, "Hopper-v5", "NMER", 0, [10.0, 20.0])
    (section,), _ = tables_of(tmp_path)
    assert section.measure == "evaluation"
    stock(tmp_path, "Hopper-v5", 0, [3.0, 4.0])
    (section,), tables = tables_of(tmp_path)
    assert section.measure == "training" and set(tables["curves"]["measure"]) == {"training"}
    assert pick(tables["curves"], method="NMER")["mean"].tolist() == [5, 15]
    assert any("RLlib prioritized in Hopper-v5" in note for note in section.notes)
    (section,), tables = tables_of(tmp_path, measure="evaluation")
    assert set(tables["curves"]["method"]) == {"NMER"}
    assert one(tables["runs"], method="RLlib prioritized")["note"] == "no evaluation return"


def test_methods_are_compared_over_common_steps(tmp_path):
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [0.0, 10.0, 20.0, 30.0])
    ours(tmp_path, "Hopper-v5", "NMER", 0, [0.0, 20.0])
    (section,), tables = tables_of(tmp_path)
    assert one(tables["efficiency"], method="Uniform")["final"] == pytest.approx(9.5)
    assert one(tables["runs"], method="Uniform")["final"] == pytest.approx(9.5)
    assert len(pick(tables["curves"], method="Uniform")) == 4, "the figure shows all of it"
    assert section.tasks[0].notes[0].startswith("Compared up to 2,000 steps")
    assert section.tasks[0].notes[0].endswith("runs of NMER end there.")
    ours(tmp_path, "Hopper-v5", "Uniform", 1, [0.0, 20.0])
    (section,), _ = tables_of(tmp_path)
    assert "Compared up to 2,000 steps" in section.tasks[0].notes[0], "also if a run of each method is that short"


def test_a_method_whose_runs_have_no_common_steps_is_left_out_with_a_reason(tmp_path):
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [0.0, 10.0])
    for method in ("Uniform", "NMER"):
        params = settings("Hopper-v5", method, 0, 4000, fork_from="parent/checkpoint_00002000")
        write(tmp_path / method, [row(3000, 0.0, 20.0), row(4000, 0.0, 30.0)], params)
    (section,), tables = tables_of(tmp_path)
    assert "Uniform is left out: its runs have no steps in common" in section.tasks[0].notes[0]
    assert set(tables["efficiency"]["method"]) == {"NMER"}
    notes = set(pick(tables["runs"], method="Uniform")["note"])
    assert notes == {"no steps in common with the other runs of its method"}


def test_one_seed_has_no_interval(tmp_path):
    ours(tmp_path, "Hopper-v5", "NMER", 0, [0.0, 20.0])
    (section,), tables = tables_of(tmp_path)
    assert np.isnan(tables["curves"]["mean_low"]).all() and np.isnan(one(tables["efficiency"])["auc_low"])
    assert any("a single run has none" in note for note in section.tasks[0].notes)
    assert any("Only NMER has counted runs: there is nothing to compare it with" in note for note in section.notes)


def test_a_method_without_some_environment_is_not_aggregated(tmp_path):
    for env in ("Hopper-v5", "Reacher-v5"):
        ours(tmp_path, env, "Uniform", 0, [0.0, 20.0])
    ours(tmp_path, "Hopper-v5", "PER", 0, [0.0, 20.0])
    (section,), tables = tables_of(tmp_path)
    assert section.find_common_methods()[0] == ["Uniform"] and set(tables["aggregate"]["method"]) == {"Uniform"}
    assert any("no counted run: PER" in note for note in section.notes)


def test_diagnostics_and_time_are_averaged(tmp_path):
    for seed in range(2):
        ours(tmp_path, "Hopper-v5", "NMER", seed, [0.0, 20.0])
    _, tables = tables_of(tmp_path)
    assert pick(tables["diagnostics"], name="td_error_mean")["mean"].tolist() == [1, 0.5]
    assert pick(tables["diagnostics"], name="seconds")["mean"].tolist() == [10, 20]


def test_invalid_scores_are_rejected_with_an_example(tmp_path):
    path = tmp_path / "scores.json"
    for text in (
        *("", "[]", '{"Hopper-v5": 3}', '{"Hopper-v5": {"lo": 3}}', '{"Hopper-v5": {"low": NaN}}'),
        '{"Hopper-v5": {"low": 3, "high": 3}}',
    ):
        path.write_text(text)
        with pytest.raises(UsageError, match="scores.json") as error:
            read_scores(path)
        assert not text.startswith("{") or text in str(error.value)
    path.write_text(json.dumps({"Hopper-v5": {"high": 3}}))
    assert read_scores(path) == {"Hopper-v5": {"high": 3}}


def test_scores_of_other_environments_only_are_rejected(tmp_path):
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [0.0, 1.0])
    with pytest.raises(UsageError, match="no run in 'Hopper', which --scores names; did you mean Hopper-v5?"):
        tables_of(tmp_path, scores=Scores({"Hopper": {"low": 0.0}}))
    tables_of(tmp_path, scores=Scores({"Hopper-v5": {"low": 0.0}, "Reacher-v5": {"low": -50.0}}))


def test_two_areas_near_random_play_are_compared_by_their_difference(tmp_path):
    """Their ratio would be 1, with an interval from 1 to 1."""
    for seed in range(5):
        ours(tmp_path, "Hopper-v5", "Uniform", seed, [0.0, 10.0 + seed])
        ours(tmp_path, "Hopper-v5", "NMER", seed, [0.0, 30.0 + seed])
    (section,), tables = tables_of(tmp_path, scores=Scores({"Hopper-v5": {"low": 0.0, "high": 3000.0}}))
    (sentence,) = summaries(section, tables)["NMER"]
    assert "a mean return over steps 10.0 above that of Uniform" in sentence and sentence.endswith("an improvement.")


def test_summaries_state_effect_interval_seeds_and_conclusion(tmp_path):
    scores = Scores({"Hopper-v5": {"low": 0.0, "high": 20.0}})
    for seed, (weak, strong) in enumerate([(9.0, 20.0), (10.0, 22.0), (11.0, 24.0), (10.0, 22.0), (10.0, 22.0)]):
        ours(tmp_path, "Hopper-v5", "Uniform", seed, [0.0, 10.0, weak])
        ours(tmp_path, "Hopper-v5", "NMER", seed, [0.0, 20.0, strong])
        ours(tmp_path, "Hopper-v5", "PER", seed, [0.0, 10.0 + 0.1 * seed, weak])
        ours(tmp_path, "Hopper-v5", "LCER", seed, [0.0, 5.0, 0.5 * weak])
    (section,), tables = tables_of(tmp_path, scores=scores)
    (nmer,), (per,), (lcer,) = (summaries(section, tables)[method] for method in ("NMER", "PER", "LCER"))
    assert nmer == ("Hopper-v5: NMER has 2.07x the area of Uniform, 95 % CI 2.01 to 2.12, 5 seeds: an improvement.")
    assert per.endswith("5 seeds: no detectable difference.") and lcer.endswith("5 seeds: a deterioration.")


def test_the_printed_interval_agrees_with_the_conclusion(tmp_path):
    for seed in range(5):
        ours(tmp_path, "Hopper-v5", "Uniform", seed, [0.0, 1000.0, 1000.0])
        ours(tmp_path, "Hopper-v5", "NMER", seed, [0.0, 1002.0 + 0.1 * seed, 1002.0])
    (section,), tables = tables_of(tmp_path, scores=Scores({"Hopper-v5": {"low": 0.0, "high": 1000.0}}))
    assert "1.002x the area of Uniform, 95 % CI 1.002 to 1.002, 5 seeds: an" in summaries(section, tables)["NMER"][0]


def test_fewer_than_five_runs_permit_no_conclusion(tmp_path):
    """In any environment; the command prints the reason."""
    for env, seeds in (("Hopper-v5", 4), ("Reacher-v5", 5)):
        for seed in range(5):
            if seed < seeds:
                ours(tmp_path, env, "Uniform", seed, [0.0, 10.0, 10.0 + seed])
            ours(tmp_path, env, "NMER", seed, [0.0, 20.0, 30.0 + seed])
    (section,), tables = tables_of(tmp_path)
    together, hopper, reacher = summaries(section, tables)["NMER"]
    few = "too few runs for a conclusion (at least 5 per method and environment)."
    assert together.endswith(f"2 environments, 10 runs: {few}") and hopper.endswith(f"4 seeds: {few}")
    assert reacher.endswith("5 seeds: an improvement.")
    printed = summary(Report(read_runs([tmp_path]), [section], tables, [tmp_path]))
    assert "SAC: Hopper-v5: Intervals from fewer than five runs are too narrow" in printed


def test_summaries_without_a_scale_or_with_one_seed(tmp_path):
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [0.0, -50.0, -90.0])
    ours(tmp_path, "Hopper-v5", "NMER", 0, [0.0, -40.0, -80.0])
    (section,), tables = tables_of(tmp_path)
    text = "Hopper-v5: NMER has a mean return over steps 7.50 above that of Uniform, 1 seed: too few for an interval."
    assert summaries(section, tables) == {"NMER": [text]}
    ours(tmp_path, "Hopper-v5", "NMER", 1, [0.0, -40.0, -80.0])
    (section,), tables = tables_of(tmp_path)
    assert summaries(section, tables)["NMER"][0].endswith("Uniform, 1 seed: too few for an interval.")


def test_summaries_and_ratios_without_the_baseline_in_some_environment(tmp_path):
    for env in ("Hopper-v5", "Reacher-v5"):
        for method in ("NMER", "PER"):
            ours(tmp_path, env, method, 0, [0.0, 20.0])
    ours(tmp_path, "Hopper-v5", "Uniform", 0, [0.0, 20.0])
    (section,), tables = tables_of(tmp_path)
    assert section.baseline == "Uniform" and section.find_common_methods()[0] == ["NMER", "PER"]
    found = summaries(section, tables)
    assert [sentence[:14] for sentence in found["NMER"]] == ["Hopper-v5: NME"]
    assert any(note.startswith("Uniform has no counted run in Reacher-v5: nothing is") for note in section.notes)


def test_the_command_prints_a_sentence_per_environment_if_none_is_about_all(tmp_path):
    for env in ("Hopper-v5", "Reacher-v5"):
        for method in ("Uniform", "NMER"):
            ours(tmp_path, env, method, 0, [0.0, -20.0])
    (section,), tables = tables_of(tmp_path)
    printed = summary(Report(read_runs([tmp_path]), [section], tables, [tmp_path]))
    assert printed.count(": NMER has a mean return over steps") == 2
    above = tables_of(tmp_path, scores=Scores(dict.fromkeys(("Hopper-v5", "Reacher-v5"), {"low": -50.0, "high": 0.0})))
    printed = summary(Report(read_runs([tmp_path]), *above, [tmp_path]))
    assert printed.count("NMER has") == 1 and "2 environments, 2 runs" in printed


def test_runs_that_do_not_count_for_one_reason_have_one_line(tmp_path):
    ours(tmp_path, "Hopper-v5", "NMER", 0, [0.0, -20.0])
    for number in range(5):
        (tmp_path / f"empty_{number}").mkdir()
    section, tables = tables_of(tmp_path)
    printed = summary(Report(read_runs([tmp_path]), section, tables, [tmp_path]))
    assert "6 runs: 1 finished, 5 empty\n  empty: empty_0, empty_1, empty_2 and 2 others: no result yet\n" in printed
