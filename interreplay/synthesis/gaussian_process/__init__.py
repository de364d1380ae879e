"""Gaussian processes over neighborhoods of transitions (BIER)."""

from interreplay.synthesis.gaussian_process.fit import Fit
from interreplay.synthesis.gaussian_process.holdout import HoldOut
from interreplay.synthesis.gaussian_process.kernels import Form, Hyperparameters
from interreplay.synthesis.gaussian_process.neighborhoods import Preparation
from interreplay.synthesis.gaussian_process.queue import QueuedGaussianProcess
from interreplay.synthesis.gaussian_process.schedule import Local, MonteCarlo, RandomRows, Schedule, schedule_named
from interreplay.synthesis.gaussian_process.synthesizer import GaussianProcess

__all__ = [
    "Fit",
    "Form",
    "GaussianProcess",
    "HoldOut",
    "Hyperparameters",
    "Local",
    "MonteCarlo",
    "Preparation",
    "QueuedGaussianProcess",
    "RandomRows",
    "Schedule",
    "schedule_named",
]
