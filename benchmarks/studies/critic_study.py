"""Effect of interpolation on a stable critic: ``python -m benchmarks.studies.critic_study FOLDER``.

FOLDER contains the runs of ``studies/sac_stable_critic.yaml``, as written by Tune or `benchmarks.keep_study`. The
folder ``sac_nmer_ratio`` next to it contains the runs of ``studies/sac_nmer_ratio.yaml``, two arms of which are shown,
and the returns of random actions.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.studies.arm_pairs import compared, read_with_arms
from benchmarks.studies.ratio_report import CLAIMS, apply_rule, random_returns
from benchmarks.studies.study_report import Found, report

OTHER = "sac_nmer_ratio"
OTHER_ARMS = ("Uniform-20", "NMER-20")
"""Arms of the other study."""
COLORS = {"Uniform-20": "#3e4c59", "NMER-20": "#c65d21", "NaiveMixup": "#8d6cab", "Uniform-LN": "#2f7ed8"}
COLORS |= {"NMER-LN": "#f0b429"}
PAIRS = {
    "NMER against Uniform,\nboth with LayerNorm": ("NMER-LN", "Uniform-LN"),
    "LayerNorm against none,\nboth Uniform": ("Uniform-LN", "Uniform-20"),
    "NMER against NaiveMixup": ("NMER-20", "NaiveMixup"),
    "NaiveMixup against Uniform": ("NaiveMixup", "Uniform-20"),
}
"""Comparisons; the first is the primary one."""


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    found = read_with_arms(folder, OTHER, OTHER_ARMS)
    random = random_returns(folder.parent / OTHER)
    return compared(found, random, PAIRS, COLORS, lambda effect: apply_rule(folder, effect, {"SAC": CLAIMS["SAC"]}))


if __name__ == "__main__":
    report("benchmarks.studies.critic_study", __doc__, make_report)
