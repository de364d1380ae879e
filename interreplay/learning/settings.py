"""The settings of each algorithm: default, what is accepted, and what it does, stated here and nowhere else."""

from __future__ import annotations

from dataclasses import dataclass

from interreplay.learning.setting_fields import (
    Number,
    OneOf,
    OrWord,
    Range,
    Rate,
    Whole,
    Widths,
    YesNo,
    changed_default,
    setting,
)

POSITIVE = Number(0, open_low=True)


@dataclass(frozen=True)
class LoopSettings:
    """The loop that collects experience, replays it and updates, whatever the algorithm."""

    learning_starts: int = setting(1_000, Whole(0), "environment steps with random actions before the first update")
    updates_per_step: float = setting(1.0, Number(0), "updates per environment step, below 1 for less than one")
    batches_per_draw: int = setting(
        32, Whole(1), "most updates that get their batches from one draw of the buffer; priorities change between draws"
    )
    matrix_dtype: str = setting(
        "float32",
        OneOf("float32", "bfloat16"),
        "type in which matrices between hidden layers are multiplied; bfloat16 is faster where processors have it",
    )
    steps_per_iteration: int = setting(1_000, Whole(1), "environment steps per iteration, the unit of intervals")
    normalize_observations: bool = setting(
        False, YesNo(), "networks see observations less their running mean, over their running deviation"
    )
    n_step: int = setting(1, Whole(1), "length of the returns")
    anneal_steps: int | None = setting(
        None,
        OrWord(Whole(1), "none", None),
        "environment steps over which schedules run; none leaves them at their start",
    )
    fast_updates: bool = setting(
        True, YesNo(), "gradients by hand-written code where an algorithm has it, else by autograd, which takes longer"
    )
    on_manifold_rows: int = setting(0, Whole(0), "blended rows that the simulator (MuJoCo) checks, of every 50th batch")


@dataclass(frozen=True)
class ActorCriticSettings:
    """What algorithms with an actor and critics have in common."""

    train_batch_size: int = setting(256, Whole(1), "transitions per update")
    tau: float = setting(
        0.005, Number(0, 1, open_low=True), "share of the new weights in the target networks per update"
    )
    actor_lr: float = setting(3e-4, Rate(), "learning rate of the policy")
    critic_lr: float = setting(3e-4, Rate(), "learning rate of the critics")
    hiddens: tuple[int, ...] = setting((256, 256), Widths(), "widths of the hidden layers")
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
        "critics whose minimum is the target, drawn anew for every update; all: of all",
    )
    critic_layer_norm: bool = setting(False, YesNo(), "normalize the hidden layers of the critics")
    critic_dropout: float = setting(0.0, Number(0, 0.99), "share of the critics' hidden units left out of each pass")
    actor_target: str = setting(
        "min", OneOf("min", "mean", "first"), "of the critics' values, what the policy maximizes; first: one critic's"
    )
    weight_decay: float = setting(0.0, Number(0), "share of lr in which all weights shrink per update, as AdamW has it")
    reset_interval: int | None = setting(
        None,
        OrWord(Whole(1), "none", None),
        "updates after which networks and optimizers start anew, over and over; what is stored stays",
    )

    def __post_init__(self) -> None:
        """Refuse settings that do not fit each other.

        Raises:
            ValueError: Naming them.
        """
        if self.target_subset is not None and self.target_subset > self.n_critics:
            raise ValueError(f"target_subset is {self.target_subset}; expected at most n_critics, {self.n_critics}")
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
class DeterministicSettings(ActorCriticSettings):
    """What algorithms with a deterministic policy have in common: noise on its actions while it trains."""

    actor_target: str = changed_default(ActorCriticSettings, "actor_target", "first")
    exploration: str = setting("Gaussian", OneOf("Gaussian", "OrnsteinUhlenbeck"), "noise on actions while training")
    exploration_sigma: float = setting(0.1, Number(0), "its standard deviation per step, for actions in [-1, 1]")
    exploration_theta: float = setting(0.15, Number(0, 1), "share of Ornstein-Uhlenbeck noise that is lost per step")


@dataclass(frozen=True)
class TD3Settings(DeterministicSettings):
    """Twin delayed DDPG, as in the published code of its authors (Fujimoto et al. 2018, arXiv:1802.09477)."""

    policy_delay: int = changed_default(SACSettings, "policy_delay", 2)
    target_policy_noise: float = setting(0.2, Number(0), "standard deviation of the noise on the target policy")
    target_noise_clip: float = setting(0.5, Number(0), "bound of that noise")


@dataclass(frozen=True)
class DDPGSettings(DeterministicSettings):
    """Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971)."""

    train_batch_size: int = changed_default(DeterministicSettings, "train_batch_size", 64)
    tau: float = changed_default(DeterministicSettings, "tau", 0.001)
    actor_lr: float = changed_default(DeterministicSettings, "actor_lr", 1e-4)
    critic_lr: float = changed_default(DeterministicSettings, "critic_lr", 1e-3)
    hiddens: tuple[int, ...] = changed_default(DeterministicSettings, "hiddens", (400, 300))
    critic_l2: float = changed_default(DeterministicSettings, "critic_l2", 1e-2)
    n_critics: int = changed_default(DeterministicSettings, "n_critics", 1)
    exploration: str = changed_default(DeterministicSettings, "exploration", "OrnsteinUhlenbeck")
    exploration_sigma: float = changed_default(DeterministicSettings, "exploration_sigma", 0.2)


@dataclass(frozen=True)
class DQNSettings:
    """Deep Q-networks and what grew from them: Mnih et al. 2015 (Nature 518), with the loop of OpenAI's baselines."""

    train_batch_size: int = setting(32, Whole(1), "transitions per update")
    lr: float = setting(5e-4, Rate(), "learning rate of a value network")
    optimizer: str = setting(
        "Adam", OneOf("Adam", "RMSprop"), "optimizer of a value network; RMSprop is centered, as DQN was published with"
    )
    optimizer_eps: float = setting(1e-8, POSITIVE, "epsilon of that optimizer")
    grad_clip: float | None = setting(
        10.0, OrWord(POSITIVE, "none", None), "bound of the norm of all gradients of a value network; none for none"
    )
    hiddens: tuple[int, ...] = changed_default(ActorCriticSettings, "hiddens", (256, 256))
    activation: str = changed_default(ActorCriticSettings, "activation", "relu")
    encoder: str = setting(
        "auto",
        OneOf("auto", "nature", "shallow", "minatar", "flat"),
        "convolutions before a value network's layers; auto: nature, minatar below 36 pixels, flat where no images are",
    )
    double: bool = setting(False, YesNo(), "the network chooses the action that its target values")
    dueling: bool = setting(False, YesNo(), "a stream for the value of the state, one for the actions' advantages")
    noisy: bool = setting(False, YesNo(), "the last two layers have noise of a learned size, also to explore by")
    sigma0: float = setting(0.5, POSITIVE, "size of that noise at the start, times the root of a layer's inputs")
    distribution: str = setting(
        "mean",
        OneOf("mean", "categorical", "quantiles"),
        "what is learned of the return: its mean, or its distribution",
    )
    atoms: int | str = setting(
        "auto", OrWord(Whole(2), "auto"), "returns or quantiles of a distribution; auto: 51 returns, 200 quantiles"
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
class DDQNSettings(DQNSettings):
    """Double DQN (van Hasselt et al. 2016, arXiv:1509.06461)."""

    double: bool = changed_default(DQNSettings, "double", True)


@dataclass(frozen=True)
class DuelingDQNSettings(DDQNSettings):
    """Dueling networks, learned as double DQN (Wang et al. 2016, arXiv:1511.06581)."""

    dueling: bool = changed_default(DQNSettings, "dueling", True)


@dataclass(frozen=True)
class NoisyDQNSettings(DQNSettings):
    """DQN that explores by noisy layers (Fortunato et al. 2018, arXiv:1706.10295)."""

    noisy: bool = changed_default(DQNSettings, "noisy", True)
    initial_epsilon: float = changed_default(DQNSettings, "initial_epsilon", 0.0)
    final_epsilon: float = changed_default(DQNSettings, "final_epsilon", 0.0)


@dataclass(frozen=True)
class C51Settings(DQNSettings):
    """A categorical distribution of returns (Bellemare et al. 2017, arXiv:1707.06887)."""

    distribution: str = changed_default(DQNSettings, "distribution", "categorical")
    lr: float = changed_default(DQNSettings, "lr", 2.5e-4)
    optimizer_eps: float = changed_default(DQNSettings, "optimizer_eps", 0.01 / 32)


@dataclass(frozen=True)
class QRDQNSettings(DQNSettings):
    """Quantile regression (Dabney et al. 2018, arXiv:1710.10044)."""

    distribution: str = changed_default(DQNSettings, "distribution", "quantiles")
    lr: float = changed_default(DQNSettings, "lr", 5e-5)
    optimizer_eps: float = changed_default(DQNSettings, "optimizer_eps", 0.01 / 32)


@dataclass(frozen=True)
class RainbowSettings(C51Settings):
    """All of it together, with prioritized replay and returns of 3 steps (Hessel et al. 2018, arXiv:1710.02298)."""

    double: bool = changed_default(DQNSettings, "double", True)
    dueling: bool = changed_default(DQNSettings, "dueling", True)
    noisy: bool = changed_default(DQNSettings, "noisy", True)
    lr: float = changed_default(DQNSettings, "lr", 6.25e-5)
    optimizer_eps: float = changed_default(DQNSettings, "optimizer_eps", 1.5e-4)
    initial_epsilon: float = changed_default(DQNSettings, "initial_epsilon", 0.0)
    final_epsilon: float = changed_default(DQNSettings, "final_epsilon", 0.0)
    n_step: int = changed_default(LoopSettings, "n_step", 3)
