"""What the configurations of all our algorithms have in common."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.utils.annotations import override
from ray.util.debug import log_once
from typing_extensions import Self

from interreplay.catalogue import Kind, check_arguments, resolve
from interreplay.learning.exploration import Exploration, Sampled, make_exploration
from interreplay.learning.networks import MATRIX_DTYPES


class OffPolicyConfig(AlgorithmConfig):
    """Settings shared by the off-policy algorithms, with RLlib's names where RLlib has one.

    Attributes:
        train_batch_size_per_learner: Rows per update.
        num_steps_sampled_before_learning_starts: Env steps with uniformly random actions before the first update.
        updates_per_step: Updates per env step, below 1 for less than one (update-to-data ratio).
        batches_per_draw: Updates that are owed at once, as with `updates_per_step` of 2 or more, get their batches
            from one draw of the buffer, at most this many. Priorities change between draws.
        matrix_dtype: "bfloat16" multiplies the matrices between hidden layers in that type, which processors with
            matrix units for it do in half the time; everything else stays float32.
        steps_per_iteration: Env steps per `train()`; iterations end at its multiples.
        n_step: Steps per transition.
        tau: Share of the way that target networks move per update.
        hiddens: Widths of the hidden layers of all networks.
        actor_lr: Learning rate of the actor.
        critic_lr: Learning rate of the critics.
        actor_l2: c of an L2 term c·½‖θ‖² in the actor's loss.
        critic_l2: The same in the critics' loss.
        huber_delta: TD error up to which the critics' loss is square, linear beyond; None for square everywhere.
        grad_clip: Largest gradient norm, or None.
        anneal_steps: Env steps over which schedules such as PER's β run; None leaves them at their start.
        exploration: How the policy acts while it trains, a part of `interreplay.learning.exploration` or its type and
            arguments such as ``{"type": "Gaussian", "sigma": 0.1}``; each runner has a copy of its own. Schedules such
            as `EpsilonGreedy`'s run over `anneal_steps`.
        fast_updates: Take gradients by the hand-written code of `interreplay.learning.fast`; else by autograd, as the
            plain updates that define each algorithm do, which takes longer.
        on_manifold_rows: Blended rows of every batch looked at whose outcome the simulator is asked for; 0 for none.
            For Gymnasium's MuJoCo environments, see `interreplay.diagnostics.on_manifold`.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class=algo_class)
        from interreplay.rllib.env_runner.runner import ColumnRunner

        self.env_runner_cls = ColumnRunner
        self.rollout_fragment_length = 1
        self.train_batch_size_per_learner = 256
        self.num_steps_sampled_before_learning_starts = 1000
        self.updates_per_step = 1.0
        self.batches_per_draw = 32
        self.matrix_dtype = "float32"
        self.steps_per_iteration = 1000
        self.n_step = 1
        self.tau = 0.005
        self.hiddens = (256, 256)
        self.actor_lr = 3e-4
        self.critic_lr = 3e-4
        self.actor_l2 = 0.0
        self.critic_l2 = 0.0
        self.huber_delta: float | None = None
        self.anneal_steps: int | None = None
        self.exploration: Exploration = Sampled()
        self.fast_updates = True
        self.on_manifold_rows = 0
        self.replay_buffer_config: dict[str, Any] = {"type": "Uniform"}
        self.evaluation_duration = 10
        self.evaluation_config = {"explore": False, "num_envs_per_env_runner": 1}
        self.metrics_num_episodes_for_smoothing = 10
        self.min_time_s_per_iteration = 0
        self.min_sample_timesteps_per_iteration = 0

    def replay(self, kind: Kind, **arguments: Any) -> Self:
        """Choose the replay buffer.

        Args:
            kind: Name in the catalogue such as ``"NMER"``, a class, or any factory of a `ReplayBuffer`.
            **arguments: Its arguments. ``seed``, ``n_step``, ``gamma`` and ``device`` follow this
                configuration where they are not given.

        Raises:
            ValueError: When the name or an argument is unknown, with the nearest valid one.
        """
        check_arguments(resolve(kind), arguments)
        self.replay_buffer_config = {"type": kind, **arguments}
        return self

    @override(AlgorithmConfig)
    def training(
        self,
        *,
        num_steps_sampled_before_learning_starts: int | Any = NotProvided,
        updates_per_step: float | Any = NotProvided,
        batches_per_draw: int | Any = NotProvided,
        matrix_dtype: str | Any = NotProvided,
        steps_per_iteration: int | Any = NotProvided,
        n_step: int | Any = NotProvided,
        tau: float | Any = NotProvided,
        hiddens: tuple[int, ...] | list[int] | Any = NotProvided,
        actor_lr: float | Any = NotProvided,
        critic_lr: float | Any = NotProvided,
        actor_l2: float | Any = NotProvided,
        critic_l2: float | Any = NotProvided,
        huber_delta: float | None | Any = NotProvided,
        anneal_steps: int | None | Any = NotProvided,
        exploration: Exploration | dict[str, Any] | Any = NotProvided,
        fast_updates: bool | Any = NotProvided,
        on_manifold_rows: int | Any = NotProvided,
        replay_buffer_config: dict[str, Any] | Any = NotProvided,
        **settings: Any,
    ) -> Self:
        """Set training options: those of the class, and RLlib's.

        ``replay_buffer_config={"type": name, **arguments}`` is the same as `replay`.
        """
        given = {
            k: v for k, v in locals().items() if k not in ("self", "settings", "replay_buffer_config", "__class__")
        }
        super().training(**settings)
        self._set(given)
        if replay_buffer_config is not NotProvided:
            arguments = dict(replay_buffer_config)
            self.replay(arguments.pop("type", self.replay_buffer_config["type"]), **arguments)
        return self

    def _set(self, given: dict[str, Any]) -> None:
        """Set attributes, passing over those that were not given."""
        for name, value in given.items():
            if value is not NotProvided:
                setattr(self, name, value)

    @override(AlgorithmConfig)
    def validate(self) -> None:
        if self.in_evaluation and self.evaluation_duration_unit == "episodes":
            self.metrics_num_episodes_for_smoothing = int(self.evaluation_duration)
        if self.min_sample_timesteps_per_iteration:
            self.steps_per_iteration = int(self.min_sample_timesteps_per_iteration)
            self.min_sample_timesteps_per_iteration = 0
        # RLlib would advise to go back to a stack that this algorithm does not have.
        log_once(f"{self.algo_class.__name__}_on_new_api_stack")
        super().validate()
        self._check_exploration()
        if not isinstance(self.fast_updates, bool):
            raise ValueError(f"fast_updates is {self.fast_updates!r}; expected True or False")
        self._check_range("train_batch_size_per_learner", 1)
        self._check_range("batches_per_draw", 1)
        self._check_range("steps_per_iteration", 1)
        self._check_range("num_steps_sampled_before_learning_starts", 0)
        self._check_range("n_step", 1)
        self._check_range("on_manifold_rows", 0)
        self._check_range("updates_per_step", 0)
        self._check_range("actor_l2", 0)
        self._check_range("critic_l2", 0)
        for name in ("actor_lr", "critic_lr"):
            check_positive(name, getattr(self, name))
        if self.huber_delta is not None:
            check_positive("huber_delta", self.huber_delta)
        if self.matrix_dtype not in MATRIX_DTYPES:
            raise ValueError(f"matrix_dtype is {self.matrix_dtype!r}; expected one of {', '.join(MATRIX_DTYPES)}")
        widths = self.hiddens if isinstance(self.hiddens, list | tuple) else ()
        if not widths or not all(isinstance(width, int) and width > 0 for width in widths):
            raise ValueError(f"hiddens is {self.hiddens!r}; expected whole numbers of at least 1 such as [256, 256]")
        if not 0 < self.tau <= 1:
            raise ValueError(f"tau is {self.tau}; expected more than 0 and at most 1")
        if self.num_learners > 0:
            raise ValueError(f"num_learners is {self.num_learners}; expected 0, the learner runs beside the buffer")
        capacity = self.replay_buffer_config.get("capacity")
        if capacity is not None and capacity < self.train_batch_size_per_learner:
            raise ValueError(
                f"capacity is {capacity}; expected at least the batch size {self.train_batch_size_per_learner}"
            )

    def _check_exploration(self) -> None:
        self.exploration = make_exploration(self.exploration)
        if self.exploration.annealed and not self.anneal_steps:
            name = type(self.exploration).__name__
            raise ValueError(f"anneal_steps is {self.anneal_steps}; expected the env steps over which {name} changes")

    def _check_range(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int | float) or value < least:
            raise ValueError(f"{name} is {value!r}; expected {least} or more")

    def update_settings(self) -> dict[str, Any]:
        """Arguments of the update."""
        names = ("actor_lr", "critic_lr", "tau", "actor_l2", "critic_l2", "huber_delta", "grad_clip")
        return {name: getattr(self, name) for name in names}

    @override(AlgorithmConfig)
    def get_state(self) -> dict[str, Any]:
        # RLlib's leaves out whatever equals -1, its mark of retired settings; a target entropy may be just that.
        ours = vars(self).keys() - vars(AlgorithmConfig()).keys()
        return {name: getattr(self, name) for name in ours} | super().get_state()

    @property
    @override(AlgorithmConfig)
    def _model_config_auto_includes(self) -> dict[str, Any]:
        return super()._model_config_auto_includes | {
            "hiddens": list(self.hiddens),
            "matrix_dtype": self.matrix_dtype,
            "exploration": make_exploration(self.exploration),
        }


def check_positive(name: str, value: Any) -> None:
    """Raise ValueError unless `value` is a positive number."""
    if not isinstance(value, int | float) or not value > 0:
        raise ValueError(f"{name} is {value!r}; expected a positive number")
