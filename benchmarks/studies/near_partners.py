"""Effect of near partners on a stable critic: ``python -m benchmarks.studies.near_partners FOLDER``.

FOLDER contains the runs of ``studies/sac_near_partners.yaml``, as written by Tune or `benchmarks.keep_study`. The
folder ``sac_stable_critic`` next to it contains the runs of ``studies/sac_stable_critic.yaml``, three arms of which are
shown, and the folder ``sac_nmer_ratio`` the returns of random actions.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.studies.arm_pairs import compared, read_with_arms
from benchmarks.studies.critic_study import COLORS as CRITIC_COLORS
from benchmarks.studies.ratio_report import CLAIMS, missing_runs, random_returns
from benchmarks.studies.ratio_statistics import Estimate
from benchmarks.studies.study_report import Found, report

OTHER_ARMS = ("NMER-LN", "Uniform-LN", "NaiveMixup")
"""Arms of the other study."""
COLORS = {arm: CRITIC_COLORS[arm] for arm in OTHER_ARMS} | {"NaiveMixup-LN": "#2f9e75"}
PAIRS = {
    "NMER against NaiveMixup,\nboth with LayerNorm": ("NMER-LN", "NaiveMixup-LN"),
    "NaiveMixup against Uniform,\nboth with LayerNorm": ("NaiveMixup-LN", "Uniform-LN"),
    "LayerNorm against none,\nboth NaiveMixup": ("NaiveMixup-LN", "NaiveMixup"),
}
"""Comparisons; the first is the primary one."""


def conclusion(primary: Estimate) -> str:
    """Return the conclusion from the primary effect, in the words that were fixed in advance."""
    if primary.low > 1:
        return "near partners help"
    if primary.high < 1:
        return "near partners harm"
    claim = CLAIMS["SAC"]
    within = 1 / claim < primary.low and primary.high < claim
    return "less than is claimed for NMER either way" if within else "undecided"


def make_report(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    found = read_with_arms(folder, "sac_stable_critic", OTHER_ARMS)
    missing = missing_runs(folder)
    return compared(
        found,
        random_returns(folder.parent / "sac_nmer_ratio"),
        PAIRS,
        COLORS,
        lambda effect: missing or f"By the decision rule fixed before the first run: {conclusion(effect)}.",
    )


if __name__ == "__main__":
    report("benchmarks.studies.near_partners", __doc__, make_report)
