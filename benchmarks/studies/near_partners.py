"""Effect of near partners on a stable critic: ``python -m benchmarks.studies.near_partners FOLDER``.

FOLDER holds the runs of ``studies/sac_near_partners.yaml``, as Tune or `benchmarks.keep_study` left them. Those of
``studies/sac_stable_critic.yaml`` are in the folder ``sac_stable_critic`` next to it; three of their arms are shown.
The returns of random actions are in ``sac_nmer_ratio``.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.studies.arm_pairs import compared, with_arms_of
from benchmarks.studies.critic_study import COLORS as OF_CRITICS
from benchmarks.studies.ratio_report import CLAIMS, left_of, random_returns
from benchmarks.studies.ratio_statistics import Estimate
from benchmarks.studies.study_report import Found, report

OTHER_ARMS = ("NMER-LN", "Uniform-LN", "NaiveMixup")
"""Arms of the other study."""
COLORS = {arm: OF_CRITICS[arm] for arm in OTHER_ARMS} | {"NaiveMixup-LN": "#2f9e75"}
PAIRS = {
    "NMER against NaiveMixup,\nboth with LayerNorm": ("NMER-LN", "NaiveMixup-LN"),
    "NaiveMixup against Uniform,\nboth with LayerNorm": ("NaiveMixup-LN", "Uniform-LN"),
    "LayerNorm against none,\nboth NaiveMixup": ("NaiveMixup-LN", "NaiveMixup"),
}
"""Comparisons; the first is the primary one."""


def reading(primary: Estimate) -> str:
    """Return the conclusion from the primary effect, in the words that were fixed in advance."""
    if primary.low > 1:
        return "near partners add"
    if primary.high < 1:
        return "near partners take"
    claim = CLAIMS["SAC"]
    within = 1 / claim < primary.low and primary.high < claim
    return "less than is claimed for NMER either way" if within else "undecided"


def found_in(folder: Path) -> Found:
    """Return the tables, and a function that draws the figure."""
    found = with_arms_of(folder, "sac_stable_critic", OTHER_ARMS)
    waits = left_of(folder)
    return compared(
        found,
        random_returns(folder.parent / "sac_nmer_ratio"),
        PAIRS,
        COLORS,
        lambda effect: waits or f"By the reading fixed before: {reading(effect)}.",
    )


if __name__ == "__main__":
    report("benchmarks.studies.near_partners", __doc__, found_in)
