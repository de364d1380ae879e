"""The settings of DQN and its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interreplay.learning.setting_fields import (
    Boolean,
    Number,
    OneOf,
    OrWord,
    Range,
    Rate,
    WholeNumber,
    changed_default,
    check_without_effect,
    setting,
    with_defaults,
)
from interreplay.learning.settings import POSITIVE, ActorCriticSettings, ReplaySettings, SACSettings

READ_WITH = {
    "atoms": ("categorical", "quantiles", "implicit"),
    "value_range": ("categorical",),
    "kappa": ("quantiles", "implicit"),
    "huber_delta": ("mean",),
}
"""Distributions with which settings have an effect."""


EPSILON = ("initial_epsilon", "final_epsilon", "epsilon_steps")
"""Settings of the default exploration."""


@dataclass(frozen=True)
class DQNSettings:
    """Deep Q-networks and their variants: Mnih et al. 2015 (Nature 518), with the training loop of OpenAI Baselines."""

    train_batch_size: int = setting(32, WholeNumber(1), "transitions per update")
    lr: float = setting(5e-4, Rate(), "learning rate of an algorithm with one network")
    optimizer: str = setting(
        "Adam",
        OneOf("Adam", "RMSprop"),
        "optimizer; RMSprop is centered for DQN and TensorFlow's version for IMPALA, as published",
    )
    optimizer_eps: float = setting(1e-8, POSITIVE, "epsilon of the optimizer")
    grad_clip: float | None = changed_default(ActorCriticSettings, "grad_clip", 10.0)
    grad_clip_by: str = changed_default(ActorCriticSettings, "grad_clip_by", "global_norm")
    hiddens: tuple[int, ...] = changed_default(ActorCriticSettings, "hiddens", (256, 256))
    network: Any = changed_default(ActorCriticSettings, "network", None)
    activation: str = changed_default(ActorCriticSettings, "activation", "relu")
    encoder: Any = changed_default(ActorCriticSettings, "encoder", "auto")
    conv_dtype: str = setting(
        "float32",
        OneOf("float32", "bfloat16"),
        "number type of convolutions in updates; bfloat16 takes two thirds of the time",
    )
    double: bool = setting(
        False, Boolean(), "double Q-learning: the network chooses the action, and the target network evaluates it"
    )
    dueling: bool = setting(False, Boolean(), "dueling network: separate streams for state values and advantages")
    noisy: bool = setting(
        False, Boolean(), "noisy networks: learned noise in the last two layers, also for exploration"
    )
    sigma0: float = setting(
        0.5, POSITIVE, "initial noise of noisy layers: standard deviation sigma0 / sqrt(number of inputs)"
    )
    distribution: str = setting(
        "mean",
        OneOf("mean", "categorical", "quantiles", "implicit"),
        "learn the mean of the return, or its distribution as categories, quantiles or implicit quantiles",
    )
    atoms: int | str = setting(
        "auto",
        OrWord(WholeNumber(2), "auto"),
        "number of categories or quantiles; auto: 51 categories, 200 quantiles, 64 implicit quantiles",
    )
    value_range: tuple[float, float] = setting(
        (-10.0, 10.0), Range(), "smallest and largest return of a categorical distribution"
    )
    kappa: float = setting(1.0, POSITIVE, "TD error above which the quantile loss is linear")
    huber_delta: float | None = changed_default(ActorCriticSettings, "huber_delta", 1.0)
    critic_loss: Any = changed_default(ActorCriticSettings, "critic_loss", None)
    tau: float = changed_default(ActorCriticSettings, "tau", 1.0)
    target_update_period: int = setting(500, WholeNumber(1), "updates between two updates of the target networks")
    exploration: Any = changed_default(SACSettings, "exploration", None)
    initial_epsilon: float = setting(1.0, Number(0, 1), "initial share of random actions")
    final_epsilon: float = setting(0.05, Number(0, 1), "final share of random actions")
    epsilon_steps: int = setting(
        10_000, WholeNumber(1), "environment steps over which the share of random actions decreases"
    )

    def __post_init__(self) -> None:
        for name, distributions in READ_WITH.items():
            if self.distribution not in distributions:
                accepted = " or ".join(map(repr, distributions))
                check_without_effect(
                    self, [name], f"distribution {self.distribution!r}", expected=f"distribution {accepted}"
                )
        if isinstance(self.exploration, str | Mapping):
            check_without_effect(self, EPSILON, "an exploration is set", expected="no exploration")
        if self.network:
            check_without_effect(self, ["sigma0"], "network lists layers", expected="sigma0 of NoisyLinear in network")
        elif not self.noisy:
            check_without_effect(self, ["sigma0"], "noisy False", expected="noisy True")


@dataclass(frozen=True)
@with_defaults(double=True)
class DDQNSettings(DQNSettings):
    """Double DQN (van Hasselt et al. 2016, arXiv:1509.06461)."""


@dataclass(frozen=True)
@with_defaults(dueling=True)
class DuelingDQNSettings(DDQNSettings):
    """Dueling networks, learned as double DQN (Wang et al. 2016, arXiv:1511.06581)."""


@dataclass(frozen=True)
@with_defaults(noisy=True, initial_epsilon=0.0, final_epsilon=0.0)
class NoisyDQNSettings(DQNSettings):
    """DQN that explores with noisy layers (Fortunato et al. 2018, arXiv:1706.10295)."""


@dataclass(frozen=True)
@with_defaults(distribution="categorical", lr=2.5e-4, optimizer_eps=0.01 / 32)
class C51Settings(DQNSettings):
    """A categorical distribution of returns (Bellemare et al. 2017, arXiv:1707.06887)."""


@dataclass(frozen=True)
@with_defaults(distribution="quantiles", lr=5e-5, optimizer_eps=0.01 / 32)
class QRDQNSettings(DQNSettings):
    """Quantile regression (Dabney et al. 2018, arXiv:1710.10044)."""


@dataclass(frozen=True)
@with_defaults(distribution="implicit", lr=5e-5, optimizer_eps=0.01 / 32)
class IQNSettings(DQNSettings):
    """Implicit quantile networks (Dabney et al. 2018, arXiv:1806.06923)."""


@dataclass(frozen=True)
@with_defaults(
    double=True, dueling=True, noisy=True, lr=6.25e-5, optimizer_eps=1.5e-4, initial_epsilon=0.0, final_epsilon=0.0
)
class RainbowSettings(C51Settings):
    """Rainbow DQN, with prioritized replay and returns of 3 steps (Hessel et al. 2018, arXiv:1710.02298)."""

    n_step: int = changed_default(ReplaySettings, "n_step", 3)
