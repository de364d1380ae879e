"""Flags about replay of the original work."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.values import choice, number, read_boolean, whole

METHODS = {
    "knn_baseline": "NMER",
    "naive_mixup_baseline": "NaiveMixup",
    "ct_baseline": "ContinuousTransition",
    "s4rl_baseline": "S4RL",
    "noisy_replay_baseline": "Noise",
    "gaussian_process": "BIER",
    "gpytorch": "BIER",
}
"""Flags that name a replay method."""
BLENDS = ("mixup_interpolation", "smote_interpolation")
"""Flags that require a method that blends by mixup: NMER if none is named."""
CHOOSING_FLAGS = ("custom_replay_buffer", *METHODS, *BLENDS)
BUFFER_ARGUMENTS = {
    "kneighbors": "k",
    "mixup_alpha": "alpha",
    "prob_interpolation": "prob_interpolation",
    "interp_decay_rate": "interp_decay",
}
"""Flags that set one argument of the replay method."""
PRIORITY_ARGUMENTS = {f"prioritized_replay_{name}": name for name in ("alpha", "beta", "eps")}
"""Flags that set one argument of the `Prioritized` selector."""

_method = partial(Flag, scope="method")

ORIGINAL_REPLAY_FLAGS: tuple[Flag, ...] = (
    _method("custom_replay_buffer", read_boolean, None, "True: NMER; False: Uniform, or PER with --prioritized_replay"),
    *(_method(flag, read_boolean, False, method) for flag, method in METHODS.items()),
    _method("mixup_interpolation", read_boolean, False, "blend by mixup; NMER unless another such method is named"),
    _method(
        "smote_interpolation", read_boolean, False, "blend by mixup with lambda ~ U(0, 1), as --mixup_alpha 1 does"
    ),
    _method("kneighbors", whole(1), None, "the replay method's k, its number of neighbors"),
    _method("mixup_alpha", number(0, open_low=True), None, "the replay method's alpha, of its Beta(alpha, alpha)"),
    _method("prob_interpolation", number(0, 1), None, "probability of blending a row"),
    _method(
        "interp_decay_rate", number(0), None, "decrease of --prob_interpolation over the run; it stays at 0 or more"
    ),
    _method(
        "prioritized_replay", read_boolean, False, "select by TD error: PER alone, or the selector of another method"
    ),
    _method("prioritized_replay_alpha", number(0), None, "exponent of the priorities"),
    _method("prioritized_replay_beta", number(0, 1), None, "exponent of the importance weights at the start"),
    _method("prioritized_replay_eps", number(0, open_low=True), None, "added to every priority"),
    _method("use_importance_sampling", read_boolean, True, "False: no importance weights, beta stays 0"),
    _method(
        "interp_prio_update",
        read_boolean,
        False,
        "credit a blend's TD error to both ends by share, not to the anchor only",
    ),
)
ORIGINAL_REPLAY_NAMES = frozenset(map(attrgetter("name"), ORIGINAL_REPLAY_FLAGS))

GAUSSIAN_PROCESS_ARGUMENTS = {
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
"""Flags that set one argument of BIER."""


def smoothness(text: str) -> float:
    """Read ν of the Matérn kernel."""
    if text not in ("0.5", ".5", "1.5", "2.5"):
        raise argparse.ArgumentTypeError(f"must be .5, 1.5 or 2.5, got {text!r}")
    return float(text)


GAUSSIAN_PROCESS_FLAGS = (
    _method("kernel", choice("rbf", "matern", "rq"), "rq", "covariance function of the Gaussian processes"),
    _method("matern_nu", smoothness, 2.5, "smoothness of the Matern kernel: .5, 1.5 or 2.5"),
    _method("use_ard", read_boolean, True, "one length scale per feature"),
    _method("composite_kernel", read_boolean, False, "product of a kernel of states and one of actions"),
    _method("mean_type", choice("zero", "constant", "linear"), "zero", "mean function of the Gaussian processes"),
    _method("use_priors", read_boolean, False, "Gamma priors on hyperparameters"),
    _method("use_delta", read_boolean, True, "predict changes of state; False is rejected"),
    _method(
        "standardize_gpr_x", read_boolean, True, "scale a neighborhood's features to mean 0 and standard deviation 1"
    ),
    _method("normalize", read_boolean, False, "scale a neighborhood's features to 0 ... 1 instead"),
    _method("gp_pca", read_boolean, False, "work on principal components of a neighborhood's features"),
    _method("gp_pca_components", whole(1), 8, "number of principal components"),
    _method("mc_hyper", read_boolean, True, "average the hyperparameters of fits to --train_size neighborhoods"),
    _method(
        "global_hyperparams",
        read_boolean,
        True,
        "share hyperparameters between neighborhoods, fitted to --train_size random rows without --mc_hyper; False: fit"
        " every neighborhood of every batch",
    ),
    _method(
        "train_size",
        whole(1),
        None,
        "number of neighborhoods (default: 32) or, with --mc_hyper False, of rows (default: 256) in a fit",
    ),
    _method("retrain_interval", whole(1), 1_000, "updates between two fits of shared hyperparameters"),
    _method("warmstart_global", read_boolean, True, "start a fit at the previous result"),
    _method("use_botorch", read_boolean, False, "fit by L-BFGS with priors, as BoTorch does, instead of Adam"),
    _method("sample_gp_cov", read_boolean, False, "draw outcomes from the posterior instead of using its mean"),
    _method("weighted_updates", read_boolean, False, "weight rows in all losses by the certainty of their prediction"),
    _method("fp32", read_boolean, True, "float32; False: float64"),
    _method("perform_holdout_eval", read_boolean, False, "hold rows out regularly and report the prediction error"),
    _method("holdout_split", number(0, 0.9, open_low=True), 0.2, "share of a neighborhood to hold out"),
)
GAUSSIAN_PROCESS_NAMES = frozenset(map(attrgetter("name"), GAUSSIAN_PROCESS_FLAGS))


def gaussian_process_arguments(given: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """Return arguments of BIER, each as ``(flag that sets it, argument, value)``."""
    if given.get("use_delta") is False:
        raise UsageError("--use_delta False is not possible: the processes predict changes of state")
    found: list[tuple[str, str, Any]] = []
    for flag, argument in GAUSSIAN_PROCESS_ARGUMENTS.items():
        if flag in given:
            found.append((f"--{flag}", argument, given[flag]))

    if given.get("global_hyperparams", True) is False:
        if given.get("mc_hyper"):
            raise UsageError("--global_hyperparams False contradicts --mc_hyper; give one of them")
        found.append(("--global_hyperparams", "hyperparameters", "local"))
    elif "mc_hyper" in given:
        found.append(("--mc_hyper", "hyperparameters", "monte_carlo" if given["mc_hyper"] else "rows"))
    elif "global_hyperparams" in given:  # alone, it means the fit to random rows
        found.append(("--global_hyperparams", "hyperparameters", "rows"))

    if given.get("standardize_gpr_x") and given.get("normalize"):
        raise UsageError("--normalize contradicts --standardize_gpr_x; give one of them")
    if given.get("normalize"):
        found.append(("--normalize", "scaling", "minmax"))
    elif "standardize_gpr_x" in given:
        found.append(("--standardize_gpr_x", "scaling", "standardize" if given["standardize_gpr_x"] else "none"))

    if given.get("gp_pca"):
        found.append(("--gp_pca", "pca_components", given.get("gp_pca_components", 8)))
    elif "gp_pca_components" in given:
        raise UsageError("--gp_pca_components needs --gp_pca")
    if "use_botorch" in given:
        found.append(("--use_botorch", "optimizer", "lbfgs" if given["use_botorch"] else "adam"))
        if given["use_botorch"] and "use_priors" not in given:
            found.append(("--use_botorch", "priors", True))
    if "fp32" in given:
        found.append(("--fp32", "precision", "float32" if given["fp32"] else "float64"))
    if given.get("perform_holdout_eval"):
        found.append(("--perform_holdout_eval", "holdout_split", given.get("holdout_split", 0.2)))
    elif "holdout_split" in given:
        raise UsageError("--holdout_split needs --perform_holdout_eval")
    return found
