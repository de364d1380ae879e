"""Parsers of all commands."""

import argparse

from cluster_deployment import submit
from interreplay.experiments.commands import check, evaluate, experience, export, fork, smoketest, study
from interreplay.experiments.flags.training_flags import make_parser
from interreplay.experiments.report import report
from interreplay.experiments.rllib_command import main as rllib

PARSERS = {
    "train": make_parser(),
    "study": study.make_parser(),
    "evaluate": evaluate.make_parser(),
    "export": export.make_parser(),
    "report": report.make_parser(),
    "check": check.make_parser(),
    "experience": experience.list_parser(),
    "experience export": experience.export_parser(),
    "fork": fork.make_parser(),
    "smoketest": smoketest.make_parser(),
    "submit.py": submit.make_parser(),
}
RLLIB = rllib.make_parser()
(_commands,) = [action for action in RLLIB._actions if isinstance(action, argparse._SubParsersAction)]
PARSERS |= {f"rllib {name}": parser for name, parser in _commands.choices.items()}
