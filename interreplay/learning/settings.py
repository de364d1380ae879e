"""The settings of each algorithm, with their defaults, accepted values and help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from interreplay.learning.setting_fields import (
    Boolean,
    IncreasingIntegers,
    NamedClass,
    Network,
    Number,
    OneOf,
    OrWord,
    Rate,
    WholeNumber,
    WholeOrRange,
    Widths,
    changed_default,
    check_without_effect,
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
        "number type of matrix products in hidden layers; bfloat16 is faster on processors that support it",
    )
    cuda_graph: bool = setting(
        True,
        Boolean(),
        "on a GPU, run each update as a CUDA graph, with the same results; false launches its kernels one by one; "
        "ignored on other devices",
    )
    steps_per_iteration: int = setting(
        1_000, WholeNumber(1), "environment steps per iteration; other intervals count iterations"
    )
    normalize_observations: bool = setting(
        False, Boolean(), "normalize observations by their running mean and standard deviation"
    )
    anneal_steps: int | None = setting(
        None,
        OrWord(WholeNumber(1), "none", None),
        "environment steps over which schedules run; none keeps their initial values",
    )


@dataclass(frozen=True)
class ReplaySettings(LoopSettings):
    """Settings of the training loop of algorithms that replay transitions."""

    learning_starts: int = setting(
        1_000, WholeNumber(0), "environment steps with random actions before the first update"
    )
    updates_per_step: float = setting(1.0, Number(0), "updates per environment step; may be below 1")
    batches_per_draw: int = setting(
        32,
        WholeNumber(1),
        "maximum number of batches per draw if their rows are independent; other methods, such as PER, draw single "
        "batches",
    )
    n_step: int | tuple[int, int] = setting(
        1,
        WholeOrRange(),
        "number of steps of the returns; for two numbers such as 2,5, one from 2 to 5 is drawn for each batch",
    )
    scale_rewards: bool = setting(
        False,
        Boolean(),
        "divide drawn rewards by the running standard deviation of the discounted return, or by a fifth of its largest "
        "magnitude if that is larger",
    )
    collect: bool = setting(
        True, Boolean(), "take environment steps; False learns from recorded data only, and iterations count updates"
    )
    on_manifold_rows: int = setting(
        0, WholeNumber(0), "number of blended rows of every 50th batch to compare with the simulator (MuJoCo, n_step 1)"
    )
    episode_table: bool = setting(
        False, Boolean(), "record a row per training episode: return, length, TD errors, correlated pairs, Q-values"
    )


@dataclass(frozen=True)
class ActorCriticSettings:
    """Common settings of algorithms with an actor and critics."""

    train_batch_size: int = setting(256, WholeNumber(1), "transitions per update")
    tau: float = setting(
        0.005, Number(0, 1, open_low=True), "share of the new weights in each update of the target networks"
    )
    actor_lr: float = setting(3e-4, Rate(), "learning rate of the policy")
    critic_lr: float = setting(3e-4, Rate(), "learning rate of the critics")
    hiddens: tuple[int, ...] = setting((256, 256), Widths(), "widths of the hidden layers")
    network: Any = setting(
        None,
        OrWord(Network(), "none", None),
        "layers of each stream of the network, instead of hiddens; none uses hiddens",
    )
    activation: str = setting("relu", OneOf("relu", "tanh"), "activation function of the hidden layers")
    encoder: Any = setting(
        "auto",
        NamedClass("auto", "nature", "shallow", "minatar", "flat"),
        "convolutions of image observations, or module:Class of your own for any observations; auto: minatar below 36 "
        "pixels and nature above, flat without images; for SAC, TQC, CrossQ, TD3 and DDPG, convolutions to 50 "
        "features, flat below 16 pixels and for booleans",
    )
    actor_l2: float = setting(0.0, Number(0), "coefficient c of the L2 penalty c/2 |w|^2 on the policy's weights")
    critic_l2: float = setting(0.0, Number(0), "coefficient c of the L2 penalty c/2 |w|^2 on the critics' weights")
    huber_delta: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        "TD error above which the loss is linear (Huber loss); none uses the squared error",
    )
    pal_alpha: float | None = setting(
        None,
        OrWord(Number(0, 1), "none", None),
        "exponent of the PAL loss: LAP's expected gradient on uniformly drawn rows; none disables it",
    )
    critic_loss: Any = setting(
        None,
        OrWord(NamedClass("Squared", "Huber", "PAL"), "none", None),
        "loss of the critics' TD errors, also module:Class of your own; none uses huber_delta and pal_alpha",
    )
    n_critics: int = setting(2, WholeNumber(1), "number of critics")
    target_subset: int | None = setting(
        None,
        OrWord(WholeNumber(1), "all", None),
        "number of randomly drawn critics in the minimum of the target; all uses all critics",
    )
    critic_layer_norm: bool = setting(False, Boolean(), "normalize the hidden layers of the critics")
    critic_dropout: float = setting(0.0, Number(0, 0.99), "dropout rate of the critics' hidden units")
    critic_target: str = setting(
        "min",
        OneOf("min", "mean"),
        "target of the critics: minimum or mean of the target critics; with mean, the policy maximizes the mean",
    )
    critic_blocks: int = setting(
        0,
        WholeNumber(0),
        "number of the critics' residual blocks with layer normalization (SimBa); 0 uses the layers of hiddens",
    )
    critic_width: int = setting(
        128, WholeNumber(2), "width of the critics' residual blocks; their inner layers are 4 times as wide"
    )
    actor_blocks: int = setting(
        0,
        WholeNumber(0),
        "number of the policy's residual blocks with layer normalization (SimBa); 0 uses the layers of hiddens",
    )
    actor_width: int = setting(
        128, WholeNumber(2), "width of the policy's residual blocks; their inner layers are 4 times as wide"
    )
    actor_target: str = setting(
        "min",
        OneOf("min", "mean", "first"),
        "value that the policy maximizes: the minimum, the mean or the first of the critics' values",
    )
    weight_decay: float = setting(0.0, Number(0), "weight decay of AdamW, which multiplies it by the learning rate")
    grad_clip: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        'maximum norm of all gradients of an optimizer, or as grad_clip_by states; "none" disables clipping',
    )
    grad_clip_by: str = setting(
        "global_norm",
        OneOf("global_norm", "norm", "value"),
        "quantity bounded by grad_clip: the norm of all gradients of an optimizer, the norm per layer, or each value",
    )
    actor_grad_clip: float | None = setting(
        None, OrWord(POSITIVE, "none", None), "maximum norm of the policy's gradients; none uses grad_clip"
    )
    critic_grad_clip: float | None = setting(
        None, OrWord(POSITIVE, "none", None), "maximum norm of the critics' gradients; none uses grad_clip"
    )
    reset_interval: int | None = setting(
        None,
        OrWord(WholeNumber(1), "none", None),
        "updates between resets of networks and optimizers; the buffer is kept; none disables resets",
    )
    torch_compile: bool = setting(
        False,
        Boolean(),
        "compile the updates, which is faster for small networks; needs PyTorch 2.13, a C++ compiler, Python's headers "
        "and 10 to 60 s",
    )
    reset_at: tuple[int, ...] | None = setting(
        None,
        OrWord(IncreasingIntegers(), "none", None),
        "environment steps at which networks and optimizers are reset after the updates; none disables it",
    )

    def __post_init__(self) -> None:
        if self.target_subset is not None and self.target_subset > self.n_critics:
            raise ValueError(f"target_subset is {self.target_subset}; expected at most n_critics, {self.n_critics}")
        if self.critic_blocks and self.critic_dropout:
            raise ValueError(
                f"critic_blocks is {self.critic_blocks} and critic_dropout {self.critic_dropout}; expected one of "
                "them 0"
            )
        network = self.network or {}
        for stream in ("actor", "critic"):
            name = f"{stream}_blocks"
            blocks = getattr(self, name)
            if stream in network and blocks:
                raise ValueError(
                    f"{name} is {blocks} and network lists {stream}; expected {name} 0, or a network without {stream}"
                )
            if not blocks:
                check_without_effect(self, [f"{stream}_width"], f"{name} 0", expected=f"{name} of at least 1")
        if self.critic_layer_norm and "critic" in network and "LayerNorm" not in str(network["critic"]):
            raise ValueError(
                "critic_layer_norm is True and network.critic has no LayerNorm; expected LayerNorm in network.critic, "
                "or critic_layer_norm False"
            )
        if not (self.grad_clip or self.actor_grad_clip or self.critic_grad_clip):
            check_without_effect(self, ["grad_clip_by"], "no grad_clip", expected="a grad_clip")
        if self.critic_target == "mean" and self.actor_target != "mean":
            check_without_effect(self, ["actor_target"], "critic_target 'mean'", expected="critic_target 'min'")
        drawn = [name for name in ("critic_dropout", "target_subset") if getattr(self, name)]
        if self.torch_compile and drawn:
            raise ValueError(
                f"torch_compile is true and {drawn[0]} {getattr(self, drawn[0])}; expected false, or an update that "
                "draws neither dropped units nor critics"
            )
        l2 = [name for name in ("actor_l2", "critic_l2") if getattr(self, name)]
        if self.weight_decay and l2:
            raise ValueError(
                f"weight_decay is {self.weight_decay} and {l2[0]} {getattr(self, l2[0])}; expected one of them 0"
            )


EXPLORATIONS = NamedClass("Sampled", "Gaussian", "OrnsteinUhlenbeck", "EpsilonGreedy", "Noisy", "Random", "Greedy")


@dataclass(frozen=True)
class SACSettings(ActorCriticSettings):
    """Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905; discrete: Christodoulou 2019, arXiv:1910.07207)."""

    exploration: Any = setting(
        None,
        OrWord(EXPLORATIONS, "auto", None),
        "choice of actions in training, also module:Class of your own; auto: samples from the policy of SAC, TQC and "
        "CrossQ, and epsilon-greedy actions with initial_epsilon, final_epsilon and epsilon_steps for DQN",
    )
    alpha_lr: float = setting(3e-4, Rate(open_low=False), "learning rate of the temperature; 0 keeps it constant")
    initial_alpha: float = setting(1.0, POSITIVE, "initial temperature")
    target_entropy: float | str = setting(
        "auto",
        OrWord(OrWord(Number(), "auto"), "half"),
        "target entropy; auto: -d for d-dimensional actions, .98 log n for n discrete actions; half: half of auto",
    )
    policy_delay: int = setting(1, WholeNumber(1), "number of critic updates per policy update")
    backup_entropy: bool = setting(True, Boolean(), "include the entropy of the next action in the targets")


@dataclass(frozen=True)
@without_settings(
    huber_delta=None,
    pal_alpha=None,
    critic_loss=None,
    target_subset=None,
    critic_target="mean",
    actor_target="mean",
)
class TQCSettings(SACSettings):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), with two critics as sb3-contrib.

    The quantile loss, targets of all critics and a policy that maximizes their mean are fixed.
    """

    kappa: float = setting(1.0, POSITIVE, "TD error beyond which the quantile loss is linear")
    n_quantiles: int = setting(25, WholeNumber(1), "number of quantiles per critic")
    drop_per_critic: int = setting(
        2, WholeNumber(0), "number of the largest quantiles, per critic, that are excluded from targets"
    )

    def __post_init__(self) -> None:
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
    torch_compile=False,
)
@with_defaults(actor_lr=1e-3, critic_lr=1e-3, alpha_lr=1e-3, policy_delay=3)
class CrossQSettings(SACSettings):
    """CrossQ (Bhatt et al. 2024, arXiv:1902.05605), without target networks, with batch renormalization."""

    critic_hiddens: tuple[int, ...] | str = setting(
        "auto", OrWord(Widths(), "auto"), "widths of the critics' hidden layers; auto: 8 times the policy's widths"
    )
    renorm_warm_up: int = setting(
        100_000,
        WholeNumber(0),
        "training passes of each network with batch normalization before batch renormalization starts",
    )


@dataclass(frozen=True)
@with_defaults(actor_target="first")
class DeterministicSettings(ActorCriticSettings):
    """Common settings of algorithms with a deterministic policy."""

    exploration: Any = setting(
        "Gaussian", EXPLORATIONS, "noise added to actions in training, also module:Class of your own"
    )
    exploration_sigma: float = setting(
        0.1, Number(0), "standard deviation of the exploration noise per step, for actions in [-1, 1]"
    )
    exploration_theta: float = setting(0.15, Number(0, 1), "decay of Ornstein-Uhlenbeck noise per step")


@dataclass(frozen=True)
class TD3Settings(DeterministicSettings):
    """Twin delayed DDPG, as in the published code of its authors (Fujimoto et al. 2018, arXiv:1802.09477)."""

    policy_delay: int = changed_default(SACSettings, "policy_delay", 2)
    target_policy_noise: float = setting(
        0.2, Number(0), "standard deviation of the noise on the target policy's actions"
    )
    target_noise_clip: float = setting(0.5, Number(0), "bound of the noise on the target policy's actions")
    bc_alpha: float | None = setting(
        None,
        OrWord(POSITIVE, "none", None),
        "weight α of the values relative to behavior cloning (TD3+BC uses 2.5); none disables cloning",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.target_policy_noise:
            check_without_effect(
                self, ["target_noise_clip"], "target_policy_noise 0", expected="a target_policy_noise above 0"
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
