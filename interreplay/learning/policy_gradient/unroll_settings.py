"""The settings of algorithms that learn from unrolls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interreplay.learning.setting_fields import (
    Number,
    OneOf,
    OrWord,
    Whole,
    YesNo,
    changed_default,
    setting,
    with_defaults,
)
from interreplay.learning.settings import POSITIVE, ActorCriticSettings
from interreplay.learning.value.value_settings import DQNSettings


@dataclass(frozen=True)
class IMPALASettings:
    """V-trace on unrolls, losses as sums over their steps (Espeholt et al. 2018, arXiv:1802.01561, table G.1)."""

    train_batch_size: int = setting(32, Whole(1), "unrolls per update, fresh and replayed ones together")
    sync: bool = setting(
        False,
        YesNo(),
        "runners in other processes make unrolls with the newest weights and are waited for, so that runs repeat; else "
        "they go on with those that they have",
    )
    broadcast_interval: int = setting(
        1, Whole(1), "updates after which runners in other processes get new weights, where they are not in step"
    )
    max_lag: int = setting(
        100,
        Whole(1),
        "updates that the weights of a request may be behind before the learner waits for its answer alone, where "
        "runners in other processes are not in step",
    )
    lr: float = changed_default(DQNSettings, "lr", 6e-4)
    lr_end: float | None = setting(
        0.0,
        OrWord(Number(0), "none", None),
        "learning rate at the end of the run, where lr is one number; none leaves it as it is",
    )
    lr_power: float = setting(1.0, POSITIVE, "power of the share of the run left that lr falls by: 1 is a line")
    optimizer: str = changed_default(DQNSettings, "optimizer", "RMSprop")
    optimizer_eps: float = changed_default(DQNSettings, "optimizer_eps", 0.01)
    optimizer_decay: float = setting(0.99, Number(0, 1), "share of RMSprop's squares that stays per update")
    grad_clip: float | None = changed_default(DQNSettings, "grad_clip", 40.0)
    grad_clip_by: str = changed_default(DQNSettings, "grad_clip_by", "global_norm")
    loss: str = setting(
        "sum", OneOf("sum", "mean"), "losses are sums over the steps of a batch, as published ones, or means"
    )
    vf_loss_coeff: float = setting(0.5, Number(0), "c of the values' loss c/2 (v - V)^2")
    entropy_coeff: float = setting(0.01, Number(0), "what the entropy of the policy is multiplied by")
    vtrace_rho: float = setting(1.0, POSITIVE, "bound of V-trace's ratios pi/mu in errors of the values")
    vtrace_c: float = setting(1.0, Number(0), "bound of its ratios by which later errors are multiplied")
    vtrace_pg_rho: float = setting(1.0, POSITIVE, "bound of its ratios in the policy's gradient")
    returns: str = setting(
        "vtrace", OneOf("vtrace", "gae"), "advantages: V-trace's, or generalized ones of fresh unrolls without ratios"
    )
    returns_lambda: float = setting(1.0, Number(0, 1), "lambda of the returns")
    policy_cloning: float = setting(
        0.0, Number(0), "weight of CLEAR's KL(mu || pi), which keeps the policy near that of replayed steps"
    )
    value_cloning: float = setting(
        0.0, Number(0), "weight of CLEAR's (V - V_mu)^2, which keeps values near those of replayed steps"
    )
    relevance_bound: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        "LASER's b: divergence of policies from which on a step is not learned from; none: never",
    )
    relevance_of: str = setting(
        "implied",
        OneOf("implied", "behavior"),
        "policy that this divergence is from: the one that V-trace implies, or the one that acted",
    )
    hiddens: tuple[int, ...] = changed_default(ActorCriticSettings, "hiddens", (256,))
    network: Any = changed_default(ActorCriticSettings, "network", None)
    activation: str = changed_default(ActorCriticSettings, "activation", "relu")
    lstm_cells: int | None = setting(
        None, OrWord(Whole(1), "none", None), "cells of an LSTM before the hidden layers; none: no memory"
    )
    shared_layers: bool = setting(True, YesNo(), "policy and value have their hidden layers in common")
    encoder: str = changed_default(DQNSettings, "encoder", "auto")
    conv_dtype: str = changed_default(DQNSettings, "conv_dtype", "float32")
    free_log_std: bool = setting(
        True, YesNo(), "deviations of continuous actions are parameters, the same in every state"
    )
    initial_log_std: float = setting(0.0, Number(), "logarithm of these deviations at the start")
    initial_weights: str = setting(
        "uniform",
        OneOf("uniform", "orthogonal"),
        "weights at the start: PyTorch's, or orthogonal ones of gain 1.41, .01 of the policy's last layer",
    )

    def __post_init__(self) -> None:
        """Reject settings that contradict each other.

        Raises:
            ValueError: The settings and their values.
        """
        for name in ("policy_cloning", "value_cloning", "relevance_bound"):
            if self.returns == "gae" and getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)} and returns 'gae'; expected 'vtrace' with replay")


@dataclass(frozen=True)
@with_defaults(policy_cloning=0.01, value_cloning=0.005)
class CLEARSettings(IMPALASettings):
    """IMPALA that clones policy and value of replayed steps (Rolnick et al. 2019, arXiv:1811.11682)."""


@dataclass(frozen=True)
@with_defaults(relevance_bound=0.3)
class LASERSettings(IMPALASettings):
    """IMPALA that leaves out replayed steps of policies too far away (Schmitt et al. 2020, arXiv:1909.11583)."""


@dataclass(frozen=True)
@with_defaults(
    train_batch_size=16,
    sync=True,
    lr=7e-4,
    lr_end=None,
    optimizer_eps=1e-5,
    grad_clip=0.5,
    loss="mean",
    vf_loss_coeff=1.0,
    entropy_coeff=0.0,
    returns="gae",
    hiddens=(64, 64),
    activation="tanh",
    shared_layers=False,
)
class A2CSettings(IMPALASettings):
    """Advantage actor-critic, synchronous and without replay (Mnih et al. 2016, arXiv:1602.01783; SB3's defaults)."""


@dataclass(frozen=True)
@with_defaults(train_batch_size=1, sync=False)
class A3CSettings(A2CSettings):
    """Asynchronous advantage actor-critic: runners give gradients (Mnih et al. 2016, arXiv:1602.01783)."""
