"""Names of runs are shown as text, and a report overwrites nothing but a report."""

import json
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from unittest.mock import patch

import pytest
from run_folders import ours, settings, write

from interreplay.errors import UsageError
from interreplay.experiments.report import draw
from interreplay.experiments.report.report import find_earlier, main
from interreplay.experiments.report.tables import TABLES
from tests.experiments.commands.command_lines import rejects

TAG = "<img src=x onerror=alert(1)>"
NAMES = {
    name: f"{name}{TAG}&\"'$\\frac$" for name in ("NMER", "Uniform", "Hopper-v5", "SAC", "title", "value", "error")
}


class Page(HTMLParser):
    """Collects the elements, attributes, text and scripts of a page."""

    def __init__(self, content: str):
        super().__init__()
        self.tags, self.attributes, self.text, self.scripts, self._script = [], [], [], [], False
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self._script = tag == "script"

    def handle_endtag(self, tag):
        self._script = False

    def handle_data(self, data):
        (self.scripts if self._script else self.text).append(data)


def called(top, name, seed, **params):
    """Write a finished run with hostile names in params.json."""
    folder = ours(top / "runs", "Hopper-v5", f"{name}{TAG.replace(' ', '_')}", seed, [1.0 + seed, 5.0, 9.0 + seed])
    path = folder / "params.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | params))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    top = tmp_path_factory.mktemp("escaping")
    env, trainer = NAMES["Hopper-v5"], NAMES["SAC"]
    for buffer in ("Uniform", "NMER"):
        for seed in range(2):
            arguments = {TAG: NAMES["value"]} if buffer == "NMER" and seed else {}
            called(top, buffer, seed, env=env, trainer=trainer, buffer=NAMES[buffer], buffer_args=arguments)
    failed = settings(env, NAMES["NMER"], 7, 5000) | {"trainer": trainer}
    write(top / "runs" / "crashed", [], failed, error=f"Traceback\nValueError: {NAMES['error']}")
    (write(top / "runs" / "unreadable", []) / "params.json").write_text(f"{{{TAG}")
    given = ["--output", str(top / "out"), "--title", NAMES["title"], "--baseline", NAMES["Uniform"]]
    with patch.object(draw, "SUFFIXES", ("svg",)):
        assert main([str(top / "runs"), *given]) == 0
    return top / "out"


@pytest.mark.slow
def test_names_are_text(report):
    page = Page((report / "index.html").read_text(encoding="utf-8"))
    assert "img" not in page.tags and page.tags.count("script") == 2
    assert not [name for name, _ in page.attributes if name.startswith("on") or name == "src"]
    shown = "".join(page.text)
    for name, value in NAMES.items():
        assert value in shown, name
    assert TAG.replace(" ", "_") in shown, "names of folders"
    (charts,) = [script for script in page.scripts if script.lstrip().startswith("{")]
    assert "<" not in charts
    assert "the best method here" in shown


@pytest.mark.slow
def test_names_are_text_in_svg_files(report):
    pictures = sorted(report.glob("*.svg"))
    assert pictures
    for path in pictures:
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.parse(path).iter()}
        assert not tags & {"img", "script"}, path.name
    assert any(TAG in "".join(ElementTree.parse(path).getroot().itertext()) for path in pictures)


@pytest.mark.slow
def test_files_are_written_to_the_output_folder_only(tmp_path):
    called(tmp_path, "Uniform", 0, trainer="../../evil", env="../x")
    assert main([str(tmp_path / "runs"), "--output", str(tmp_path / "a" / "b" / "out")]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "a"}
    assert {path.name for path in (tmp_path / "a").rglob("*") if path.is_dir()} == {"b", "out"}


@pytest.mark.parametrize(
    ("name", "content"), [("index.html", "<h1>Mine</h1>"), ("runs.csv", "a,b\n"), ("scale.csv", "")]
)
def test_other_files_are_not_overwritten(tmp_path, name, content, capsys):
    ours(tmp_path / "runs", "Hopper-v5", "Uniform", 0, [1.0, 2.0, 3.0])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text(content)
    rejects(capsys, main, [str(tmp_path / "runs"), "--output", str(tmp_path / "out")], name, "choose another folder")
    assert [path.read_text() for path in (tmp_path / "out").iterdir()] == [content]


def test_only_files_of_the_earlier_report_are_removed(tmp_path):
    page = '<meta name="generator" content="interreplay 1">'
    page += '<a href="sac-learning.png">PNG</a> <a href="gone.svg">SVG</a> <a href="published.csv">CSV</a>'
    page += '<a href="../runs/a/">a</a> &lt;a href="mine.csv"> <a href="notes.txt">'
    (tmp_path / "index.html").write_text(page)
    found = find_earlier(tmp_path) - {f"{name}.csv" for name in ("runs", *TABLES)}
    assert found == {"sac-learning.png", "gone.svg", "published.csv"}


@pytest.mark.slow
def test_a_report_can_be_overwritten(report, tmp_path):
    assert {path.name for path in report.iterdir()} <= find_earlier(report) | {"index.html"}
    assert find_earlier(tmp_path / "new") == set()
    page = (report / "index.html").read_text(encoding="utf-8")
    (tmp_path / "index.html").write_text(page.replace('<meta name="generator"', '<meta name="x"'), encoding="utf-8")
    with pytest.raises(UsageError, match=r"contains an index\.html that is not a report"):
        find_earlier(tmp_path)
