"""Every flag that README and docs name is a flag of one of our programs, or of a program in the list below."""

import argparse
import re
import runpy
import sys

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
    smoketest,
    study,
)
from interreplay.experiments.flags.original_flags import REMOVED
from interreplay.experiments.flags.reading import DEFAULT_VALUES, HARMLESS, HARMLESS_VALUES
from interreplay.experiments.flags.run_flags import FLAGS, GROUPS
from interreplay.experiments.flags.training_flags import make_parser, settings_for
from interreplay.experiments.report.__main__ import make_parser as report_parser
from interreplay.experiments.rllib_command import main as rllib
from tests.printed_commands import PAGES, ROOT, printed_flags

PARSERS = (
    *(make_parser, report_parser, submit.make_parser, rllib.make_parser),
    *(study.make_parser, evaluate.make_parser, check.make_parser, export.make_parser, fork.make_parser),
    *(experience.list_parser, experience.export_parser, smoketest.make_parser, lcer.make_parser),
)
TABLES = (HARMLESS, HARMLESS_VALUES, DEFAULT_VALUES, REMOVED, actor_learner.DEFAULTS, actor_learner.GAMES)
OTHERS = {
    "sbatch and squeue": "array batch cpu_bind export job_name me no_kill nodelist ntasks parsable signal",
    "Docker and Apptainer": "build_arg cleanenv nv rm shm_size user",
    "CleanRL": "capture_video env_id no_autotune policy_frequency policy_lr q_lr total_timesteps track",
    "LCER's enjoy.py": "checkpoint make_gif n_enjoy_episodes",
    "pip": "index_url",
    "TensorBoard": "logdir",
    "an error message about an argument of a method": "k",
}
"""Flags of other programs on our pages."""


def options(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a parser and of its subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options, action.choices.values()))
    return found


def known_flags() -> set[str]:
    names = set().union(*(options(make()) for make in PARSERS))
    found = {name.lstrip("-").replace("-", "_") for name in names}
    found.update(*TABLES, actor_learner.FIXED, actor_learner.IGNORED)
    for source in (ROOT / "benchmarks").rglob("*.py"):
        found |= {name.replace("-", "_") for name in re.findall(r'"--([\w-]+)"', source.read_text())}
    return found


def test_every_flag_on_our_pages_exists():
    known = known_flags()
    others = {name for names in OTHERS.values() for name in names.split()}
    assert others & FLAGS.keys() == set()
    named: set[str] = set()
    unknown = []
    for page in PAGES:
        flags = printed_flags(page.read_text())
        named |= flags
        unknown += [f"{page.name}: --{flag}" for flag in sorted(flags - known - others)]
    assert unknown == [] and others <= named and len(named) > 300


def test_a_removed_flag_would_be_found():
    assert printed_flags("`--no-such-flag 3`, --gamma=.9 and a--b, 2 -- 3") == {"no_such_flag", "gamma"}
    assert "no_such_flag" not in known_flags()


@pytest.mark.parametrize("words", [["--help"], [], ["--help", "all"]])
def test_argument_parser_prints_the_flags(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["argument_parser.py", *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "argument_parser.py"), run_name="__main__")
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (0, "") and out.startswith("usage: argument_parser.py ")
    for name in ("trainer", "env", "buffer", "buffer_arg", "total_env_steps"):
        assert f"--{name} " in out
    if words[1:]:
        assert all(f"--{name}" in out for name in FLAGS)
        assert all(f"\n{title}" in out for title in GROUPS)


def test_a_method_inside_another_one_is_written_as_the_page_shows_it():
    line = ["--buffer", "ModelBased", "--buffer_arg", 'real={"type": "LCER", "variant": "member"}']
    assert line[-1] in (ROOT / "docs" / "migration.md").read_text()
    made = settings_for(make_parser().given(["--env", "Hopper-v5", *line]))
    assert made.buffer_args["real"] == {"type": "LCER", "variant": "member"}
