"""Gaussian processes over neighborhoods of transitions (BIER)."""

from interreplay.synthesis.gaussian_process.fit import Fit, Schedule
from interreplay.synthesis.gaussian_process.holdout import HoldOut
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation
from interreplay.synthesis.gaussian_process.processes import Form, Hyperparameters
from interreplay.synthesis.gaussian_process.synthesizer import GaussianProcess

__all__ = ["Fit", "Form", "GaussianProcess", "HoldOut", "Hyperparameters", "Preparation", "Schedule"]
