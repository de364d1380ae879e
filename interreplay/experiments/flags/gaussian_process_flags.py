"""The original work's flags about Gaussian processes, and the arguments of BIER that they mean."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import boolean, choice, number, whole

# Flags that say the value of one argument.
ARGUMENTS = {
    "kernel": "kernel",
    "matern_nu": "nu",
    "use_ard": "ard",
    "composite_kernel": "composite",
    "mean_type": "mean",
    "use_priors": "priors",
    "train_size": "train_size",
    "retrain_interval": "retrain_interval",
    "warmstart_global": "warm_start",
    "sample_gp_cov": "sample_posterior",
    "weighted_updates": "weighted_updates",
}
HYPERPARAMETERS = ("mc_hyper", "global_hyperparams")
SCALINGS = {"standardize_gpr_x": "standardize", "normalize": "minmax"}


def smoothness(text: str) -> float:
    """Read ν of the Matérn kernel."""
    if text not in ("0.5", ".5", "1.5", "2.5"):
        raise argparse.ArgumentTypeError(f"must be .5, 1.5 or 2.5, got {text!r}")
    return float(text)


smoothness.metavar = ".5|1.5|2.5"  # type: ignore[attr-defined]

GAUSSIAN_PROCESS_FLAGS = (
    Flag("kernel", choice("rbf", "matern", "rq"), "rq", "covariance of the processes"),
    Flag("matern_nu", smoothness, 2.5, "smoothness of the Matern kernel: .5, 1.5 or 2.5"),
    Flag("use_ard", boolean, True, "a length scale for every feature"),
    Flag("composite_kernel", boolean, False, "a kernel of states times one of actions"),
    Flag("mean_type", choice("zero", "constant", "linear"), "zero", "mean of the processes"),
    Flag("use_priors", boolean, False, "Gamma priors on hyperparameters"),
    Flag("use_delta", boolean, True, "predict changes of state; False is refused, there is no other way"),
    Flag("standardize_gpr_x", boolean, True, "features of a neighborhood to mean 0 and standard deviation 1"),
    Flag("normalize", boolean, False, "features of a neighborhood to 0 ... 1 instead"),
    Flag("gp_pca", boolean, False, "work on principal components of the features of a neighborhood"),
    Flag("gp_pca_components", whole(1), 8, "how many of them"),
    Flag("mc_hyper", boolean, True, "hyperparameters are the mean of fits of --train_size neighborhoods"),
    Flag(
        "global_hyperparams",
        boolean,
        True,
        "shared by all neighborhoods: of --train_size random rows without"
        " --mc_hyper; False: a fit for every neighborhood of every batch",
    ),
    Flag("train_size", whole(1), None, "neighborhoods or rows of a fit (default: 32 or 256)"),
    Flag("retrain_interval", whole(1), 1_000, "updates between two fits of shared hyperparameters"),
    Flag("warmstart_global", boolean, True, "a fit starts at what the last one found"),
    Flag("use_botorch", boolean, False, "fit by L-BFGS with priors, as BoTorch does, not by Adam"),
    Flag("sample_gp_cov", boolean, False, "draw outcomes from the posterior, do not take its mean"),
    Flag("weighted_updates", boolean, False, "weigh rows in all losses by how sure the processes are of them"),
    Flag("fp32", boolean, True, "float32; False: float64"),
    Flag("perform_holdout_eval", boolean, False, "leave rows out now and then, and report how well they are predicted"),
    Flag("holdout_split", number(0, 0.9, open_low=True), 0.2, "share of a neighborhood to leave out"),
)


def gaussian_process_arguments(given: Mapping[str, Any]) -> list[tuple[str, tuple[str, Any]]]:
    """Return arguments of BIER, each with the flag that says it: ``(flag, (argument, value))``.

    Raises:
        UsageError: Flags that contradict each other, or ask for what there is not.
    """
    if given.get("use_delta") is False:
        raise UsageError("--use_delta False is not possible: the processes predict changes of state")
    found = [(f"--{flag}", (argument, given[flag])) for flag, argument in ARGUMENTS.items() if flag in given]
    found += _hyperparameters(given) + _scaling(given)
    if given.get("gp_pca"):
        found.append(("--gp_pca", ("pca_components", given.get("gp_pca_components", 8))))
    elif "gp_pca_components" in given:
        raise UsageError("--gp_pca_components needs --gp_pca")
    if "use_botorch" in given:
        found.append(("--use_botorch", ("optimizer", "lbfgs" if given["use_botorch"] else "adam")))
        if given["use_botorch"] and "use_priors" not in given:
            found.append(("--use_botorch", ("priors", True)))
    if "fp32" in given:
        found.append(("--fp32", ("precision", "float32" if given["fp32"] else "float64")))
    if given.get("perform_holdout_eval"):
        found.append(("--perform_holdout_eval", ("holdout_split", given.get("holdout_split", 0.2))))
    elif "holdout_split" in given:
        raise UsageError("--holdout_split needs --perform_holdout_eval")
    return found


def _hyperparameters(given: Mapping[str, Any]) -> list[tuple[str, tuple[str, Any]]]:
    named = [flag for flag in HYPERPARAMETERS if flag in given]
    if not named:
        return []
    if given.get("global_hyperparams", True) is False:
        if given.get("mc_hyper"):
            raise UsageError("--global_hyperparams False contradicts --mc_hyper; give one of them")
        return [("--global_hyperparams", ("hyperparameters", "local"))]
    # Of these two alone, --global_hyperparams is the fit on random rows.
    from_neighborhoods = given.get("mc_hyper", "global_hyperparams" not in given)
    return [(f"--{named[0]}", ("hyperparameters", "monte_carlo" if from_neighborhoods else "rows"))]


def _scaling(given: Mapping[str, Any]) -> list[tuple[str, tuple[str, Any]]]:
    asked = [flag for flag in SCALINGS if given.get(flag)]
    if len(asked) == 2:
        raise UsageError("--normalize contradicts --standardize_gpr_x; give one of them")
    if asked:
        return [(f"--{asked[0]}", ("scaling", SCALINGS[asked[0]]))]
    refused = [flag for flag in SCALINGS if given.get(flag) is False]
    return [(f"--{refused[0]}", ("scaling", "none"))] if "standardize_gpr_x" in refused else []
