"""The commands that README and docs print are accepted by the parsers of the commands."""

import shlex
from pathlib import Path

import pytest

from cluster_deployment import submit
from interreplay.experiments.commands import (
    actor_learner,
    check,
    evaluate,
    experience,
    export,
    fork,
    lcer,
    run_agent,
    smoketest,
    study,
)
from interreplay.experiments.flags.reading import underscored
from interreplay.experiments.flags.training_flags import make_parser as training_parser
from interreplay.experiments.report.__main__ import make_parser as report_parser
from interreplay.experiments.rllib_command import main as rllib
from tests.printed_commands import PAGES, printed_commands

PLACEHOLDERS = {"N": "1", "$seed": "0"}
SCRIPTS = {
    "custom_training.py": "train",
    "interreplay-train": "train",
    "cluster_run.py": "study",
    "interreplay-study": "study",
    "smoketest.py": "smoketest",
    "interreplay.analysis": "report",
}
"""Other names of the subcommands of `interreplay`."""


PRINTED = [(page, line) for page in PAGES for line in printed_commands(page.read_text())]


def accept(words: list[str]) -> None:
    """Parse a command without running it; raise an error if it is rejected."""
    words = words[1:] if words[0].endswith("python") else words
    words = words[1:] if words[0] == "-m" else words
    name, *rest = words[1:] if words[0] == "interreplay" else words
    name = Path(name).name
    if [name, *rest[:1]] == ["experience", "export"]:
        name = "experience export"
        rest = rest[1:]
    match SCRIPTS.get(name, name):
        case "train":
            training_parser().given(rest)
        case "run_agent.py":
            training_parser().given(run_agent.translated(rest))
        case "train.py":
            training_parser().given(lcer.translated(rest))
        case "enjoy.py" if "--checkpoint" in rest:
            evaluate.make_parser().parse_args(lcer.enjoyed(rest))
        case "main.py":
            actor_learner.translated(actor_learner.read(rest))
        case "study":
            study.make_parser().given(rest)
        case "evaluate" | "enjoy.py":
            evaluate.make_parser().parse_args([underscored(word) for word in rest])
        case "check":
            check.make_parser().parse_args(rest)
        case "export":
            export.make_parser().parse_args(rest)
        case "report":
            report_parser().parse_args(rest)
        case "experience":
            experience.list_parser().parse_args(rest)
        case "experience export":
            experience.export_parser().parse_args(rest)
        case "fork":
            fork.make_parser().parse_args(rest)
        case "smoketest":
            smoketest.make_parser().parse_args(rest)
        case "submit.py":
            cut = rest.index("--") if "--" in rest else len(rest)
            args = submit.make_parser().parse_args(rest[:cut])
            study.make_parser().given([str(args.study), *rest[cut + 1 :]])
        case "rllib":
            rllib.make_parser().parse_args([underscored(word) for word in rest])
        case _:
            raise AssertionError(f"unknown command {name!r}")


@pytest.mark.parametrize(("page", "line"), PRINTED, ids=[f"{page.name}: {line}" for page, line in PRINTED])
def test_a_printed_command_is_accepted(page, line, tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text("env: Hopper-v5\n")
    monkeypatch.chdir(tmp_path)
    accept([PLACEHOLDERS.get(word, word) for word in shlex.split(line, comments=True)])


@pytest.mark.parametrize("line", ["interreplay train --no-such-flag", "rllib train --runs SAC", "python main.py --x=1"])
def test_an_unknown_flag_would_be_found(line):
    assert printed_commands(f"```\n{line}\n```\n") == [line]
    with pytest.raises((SystemExit, ValueError)):
        accept(shlex.split(line))


def test_a_command_after_a_block_of_python_is_found():
    page = "```python\nx = 1\n```\nProse.\n\n```\nrllib train --run PPO\n```\n"
    assert printed_commands(page) == ["rllib train --run PPO"]


def test_all_commands_are_looked_at():
    names = {" ".join(line.split()[:2]) for _, line in PRINTED}
    assert len(PRINTED) > 80
    assert {"python custom_training.py", "python cluster_run.py", "interreplay report", "rllib train"} <= names


def test_commands_for_clusters_can_be_pasted_into_zsh():
    page = next(page for page in PAGES if page.parent.name == "cluster_deployment")
    blocks = page.read_text().split("```")[1::2]
    assert blocks and [line for block in blocks for line in block.splitlines() if "#" in line] == []
