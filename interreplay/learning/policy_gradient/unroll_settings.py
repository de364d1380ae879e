"""The settings of algorithms that learn from unrolls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interreplay.learning.setting_fields import (
    Boolean,
    Number,
    OneOf,
    OrWord,
    WholeNumber,
    changed_default,
    check_without_effect,
    setting,
    with_defaults,
)
from interreplay.learning.settings import POSITIVE, ActorCriticSettings
from interreplay.learning.value.value_settings import DQNSettings


@dataclass(frozen=True)
class IMPALASettings:
    """V-trace on unrolls, losses as sums over their steps (Espeholt et al. 2018, arXiv:1802.01561, table G.1)."""

    train_batch_size: int = setting(32, WholeNumber(1), "unrolls per update, fresh and replayed")
    sync: bool = setting(
        False,
        Boolean(),
        "wait for all remote runners and give them the newest weights, so that runs are reproducible; False: runners "
        "continue with their current weights",
    )
    broadcast_interval: int = setting(
        1, WholeNumber(1), "updates between broadcasts of weights to asynchronous runners"
    )
    max_lag: int = setting(
        100,
        WholeNumber(1),
        "maximum age, in updates, of the weights of an asynchronous request before the learner waits for its result",
    )
    caching: bool = setting(
        False,
        Boolean(),
        "draw replayed unrolls one update earlier and copy them in a background thread; no effect without replay",
    )
    lr: float = changed_default(DQNSettings, "lr", 6e-4)
    lr_end: float | None = setting(
        0.0,
        OrWord(Number(0), "none", None),
        "final learning rate, if lr is a number; none keeps it constant",
    )
    lr_power: float = setting(1.0, POSITIVE, "exponent of the decrease of lr over the run; 1 is linear")
    optimizer: str = changed_default(DQNSettings, "optimizer", "RMSprop")
    optimizer_eps: float = changed_default(DQNSettings, "optimizer_eps", 0.01)
    optimizer_decay: float = setting(0.99, Number(0, 1), "decay of RMSprop's squared gradients per update")
    grad_clip: float | None = changed_default(DQNSettings, "grad_clip", 40.0)
    grad_clip_by: str = changed_default(DQNSettings, "grad_clip_by", "global_norm")
    loss: str = setting(
        "sum", OneOf("sum", "mean"), "sum or mean of the losses over the steps of a batch; publications use sums"
    )
    critic_loss: Any = changed_default(ActorCriticSettings, "critic_loss", None)
    vf_loss_coeff: float = setting(0.5, Number(0), "coefficient c of the value loss c/2 (v - V)^2")
    entropy_coeff: float = setting(0.01, Number(0), "coefficient of the policy's entropy")
    vtrace_rho: float = setting(1.0, POSITIVE, "bound of V-trace's ratios pi/mu in value targets (rho)")
    vtrace_c: float = setting(1.0, Number(0), "bound of V-trace's ratios that weight later errors (c)")
    vtrace_pg_rho: float = setting(1.0, POSITIVE, "bound of V-trace's ratios in the policy gradient")
    returns: str = setting(
        "vtrace", OneOf("vtrace", "gae"), "returns and advantages: V-trace, or GAE on fresh unrolls without ratios"
    )
    returns_lambda: float = setting(1.0, Number(0, 1), "lambda of V-trace or GAE")
    policy_cloning: float = setting(0.0, Number(0), "weight of CLEAR's KL(mu || pi) on replayed steps")
    value_cloning: float = setting(0.0, Number(0), "weight of CLEAR's (V - V_mu)^2 on replayed steps")
    relevance_bound: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        "LASER's b: KL divergence of policies above which a step is ignored; none disables it",
    )
    relevance_of: str = setting(
        "implied",
        OneOf("implied", "behavior"),
        "reference policy of relevance_bound: the policy implied by V-trace, or the behavior policy",
    )
    hiddens: tuple[int, ...] = changed_default(ActorCriticSettings, "hiddens", (256,))
    network: Any = changed_default(ActorCriticSettings, "network", None)
    activation: str = changed_default(ActorCriticSettings, "activation", "relu")
    lstm_cells: int | None = setting(
        None, OrWord(WholeNumber(1), "none", None), "number of LSTM cells before the hidden layers; none: no LSTM"
    )
    shared_layers: bool = setting(True, Boolean(), "share the hidden layers of policy and value function")
    encoder: Any = changed_default(DQNSettings, "encoder", "auto")
    conv_dtype: str = changed_default(DQNSettings, "conv_dtype", "float32")
    free_log_std: bool = setting(
        True, Boolean(), "standard deviations of continuous actions are parameters that do not depend on the state"
    )
    initial_log_std: float = setting(0.0, Number(), "initial log standard deviation of continuous actions")
    initial_weights: str = setting(
        "uniform",
        OneOf("uniform", "orthogonal"),
        "initial weights: PyTorch's, or orthogonal with gain 1.41 and .01 in the policy's last layer",
    )

    def __post_init__(self) -> None:
        for name in ("policy_cloning", "value_cloning", "relevance_bound"):
            if self.returns == "gae" and getattr(self, name):
                raise ValueError(f"{name} is {getattr(self, name)} and returns 'gae'; expected 'vtrace' with replay")
        if self.returns == "gae":
            ratios = ["vtrace_rho", "vtrace_c", "vtrace_pg_rho"]
            check_without_effect(self, ratios, "returns 'gae'", expected="returns 'vtrace'")
        if self.optimizer != "RMSprop":
            reason = f"optimizer {self.optimizer!r}"
            check_without_effect(self, ["optimizer_decay"], reason, expected="optimizer 'RMSprop'")
        if self.initial_log_std and not self.free_log_std:
            raise ValueError(
                f"initial_log_std is {self.initial_log_std} and standard deviations are outputs of the network; "
                "expected free_log_std True"
            )


@dataclass(frozen=True)
@with_defaults(policy_cloning=0.01, value_cloning=0.005)
class CLEARSettings(IMPALASettings):
    """IMPALA that clones policy and value of replayed steps (Rolnick et al. 2019, arXiv:1811.11682)."""


@dataclass(frozen=True)
@with_defaults(relevance_bound=0.3)
class LASERSettings(IMPALASettings):
    """IMPALA without replayed steps of policies that are too distant (Schmitt et al. 2020, arXiv:1909.11583)."""


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
    """Asynchronous advantage actor-critic: runners compute gradients (Mnih et al. 2016, arXiv:1602.01783)."""
