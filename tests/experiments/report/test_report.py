from __future__ import annotations

import re

import pandas as pd
import pytest
from PIL import Image
from run_folders import ours, row, settings, study, write

from interreplay.experiments.report.__main__ import main
from interreplay.experiments.report.drawing.charts import BASELINE, apart, styles
from interreplay.experiments.report.drawing.interactive import broken
from interreplay.experiments.report.html_tables import number


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    top = tmp_path_factory.mktemp("report")
    assert main([str(study(top / "runs")), "--output", str(top / "out"), "--title", "Two <methods>"]) == 0
    return top / "out"


def test_all_files_are_there_and_readable(report):
    names = {path.name for path in report.iterdir()}
    figures = {"sac-learning", "sac-aggregate", "sac-improvement", "sac-profiles", "sac-time", "sac-overview"}
    figures |= {"sac-learning-by-time", "sac-learning-by-updates"}
    figures |= {f"sac-diagnostics-{env}" for env in ("Hopper-v5", "Reacher-v5")}
    assert names >= {f"{figure}.{kind}" for figure in figures for kind in ("png", "svg")} | {"index.html"}
    for path in report.glob("*.png"):
        with Image.open(path) as image:
            assert min(image.size) > 150 and len(image.convert("RGB").getcolors(10**6)) > 20
    for path in report.glob("*.csv"):
        assert len(pd.read_csv(path))


@pytest.mark.slow
def test_what_replay_of_unrolls_did_is_drawn(tmp_path):
    of_run = {"lag_mean": 2.0, "elite/distance": 0.3, "elite/replays_per_unroll": 1.5, "queue/waiting": 4.0}
    more = {f"replay_buffer/{name}": value for name, value in of_run.items()}
    more |= {"learners/default_policy/rho_mean": 0.9, "learners/default_policy/kl_to_behavior": 0.1}
    for seed in (0, 1):
        params = settings("CartPole-v1", "UnrollMix", seed, 3000, trainer="LASER")
        rows = [row(1000.0 * (i + 1), float(i), float(i), **more) for i in range(3)]
        write(tmp_path / "runs" / str(seed), rows, params)
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    drawn = (tmp_path / "out" / "laser-diagnostics-CartPole-v1.svg").read_text()
    for title in (
        "age of unrolls",
        "distance of elite",
        "draws from elite",
        "waiting in queue",
        "mean V-trace",
        "KL of",
    ):
        assert title in drawn


def test_the_page_needs_nothing_from_outside(report):
    page = re.sub(r"<script>.*?</script>", "", (report / "index.html").read_text(), flags=re.DOTALL)
    links = re.findall(r'(?:src|href)="((?!#|data:)[^"]*)"', page)
    runs = {link for link in links if "/" in link}
    assert all((report / link).is_file() for link in links if link not in runs)
    assert {(report / link).resolve() for link in runs} == {
        path.resolve() for path in (report.parent / "runs").iterdir()
    }
    assert {"sac-learning.png", "sac-learning-by-time.svg", "curves_by_time.csv", "overview.csv", "runs.csv"} <= set(
        links
    )
    assert "Two &lt;methods&gt;" in page and "Two <methods>" not in page


def test_curves_by_time_and_the_overview_say_what_the_runs_say(report):
    times = pd.read_csv(report / "curves_by_time.csv")
    hopper = times[(times["env"] == "Hopper-v5") & (times["method"] == "NMER")]
    assert hopper["seconds"].tolist() == [10.0, 20.0, 30.0, 40.0]
    assert hopper["mean"].tolist() == [40.0, 81.0, 95.0, 99.0]
    updates = pd.read_csv(report / "curves_by_updates.csv")
    assert set(updates["updates"]) == {0.0, 1000.0, 2000.0, 3000.0}
    overview = pd.read_csv(report / "overview.csv")
    assert set(zip(overview["env"], overview["method"], strict=True)) == {
        (env, method) for env in ("Hopper-v5", "Reacher-v5") for method in ("Uniform", "NMER")
    }
    best = overview[overview["method"] == "NMER"]
    assert best["final"].tolist() == pytest.approx([1.0, 1.0])


@pytest.mark.slow
def test_smoothing_changes_pictures_and_no_table(report, tmp_path):
    assert main([str(report.parent / "runs"), "--output", str(tmp_path), "--smoothing", ".9"]) == 0
    assert (tmp_path / "curves.csv").read_bytes() == (report / "curves.csv").read_bytes()
    assert (tmp_path / "sac-learning.svg").read_text() != (report / "sac-learning.svg").read_text()
    assert 'value="0.9"' in (tmp_path / "index.html").read_text()


def test_the_page_tells_of_runs_that_do_not_count(report):
    page = (report / "index.html").read_text()
    (said,) = re.findall(r"Not in any average: ([^.]*)\.", page)
    assert sorted(said.split(", ")) == ["1 crashed", "1 unfinished", "2 empty"]
    assert "ValueError: actions are NaN" in page and "12 of 16 runs count" in page


@pytest.mark.slow
def test_the_same_runs_make_the_same_report(report):
    runs = report.parent / "runs"
    again = report.parent / "again"
    assert main([str(runs), "--output", str(again), "--title", "Two <methods>"]) == 0
    for path in report.iterdir():
        if path.suffix != ".png":
            assert path.read_bytes() == (again / path.name).read_bytes(), path.name


def test_the_command_says_what_it_found(tmp_path, capsys):
    ours(tmp_path / "runs", "Hopper-v5", "NMER", 0, [1.0], total=5000)
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert "1 runs: 1 unfinished" in shown and "1,000 of 5,000 steps" in shown and "index.html" in shown
    assert "No run counts: nothing is compared. --count all" in (tmp_path / "out" / "index.html").read_text()


def test_without_uniform_another_method_is_the_baseline_and_the_flag_is_named(tmp_path, capsys):
    for seed in range(2):
        for method, last in (("NMER", 9.0), ("Uniform-LN", 7.0)):
            ours(tmp_path / "runs", "Hopper-v5", method, seed, [0.0, 5.0 + seed, last + seed])
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    remark = "No run of Uniform counts: methods are compared with Uniform-LN. --baseline NAME chooses another: NMER."
    page = (tmp_path / "out" / "index.html").read_text()
    assert remark in page and remark in capsys.readouterr().out
    assert "Area ÷ Uniform-LN" in page and page.count('type="checkbox"') == 2
    improvement = pd.read_csv(tmp_path / "out" / "improvement.csv")
    assert set(zip(improvement["method"], improvement["baseline"], strict=True)) == {("NMER", "Uniform-LN")}


def test_without_learning_the_page_says_so_and_shows_differences(tmp_path, capsys):
    for seed in range(3):
        ours(tmp_path / "runs", "Hopper-v5", "Uniform", seed, [0.0, -50.0 - seed, -90.0])
        ours(tmp_path / "runs", "Hopper-v5", "NMER", seed, [0.0, -40.0 - seed, -80.0 - seed])
    arguments = [str(tmp_path / "runs"), "--output", str(tmp_path / "out")]
    (tmp_path / "out").mkdir()
    assert main(arguments) == 0
    reason = "No scale in Hopper-v5: no method ends above random play."
    page = (tmp_path / "out" / "index.html").read_text()
    assert reason in page and reason in capsys.readouterr().out
    assert "Scales and thresholds" not in page and "÷" not in page and "Steps to threshold" not in page
    assert "Mean − Uniform" in page and "Final − Uniform" in page and "probability of improvement" in page
    written = {path.name for path in (tmp_path / "out").glob("*.csv")}
    assert {"improvement.csv", "efficiency.csv"} <= written and not written & {
        "scale.csv",
        "aggregate.csv",
        "overview.csv",
    }
    assert all(len(pd.read_csv(tmp_path / "out" / name)) for name in written)
    assert not re.search(r"</h2>\s*<h2|</h3>\s*<h[23]", page), "a heading without content"


@pytest.mark.slow
def test_ids_with_slashes_and_runs_that_are_all_alike(tmp_path, recwarn):
    for seed in range(2):
        for method in ("Uniform", "NMER"):
            ours(tmp_path / "runs", "suite/x-v0", method, seed, [0.0, 5.0, 5.0])
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "sac-diagnostics-suite-x-v0.png").exists()
    assert not [warning for warning in recwarn if issubclass(warning.category, (RuntimeWarning, UserWarning))]


def test_runs_without_any_result_make_a_page_of_states(tmp_path):
    (tmp_path / "runs" / "SAC_Hopper-v5_PER_s0_x").mkdir(parents=True)
    (tmp_path / "runs" / "SAC_Hopper-v5_PER_s0_x" / "error.txt").write_text("Traceback\nMemoryError\n")
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    assert "before its first result: MemoryError" in (tmp_path / "out" / "index.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{top}/nothing"], "nothing does not exist"),
        (["{top}/empty"], "no runs in"),
        (["{top}/runs", "--baseline", "Unifrom"], "did you mean Uniform?"),
        (["{top}/runs", "--threshold", "nan"], "must be a number above 0"),
        (["{top}/runs", "--measure", "return"], "invalid choice"),
        (["{top}/runs", "--scores", "{top}/none.json"], "none.json"),
        (["{top}/runs", "--output", "{top}/file"], "file cannot be written"),
        ([], "RESULTS"),
    ],
)
def test_mistakes_end_in_one_line(tmp_path, capsys, words, said):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    ours(tmp_path / "runs", "Hopper-v5", "Uniform", 0, [0.0, 1.0])
    assert main([word.format(top=tmp_path) for word in words]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


def test_one_color_per_method_and_dashes_after_the_last():
    found = styles([f"m{i}" for i in range(9)] + ["Uniform"], {"Uniform"})
    assert found["Uniform"] == (BASELINE, "solid") and len(set(found.values())) == 10
    assert list(styles(["PER", "NMER"], {"Uniform"})) == ["NMER", "PER"], "what did not run has no box and no color"


def test_long_labels_are_broken_and_never_cut():
    assert broken("RWR(temperature=0.5) (20)") == ["RWR(temperature=", "0.5) (20)"]
    assert broken("RWR, temperature=0.5 (2)") == ["RWR,", "temperature=0.5", "(2)"]
    assert broken("NMER (5)") == ["NMER (5)"]
    assert broken("ContinuousTransition (10)") == ["Continuous", "Transition (10)"]
    assert broken("x" * 40) == ["x" * 16, "x" * 16, "x" * 8]
    for label in ("NMER, k=10, alpha=0.75, selector=Prioritized (3)", "LCER, variant=member, n_clusters=1000 (5)"):
        lines = broken(label)
        assert max(map(len, lines)) <= 16 and "".join(lines).replace(" ", "") == label.replace(" ", "")


def test_numbers_have_the_same_digits_and_the_minus_sign_of_axes():
    values = [1.1, 0.661, -0.5, 12.0, 99.99, -123.45, -1636.2, 0.0]
    assert [number(value) for value in values] == ["1.10", "0.661", "−0.500", "12.0", "100", "−123.5", "−1,636", "0.00"]
    assert [number(value) for value in (None, float("nan"))] == ["–", "–"]


def test_labels_are_moved_apart_and_stay_inside():
    found = apart([1.0, 1.0, 1.1, 9.9], [1.0] * 4, 0.0, 10.0)
    ordered = sorted(found)
    assert all(b - a >= 1 - 1e-9 for a, b in zip(ordered, ordered[1:], strict=False)) and found[3] == 9.9
    assert apart([5.0], [1.0], 0.0, 10.0) == [5.0]
    assert sorted(apart([10.0, 10.0], [1.0, 3.0], 0.0, 10.0)) == [8.0, 10.0], "half of each between their middles"
    assert sorted(apart([5.0] * 3, [20.0] * 3, 0.0, 10.0)) == [0.0, 5.0, 10.0], "too many share what there is"
