"""The settings of algorithms that are SAC but for a part, as `interreplay.learning.settings` states those of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from interreplay.learning.setting_fields import OrWord, Whole, Widths, changed_default, setting
from interreplay.learning.settings import POSITIVE, SACSettings


@dataclass(frozen=True)
class TQCSettings(SACSettings):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), with two critics as sb3-contrib.

    What is fixed is no setting but a class variable: the quantile loss, targets of all critics, a policy that
    maximizes their mean.
    """

    huber_delta: ClassVar[None] = None  # type: ignore[misc]
    pal_alpha: ClassVar[None] = None  # type: ignore[misc]
    target_subset: ClassVar[None] = None  # type: ignore[misc]
    actor_target: ClassVar[str] = "mean"  # type: ignore[misc]
    kappa: float = setting(1.0, POSITIVE, "TD error from which on the quantile loss is linear")
    n_quantiles: int = setting(25, Whole(1), "quantiles of each critic")
    drop_per_critic: int = setting(2, Whole(0), "largest quantiles per critic that are left out of targets")

    def __post_init__(self) -> None:
        """Refuse settings that do not fit each other.

        Raises:
            ValueError: Naming them.
        """
        super().__post_init__()
        if self.drop_per_critic >= self.n_quantiles:
            raise ValueError(
                f"drop_per_critic is {self.drop_per_critic}; expected less than n_quantiles, {self.n_quantiles}"
            )


@dataclass(frozen=True)
class CrossQSettings(SACSettings):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605), without target networks, normalized by batches alone."""

    tau: ClassVar[float] = 1.0  # type: ignore[misc]
    target_subset: ClassVar[None] = None  # type: ignore[misc]
    critic_layer_norm: ClassVar[bool] = False  # type: ignore[misc]
    critic_dropout: ClassVar[float] = 0.0  # type: ignore[misc]
    actor_lr: float = changed_default(SACSettings, "actor_lr", 1e-3)
    critic_lr: float = changed_default(SACSettings, "critic_lr", 1e-3)
    alpha_lr: float = changed_default(SACSettings, "alpha_lr", 1e-3)
    policy_delay: int = changed_default(SACSettings, "policy_delay", 3)
    critic_hiddens: tuple[int, ...] | str = setting(
        "auto", OrWord(Widths(), "auto"), "widths of the critics' hidden layers; auto is 8 times those of the policy"
    )
    renorm_warm_up: int = setting(
        100_000, Whole(0), "passes of each network in training with plain batch normalization before renormalization"
    )
