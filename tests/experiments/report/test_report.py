"""The files of a report, and the command that writes them."""

import re
from unittest.mock import patch

import pandas as pd
import pytest
from PIL import Image
from run_folders import ours, row, settings, write

from interreplay.experiments.report import draw
from interreplay.experiments.report.figures import BASELINE_COLOR, styles
from interreplay.experiments.report.report import main
from interreplay.experiments.report.tables import number, times
from tests.experiments.commands.command_lines import rejects


def page_of(tmp_path):
    """Report the runs in a folder, with figures in one format; return the page."""
    with patch.object(draw, "SUFFIXES", ("svg",)):
        assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "out")]) == 0
    return (tmp_path / "out" / "index.html").read_text()


@pytest.mark.slow
def test_all_files_are_written_and_readable(report):
    names = {path.name for path in report.iterdir()}
    figures = {"sac-learning", "sac-aggregate", "sac-improvement", "sac-time"}
    figures |= {f"sac-diagnostics-{env}" for env in ("Hopper-v5", "Reacher-v5")}
    assert names >= {f"{figure}.{kind}" for figure in figures for kind in ("png", "svg", "pdf")} | {"index.html"}
    for path in report.glob("*.png"):
        with Image.open(path) as image:
            assert min(image.size) > 150 and len(image.convert("RGB").getcolors(10**6)) > 20
    for path in report.glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")
    for path in report.glob("*.csv"):
        assert len(pd.read_csv(path))


@pytest.mark.slow
def test_diagnostics_of_unrolls_are_drawn(tmp_path):
    reported = {"lag_mean": 2.0, "elite/distance": 0.3, "elite/replays_per_unroll": 1.5, "queue/waiting": 4.0}
    more = {f"replay_buffer/{name}": value for name, value in reported.items()}
    more |= {"learners/default_policy/rho_mean": 0.9, "learners/default_policy/kl_to_behavior": 0.1}
    for seed in (0, 1):
        params = settings("suite/x-v0", "UnrollMix", seed, 3000, trainer="LASER")
        rows = [row(1000.0 * (i + 1), float(i), float(i), **more) for i in range(3)]
        write(tmp_path / "runs" / str(seed), rows, params)
    page_of(tmp_path)
    drawn = (tmp_path / "out" / "laser-diagnostics-suite-x-v0.svg").read_text()
    titles = ("age of unrolls", "distance of elite", "draws from elite", "waiting in queue", "mean V-trace", "KL of")
    assert not [title for title in titles if title not in drawn]


def test_the_page_requires_no_external_files(report):
    page = re.sub(r"<script>.*?</script>|<svg.*?</svg>", "", (report / "index.html").read_text(), flags=re.DOTALL)
    links = re.findall(r'(?:src|href)="((?!#|data:)[^"]*)"', page)
    runs = {link for link in links if "/" in link}
    assert all((report / link).is_file() for link in links if link not in runs)
    folders = {path.resolve() for path in (report.parent / "runs").iterdir()}
    assert {(report / link).resolve() for link in runs} == folders
    written = {path.name for path in report.iterdir()} - {"index.html"}
    assert "sac-learning.png" in written and written == set(links) - runs, "the next report removes these files"
    assert "Two &lt;methods&gt;" in page and "Two <methods>" not in page


def test_the_page_explains_its_figures_and_states_results(report):
    page = (report / "index.html").read_text()
    assert "Thin lines: individual seeds. Thick lines: means. Bands: 95 % bootstrap intervals." in page
    assert "NMER (3 runs)" in page and '<ul class="legend">' in page
    assert "Hopper-v5, steps 1,000 to 4,000" in page
    comparison = r"<li>NMER has \d\.\d\dx the area of Uniform, 95 % CI .*, 2 environments, 6 runs: too few runs for"
    assert re.search(comparison, page)
    (excluded,) = re.findall(r"Excluded from averages: ([^.]*)\.", page)
    assert sorted(excluded.split(", ")) == ["1 crashed", "1 unfinished", "2 empty"]
    assert "ValueError: actions are NaN" in page and "12 of 16 runs count" in page


@pytest.mark.slow
def test_reports_are_reproducible(report):
    again = report.parent / "again"
    with patch.object(draw, "SUFFIXES", ("svg", "pdf")):
        assert main([str(report.parent / "runs"), "--output", str(again), "--title", "Two <methods>"]) == 0
    names = {path.name for path in report.iterdir() if path.suffix != ".png"} - {"index.html"}
    for name in names:
        assert (report / name).read_bytes() == (again / name).read_bytes(), name
    page = re.sub(r'<a href="[^"]*">PNG</a>, ', "", (report / "index.html").read_text())
    assert page == (again / "index.html").read_text()


def test_the_command_prints_states_and_the_path_of_the_page(tmp_path, capsys):
    ours(tmp_path / "runs", "Hopper-v5", "NMER", 0, [1.0], total=5000)
    page = page_of(tmp_path)
    shown = capsys.readouterr().out
    assert "1 run: 1 unfinished" in shown and "1,000 of 5,000 steps" in shown and "index.html" in shown
    assert "No run counts: nothing is compared. --count all" in page


@pytest.mark.slow
def test_without_uniform_another_method_is_the_baseline(tmp_path, capsys):
    for seed in range(2):
        for method, last in (("NMER", 9.0), ("Uniform-LN", 7.0)):
            ours(tmp_path / "runs", "Hopper-v5", method, seed, [0.0, 5.0 + seed, last + seed])
    page = page_of(tmp_path)
    remark = "methods are compared with Uniform-LN. --baseline NAME selects another: NMER; Uniform-LN."
    assert remark in page and remark in capsys.readouterr().out
    assert "Area ÷ Uniform-LN" in page and page.count('type="checkbox"') == 2
    improvement = pd.read_csv(tmp_path / "out" / "improvement.csv")
    assert set(zip(improvement["method"], improvement["baseline"], strict=True)) == {("NMER", "Uniform-LN")}


@pytest.mark.slow
def test_without_a_scale_the_page_shows_differences(tmp_path, capsys):
    for seed in range(3):
        ours(tmp_path / "runs", "Hopper-v5", "Uniform", seed, [0.0, -50.0 - seed, -90.0])
        ours(tmp_path / "runs", "Hopper-v5", "NMER", seed, [0.0, -40.0 - seed, -80.0 - seed])
    (tmp_path / "out").mkdir()
    page = page_of(tmp_path)
    reason = "No scale in Hopper-v5: no method ends above random play."
    assert reason in page and reason in capsys.readouterr().out
    assert "Scales and thresholds" not in page and "÷" not in page and "Steps to threshold" not in page
    assert "Mean − Uniform" in page and "Final − Uniform" in page and "probability of improvement" in page
    written = {path.name for path in (tmp_path / "out").glob("*.csv")}
    assert {"improvement.csv", "efficiency.csv"} <= written
    assert not written & {"scale.csv", "aggregate.csv"}
    assert not re.search(r"</h2>\s*<h2|</h3>\s*<h[23]", page), "a heading without content"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--baseline", "Unifrom"], "did you mean Uniform?"),
        (["--output", "file"], "file cannot be written"),
    ],
)
def test_mistakes_are_one_line(words, part, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    ours(tmp_path / "runs", "Hopper-v5", "Uniform", 0, [0.0, 1.0])
    rejects(capsys, main, ["runs", *words], part)


def test_methods_have_different_styles_and_baselines_are_gray():
    found = styles([f"m{i}" for i in range(9)] + ["Uniform"], {"Uniform"})
    assert found["Uniform"] == (BASELINE_COLOR, "solid") and len(set(found.values())) == 10
    assert list(styles(["PER", "NMER"], {"Uniform"})) == ["NMER", "PER"]


def test_numbers_have_three_digits_and_ratios_enough_decimals_to_differ_from_1():
    values = [1.1, 0.661, -0.5, 12.0, 99.99, -123.45, -1636.2, 0.0]
    assert [number(value) for value in values] == ["1.10", "0.661", "−0.500", "12.0", "100", "−123.5", "−1,636", "0.00"]
    assert [number(value) for value in (None, float("nan"))] == ["–", "–"]
    values = [0.661, 12.345, 1.0, 1.004, 0.9996, 1.0000003, float("nan")]
    assert [times(value) for value in values] == ["0.66", "12.35", "1.00", "1.004", "0.9996", "1.00", "–"]


def test_long_names_in_figures_remain_different():
    names = ["NMER", f"{'a' * 30}-k=5", f"{'a' * 30}-k=50", f"{'a' * 15}b{'a' * 15}", f"{'a' * 15}c{'a' * 15}", "NMER"]
    short = draw.shorten_names(names, 20)
    assert short == [
        "NMER",
        "aaaaaaaaaa…aaaaa-k=5",
        "aaaaaaaaaa…aaaa-k=50",
        "aaaaaaaaaa…aaaaaaaaa",
        "aaaaaaaa…aaaaaaa (2)",
        "NMER",
    ]
