"""The settings of value networks, as `interreplay.learning.settings` has those of actors and critics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interreplay.learning.setting_fields import (
    Number,
    OneOf,
    OrWord,
    Range,
    Rate,
    Whole,
    YesNo,
    changed_default,
    setting,
    with_defaults,
)
from interreplay.learning.settings import POSITIVE, ActorCriticSettings, ReplaySettings


@dataclass(frozen=True)
class DQNSettings:
    """Deep Q-networks and what grew from them: Mnih et al. 2015 (Nature 518), with the loop of OpenAI's baselines."""

    train_batch_size: int = setting(32, Whole(1), "transitions per update")
    lr: float = setting(5e-4, Rate(), "learning rate where there is one network")
    optimizer: str = setting(
        "Adam",
        OneOf("Adam", "RMSprop"),
        "its optimizer; RMSprop is as published: centered for DQN, TensorFlow's for IMPALA",
    )
    optimizer_eps: float = setting(1e-8, POSITIVE, "epsilon of that optimizer")
    grad_clip: float | None = changed_default(ActorCriticSettings, "grad_clip", 10.0)
    grad_clip_by: str = changed_default(ActorCriticSettings, "grad_clip_by", "global_norm")
    hiddens: tuple[int, ...] = changed_default(ActorCriticSettings, "hiddens", (256, 256))
    network: Any = changed_default(ActorCriticSettings, "network", None)
    activation: str = changed_default(ActorCriticSettings, "activation", "relu")
    encoder: str = setting(
        "auto",
        OneOf("auto", "nature", "shallow", "minatar", "flat"),
        "convolutions before its layers; auto: nature, minatar below 36 pixels, flat where no images are",
    )
    conv_dtype: str = setting(
        "float32",
        OneOf("float32", "bfloat16"),
        "type of the products in these convolutions while learning; bfloat16 takes two thirds of the time",
    )
    double: bool = setting(False, YesNo(), "the network chooses the action that its target values")
    dueling: bool = setting(False, YesNo(), "a stream for the value of the state, one for the actions' advantages")
    noisy: bool = setting(False, YesNo(), "the last two layers have noise of a learned size, also to explore by")
    sigma0: float = setting(0.5, POSITIVE, "size of that noise at the start, times the root of a layer's inputs")
    distribution: str = setting(
        "mean",
        OneOf("mean", "categorical", "quantiles", "implicit"),
        "what is learned of the return: its mean, or its distribution",
    )
    atoms: int | str = setting(
        "auto",
        OrWord(Whole(2), "auto"),
        "returns or quantiles of a distribution; auto: 51 returns, 200 quantiles, 64 implicit ones",
    )
    value_range: tuple[float, float] = setting((-10.0, 10.0), Range(), "returns between which a categorical one lies")
    kappa: float = setting(1.0, POSITIVE, "error from which on the quantiles' loss is linear")
    huber_delta: float | None = changed_default(ActorCriticSettings, "huber_delta", 1.0)
    tau: float = changed_default(ActorCriticSettings, "tau", 1.0)
    target_update_period: int = setting(500, Whole(1), "updates from one move of the target networks to the next")
    initial_epsilon: float = setting(1.0, Number(0, 1), "share of random actions at the start")
    final_epsilon: float = setting(0.05, Number(0, 1), "share of random actions once it is lowest")
    epsilon_steps: int = setting(10_000, Whole(1), "environment steps over which that share falls")


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
