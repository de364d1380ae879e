"""The settings of each algorithm, with their defaults, accepted values and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from interreplay.learning.setting_fields import (
    Increasing,
    Network,
    Number,
    OneOf,
    OrWord,
    Rate,
    Whole,
    WholeOrRange,
    Widths,
    YesNo,
    changed_default,
    setting,
    with_defaults,
    without_settings,
)

POSITIVE = Number(0, open_low=True)


@dataclass(frozen=True)
class LoopSettings:
    """Settings of the training loop of all algorithms."""

    matrix_dtype: str = setting(
        "float32",
        OneOf("float32", "bfloat16"),
        "type in which matrices between hidden layers are multiplied; bfloat16 is faster where processors have it",
    )
    steps_per_iteration: int = setting(1_000, Whole(1), "environment steps per iteration, the unit of intervals")
    normalize_observations: bool = setting(
        False, YesNo(), "networks see observations less their running mean, over their running deviation"
    )
    anneal_steps: int | None = setting(
        None,
        OrWord(Whole(1), "none", None),
        "environment steps over which schedules run; none leaves them at their start",
    )


@dataclass(frozen=True)
class ReplaySettings(LoopSettings):
    """Settings of the training loop of algorithms that replay transitions."""

    learning_starts: int = setting(1_000, Whole(0), "environment steps with random actions before the first update")
    updates_per_step: float = setting(1.0, Number(0), "updates per environment step, below 1 for less than one")
    batches_per_draw: int = setting(
        32, Whole(1), "most updates that get their batches from one draw of the buffer; priorities change between draws"
    )
    n_step: int | tuple[int, int] = setting(
        1, WholeOrRange(), "steps of the returns; of two numbers such as 2,5 one between them is drawn for each batch"
    )
    scale_rewards: bool = setting(
        False, YesNo(), "divide the rewards of drawn rows by the running deviation of the discounted return"
    )
    collect: bool = setting(
        True, YesNo(), "whether environments are stepped; else iterations are of updates, from recorded rows alone"
    )
    on_manifold_rows: int = setting(0, Whole(0), "blended rows that the simulator (MuJoCo) checks, of every 50th batch")


@dataclass(frozen=True)
class ActorCriticSettings:
    """Common settings of algorithms with an actor and critics."""

    train_batch_size: int = setting(256, Whole(1), "transitions per update")
    tau: float = setting(
        0.005, Number(0, 1, open_low=True), "share of the new weights in the target networks per update"
    )
    actor_lr: float = setting(3e-4, Rate(), "learning rate of the policy")
    critic_lr: float = setting(3e-4, Rate(), "learning rate of the critics")
    hiddens: tuple[int, ...] = setting((256, 256), Widths(), "widths of the hidden layers")
    network: Any = setting(
        None, OrWord(Network(), "none", None), "layers of the networks by stream, in place of hiddens; none: hiddens"
    )
    activation: str = setting("relu", OneOf("relu", "tanh"), "function between the layers")
    actor_l2: float = setting(0.0, Number(0), "c of an L2 term c/2 |w|^2 on the policy's weights")
    critic_l2: float = setting(0.0, Number(0), "c of an L2 term c/2 |w|^2 on the critics' weights")
    huber_delta: float | None = setting(
        None, OrWord(POSITIVE, "none", None), "TD error from which on the critics' loss is linear; none: never"
    )
    pal_alpha: float | None = setting(
        None,
        OrWord(Number(0, 1), "none", None),
        "exponent of PAL as the critics' loss, LAP without its sampling; none: no",
    )
    n_critics: int = setting(2, Whole(1), "number of critics")
    target_subset: int | None = setting(
        None,
        OrWord(Whole(1), "all", None),
        "critics whose minimum is the target, drawn for every update; all: all critics",
    )
    critic_layer_norm: bool = setting(False, YesNo(), "normalize the hidden layers of the critics")
    critic_dropout: float = setting(0.0, Number(0, 0.99), "share of the critics' hidden units left out of each pass")
    critic_target: str = setting(
        "min",
        OneOf("min", "mean"),
        "of the target critics' values, what the critics learn; mean: the policy maximizes the critics' mean as well",
    )
    critic_blocks: int = setting(
        0, Whole(0), "residual blocks of the critics with layer normalization (SimBa); 0: plain layers of hiddens"
    )
    critic_width: int = setting(128, Whole(2), "width of critics with residual blocks, whose inner layers are 4 times")
    actor_blocks: int = setting(
        0, Whole(0), "residual blocks of the policy with layer normalization (SimBa); 0: plain layers of hiddens"
    )
    actor_width: int = setting(128, Whole(2), "width of a policy with residual blocks, whose inner layers are 4 times")
    actor_target: str = setting(
        "min", OneOf("min", "mean", "first"), "of the critics' values, what the policy maximizes; first: one critic's"
    )
    weight_decay: float = setting(0.0, Number(0), "weight decay of AdamW, as a share of the learning rate")
    grad_clip: float | None = setting(
        None, OrWord(POSITIVE, "none", None), 'maximum norm of all gradients; "none" disables clipping'
    )
    grad_clip_by: str = setting(
        "global_norm",
        OneOf("global_norm", "norm", "value"),
        "quantity that clipping bounds: the norm of all gradients, the norm of each layer, or each number",
    )
    actor_grad_clip: float | None = setting(
        None, OrWord(POSITIVE, "none", None), "maximum for the gradients of the policy alone; none: grad_clip"
    )
    critic_grad_clip: float | None = setting(
        None, OrWord(POSITIVE, "none", None), "maximum for the gradients of the critics alone; none: grad_clip"
    )
    reset_interval: int | None = setting(
        None,
        OrWord(Whole(1), "none", None),
        "updates between resets of networks and optimizers, which keep stored transitions; none: never",
    )
    reset_at: tuple[int, ...] | None = setting(
        None,
        OrWord(Increasing(), "none", None),
        "environment steps after whose updates networks and optimizers are reset; none: never",
    )

    def __post_init__(self) -> None:
        """Reject settings that contradict each other.

        Raises:
            ValueError: The settings and their values.
        """
        if self.target_subset is not None and self.target_subset > self.n_critics:
            raise ValueError(f"target_subset is {self.target_subset}; expected at most n_critics, {self.n_critics}")
        if self.critic_blocks and self.critic_dropout:
            raise ValueError(
                f"critic_blocks is {self.critic_blocks} and critic_dropout {self.critic_dropout}; expected one of "
                "them 0"
            )
        l2 = [name for name in ("actor_l2", "critic_l2") if getattr(self, name)]
        if self.weight_decay and l2:
            raise ValueError(
                f"weight_decay is {self.weight_decay} and {l2[0]} {getattr(self, l2[0])}; expected one of them 0"
            )


@dataclass(frozen=True)
class SACSettings(ActorCriticSettings):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905; discrete: Christodoulou 2019, arXiv:1910.07207)."""

    alpha_lr: float = setting(3e-4, Rate(open_low=False), "learning rate of the temperature; 0 leaves it as it is")
    initial_alpha: float = setting(1.0, POSITIVE, "temperature at the start")
    target_entropy: float | str = setting(
        "auto",
        OrWord(OrWord(Number(), "auto"), "half"),
        "entropy aimed at; auto: minus the action's size, of n discrete ones .98 log n; half: half of it",
    )
    policy_delay: int = setting(1, Whole(1), "updates of the critics per update of the policy")
    backup_entropy: bool = setting(True, YesNo(), "whether targets hold the entropy of the next action")


@dataclass(frozen=True)
@without_settings(huber_delta=None, pal_alpha=None, target_subset=None, critic_target="mean", actor_target="mean")
class TQCSettings(SACSettings):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), with two critics as sb3-contrib.

    The quantile loss, targets of all critics and a policy that maximizes their mean are fixed.
    """

    kappa: float = setting(1.0, POSITIVE, "TD error beyond which the quantile loss is linear")
    n_quantiles: int = setting(25, Whole(1), "quantiles of each critic")
    drop_per_critic: int = setting(2, Whole(0), "number of largest quantiles per critic excluded from targets")

    def __post_init__(self) -> None:
        """Reject settings that contradict each other.

        Raises:
            ValueError: The settings and their values.
        """
        super().__post_init__()
        if self.drop_per_critic >= self.n_quantiles:
            raise ValueError(
                f"drop_per_critic is {self.drop_per_critic}; expected less than n_quantiles, {self.n_quantiles}"
            )


@dataclass(frozen=True)
@without_settings(
    tau=1.0,
    target_subset=None,
    critic_layer_norm=False,
    critic_dropout=0.0,
    critic_blocks=0,
    critic_width=128,
    actor_blocks=0,
    actor_width=128,
)
@with_defaults(actor_lr=1e-3, critic_lr=1e-3, alpha_lr=1e-3, policy_delay=3)
class CrossQSettings(SACSettings):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605), without target networks, normalized by batches alone."""

    critic_hiddens: tuple[int, ...] | str = setting(
        "auto", OrWord(Widths(), "auto"), "widths of the critics' hidden layers; auto is 8 times those of the policy"
    )
    renorm_warm_up: int = setting(
        100_000, Whole(0), "passes of each network in training with plain batch normalization before renormalization"
    )


@dataclass(frozen=True)
@with_defaults(actor_target="first")
class DeterministicSettings(ActorCriticSettings):
    """Common settings of algorithms with a deterministic policy."""

    exploration: str = setting("Gaussian", OneOf("Gaussian", "OrnsteinUhlenbeck"), "noise on actions while training")
    exploration_sigma: float = setting(0.1, Number(0), "its standard deviation per step, for actions in [-1, 1]")
    exploration_theta: float = setting(0.15, Number(0, 1), "share of Ornstein-Uhlenbeck noise that is lost per step")


@dataclass(frozen=True)
class TD3Settings(DeterministicSettings):
    """Twin delayed DDPG, as in the published code of its authors (Fujimoto et al. 2018, arXiv:1802.09477)."""

    policy_delay: int = changed_default(SACSettings, "policy_delay", 2)
    target_policy_noise: float = setting(0.2, Number(0), "standard deviation of the noise on the target policy")
    target_noise_clip: float = setting(0.5, Number(0), "bound of that noise")
    bc_alpha: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        "weight α of values relative to the distance from recorded actions (TD3+BC: 2.5); none: no",
    )


@dataclass(frozen=True)
@with_defaults(
    train_batch_size=64,
    tau=0.001,
    actor_lr=1e-4,
    critic_lr=1e-3,
    hiddens=(400, 300),
    critic_l2=1e-2,
    n_critics=1,
    exploration="OrnsteinUhlenbeck",
    exploration_sigma=0.2,
)
class DDPGSettings(DeterministicSettings):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

    The class variables make TD3's update DDPG's: no delay of the policy, no noise on target actions, no cloning.
    """

    policy_delay: ClassVar[int] = 1
    target_policy_noise: ClassVar[None] = None
    bc_alpha: ClassVar[None] = None
