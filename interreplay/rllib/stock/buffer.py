"""A replay buffer for RLlib's stock algorithms, which wraps one of ours."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

from interreplay.buffer import ReplayBuffer as CoreBuffer
from interreplay.buffer import Sample
from interreplay.buffer.catalogue import Kind, make_buffer
from interreplay.errors import accepted_names
from interreplay.learning.update import LARGEST_ERROR
from interreplay.rllib.stock.episode_conversion import EpisodeIds, to_episodes, to_transitions
from interreplay.storage.read_views import read_view
from interreplay.storage.state_copies import attributes

DOTTED = "interreplay.rllib.ReplayBuffer"
"""The name by which RLlib imports `ReplayBuffer`."""
SAVED = ("episode_id_to_index", "_num_timesteps_added", "_num_episodes_evicted", "sampled_timesteps", "rng", "_spaces")
"""Attributes that are saved in addition to the wrapped buffer."""
ACCEPTED = "EpisodeReplayBuffer"
"""A base class of `ReplayBuffer` that every stock configuration accepts, and that none uses by default."""
UNSUPPORTED = ("include_infos", "include_extra_model_outputs", "min_batch_length_T")
"""Options of RLlib's `sample` that must be false or 0."""


class ComparableWithNames(ABCMeta):
    """Lets RLlib compare a buffer's class with names, as it does with types that are strings.

    ``"EpisodeReplayBuffer" in cls`` searches the class name. ``cls == "EpisodeReplayBuffer"`` is true, because
    RLlib's SAC accepts only four names. It differs from the default type: RLlib would merge its arguments with ours.
    """

    def __contains__(cls, part: object) -> bool:
        return isinstance(part, str) and part in cls.__name__

    def __eq__(cls, other: object) -> bool:
        return cls is other or (isinstance(other, str) and other == ACCEPTED)

    __hash__ = ABCMeta.__hash__


class ReplayBuffer(PrioritizedEpisodeReplayBuffer, metaclass=ComparableWithNames):
    """A replay buffer of interreplay, for RLlib's own algorithms.

    It subclasses `PrioritizedEpisodeReplayBuffer` because RLlib returns TD errors to this class only. Each sampled row
    is an episode of one step. ``config.n_step`` and ``config.gamma`` determine n-step returns, which follow the stored
    episodes: at the end of an episode, and of its stored part, a row spans fewer steps and states their number, so
    that the learner's γ^n_step is correct.

    Importance weights come from the wrapped buffer, which receives ``replay_buffer_config["beta"]``. RLlib also passes
    it to every draw, where it is ignored.

    Args:
        capacity: Number of transitions; None for the default of the wrapped buffer.
        buffer: A name of the catalog, a class, a factory, or a buffer.
        seed: Seed of all randomness, including the wrapped buffer's; None for a random one.
        batch_size_B: Default number of rows per draw.
        batch_length_T: 0 or 1; sequences are not supported.
        metrics_num_episodes_for_smoothing: RLlib's window for averages.
        **recipe: Arguments of the wrapped buffer; unknown ones are rejected.

    Raises:
        ValueError: The buffer or one of its arguments is unknown, or the algorithm determines the argument.
    """

    def __init__(
        self,
        capacity: int | None = None,
        *,
        buffer: Kind = "Uniform",
        seed: int | None = None,
        batch_size_B: int = 16,
        batch_length_T: int = 1,
        metrics_num_episodes_for_smoothing: int = 100,
        **recipe: Any,
    ):
        _check_sequence(batch_length_T)
        check_recipe(recipe)
        defaults: dict[str, Any] = {"seed": seed}
        if capacity is not None:
            defaults["capacity"] = capacity
        try:
            self.buffer = make_buffer(buffer, defaults, **copy.deepcopy(recipe))  # RLlib passes its configuration
        except ValueError as error:
            if buffer == "Uniform":
                raise ValueError(f"{error}; pass the method's name as buffer, such as buffer='PER'") from error
            raise
        _check_method(self.buffer)
        # PrioritizedEpisodeReplayBuffer.__init__ would allocate segment trees, which are not used.
        EpisodeReplayBuffer.__init__(
            self,
            capacity=self.buffer.capacity,
            batch_size_B=batch_size_B,
            batch_length_T=batch_length_T,
            metrics_num_episodes_for_smoothing=metrics_num_episodes_for_smoothing,
        )
        self.rng = np.random.default_rng(seed)
        self.episode_id_to_index: EpisodeIds = EpisodeIds()
        self._spaces: dict[str, Any] = {}
        self._drawn: Sample | None = None

    def add(self, episodes: SingleAgentEpisode | list[SingleAgentEpisode], weight: float | None = None) -> None:
        """Store episodes or chunks of episodes; a chunk continues what was stored under its id.

        Args:
            episodes: One or several episodes.
            weight: Must be None: the wrapped buffer determines the priority of new rows.
        """
        if weight is not None:
            raise ValueError(f"weight is {weight}; expected None, because the wrapped buffer sets new priorities")
        chunks = [chunk for chunk in force_list(episodes) if len(chunk)]
        ids = self.episode_id_to_index
        steps = sum(map(len, chunks))
        stored = len(self)
        known = len(ids)
        if chunks:
            self._spaces = attributes(chunks[0], ("observation_space", "action_space"))
            self.buffer.add(to_transitions(chunks, ids.write(chunks)))
        new = len(ids) - known
        gone = ids.forget(self.capacity)
        evicted = stored + steps - len(self)
        self._num_timesteps_added += steps
        self._num_episodes_evicted += gone
        self._update_add_metrics(
            num_episodes_added=new,
            num_env_steps_added=steps,
            num_episodes_evicted=gone,
            num_env_steps_evicted=evicted,
            **_count_agent_and_module(
                episodes_added=new, steps_added=steps, episodes_evicted=gone, steps_evicted=evicted
            ),
        )

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] | None = None,
        beta: float | None = None,
        gamma: float = 0.99,
        sample_episodes: bool | None = True,
        to_numpy: bool = False,
        lookback: int = 0,
        **options: Any,
    ) -> list[SingleAgentEpisode]:
        """Draw rows, each an episode of one step with ``weights`` and ``n_step`` among its extra outputs.

        Args:
            num_items: Number of rows.
            batch_size_B: Another name of `num_items`; set at most one of them.
            batch_length_T: None, 0 or 1.
            n_step: Steps per row, or a range ``(low, high)``, both included, from which each call draws a number.
            beta: Ignored, see the class.
            gamma: Discount factor per step.
            sample_episodes: Must be true: rows are returned as episodes only.
            to_numpy: Let the episodes hold arrays instead of lists.
            lookback: Ignored; episodes of one step have no earlier steps.
            **options: Unsupported options of RLlib; each must be false or 0.
        """
        _check_sequence(batch_length_T)
        if not sample_episodes:
            raise ValueError("sample_episodes is false; expected true, rows are returned as episodes only")
        for name, value in options.items():
            if name not in UNSUPPORTED:
                raise ValueError(f"sample takes no argument {name!r}; {accepted_names(name, UNSUPPORTED)}")
            if value:
                raise ValueError(f"{name} is {value}; expected false or 0, it is not supported")
        if num_items is not None and batch_size_B is not None:
            raise ValueError(f"num_items is {num_items} and batch_size_B {batch_size_B}; set one of them")
        if isinstance(n_step, tuple | list):
            n_step = int(self.rng.integers(n_step[0], n_step[1], endpoint=True))
        view = read_view(n_step or 1, gamma)
        if view != self.buffer.view:
            self.buffer.use_view(view)
        sample = self.buffer.sample(num_items or batch_size_B or self.batch_size_B)
        self._drawn = sample
        steps = view.spans(self.buffer.storage, sample.slots.cpu()).numpy()
        if 0 < gamma < 1:  # a row may have the outcome of another one, with other steps
            discounts = sample.transitions.discounts.cpu().double().numpy()
            known = discounts > 0
            steps[known] = np.rint(np.log(discounts[known]) / np.log(gamma))
        self._log_sample(sample, float(steps.mean()))
        return to_episodes(sample, steps, self._spaces, to_numpy)

    def _log_sample(self, sample: Sample, n_step: float) -> None:
        """Log a draw: its rows, the different rows and episodes among them, and the mean n-step."""
        self.sampled_timesteps += len(sample)
        rows = len(sample.slots.unique())
        episodes = len(sample.transitions.episode.unique())
        self._update_sample_metrics(
            num_env_steps_sampled=len(sample),
            num_env_steps_per_sample=rows,
            num_episodes_per_sample=episodes,
            sampled_n_step=n_step,
            num_resamples=0,
            agent_to_sampled_n_step={DEFAULT_AGENT_ID: n_step},
            module_to_sampled_n_step={DEFAULT_MODULE_ID: n_step},
            **_count_agent_and_module(
                steps_sampled=len(sample), steps_per_sample=rows, episodes_per_sample=episodes, resamples=0
            ),
        )

    def update_priorities(self, priorities: np.ndarray, module_id: str | None = None) -> None:
        """Pass the TD errors ``(n,)`` of the last draw to the wrapped buffer.

        Raises:
            ValueError: There was no draw since the last call, or the number of rows differs.
        """
        drawn = self._drawn
        self._drawn = None
        if drawn is None or len(priorities) != len(drawn):
            rows = 0 if drawn is None else len(drawn)
            raise ValueError(f"{len(priorities)} TD errors for {rows} drawn rows; sample, then update once")
        self.buffer.update(drawn, np.asarray(priorities))

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of stored transitions."""
        return len(self.buffer)

    def get_num_episodes(self, module_id: str | None = None) -> int:
        """Return the number of episodes with a stored transition."""
        return len(self.episode_id_to_index)

    def get_state(self) -> dict[str, Any]:
        """Return a copy of the wrapped buffer's contents, priorities and random state, and of the known episodes."""
        saved = copy.deepcopy(attributes(self, SAVED))
        return {"buffer": self.buffer.state_dict(), **saved}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state: the next draw is the same, row for row."""
        self.buffer.load_state_dict(state["buffer"])
        for name in SAVED:
            setattr(self, name, copy.deepcopy(state[name]))
        self._drawn = None


def _count_agent_and_module(**counts: int) -> dict[str, Any]:
    """Return RLlib's keywords ``agent_to_num_…`` and ``module_to_num_…``, with the same counts for agent and module."""
    keywords: dict[str, Any] = {}
    for name, count in counts.items():
        keywords[f"agent_to_num_{name}"] = {DEFAULT_AGENT_ID: count}
        keywords[f"module_to_num_{name}"] = {DEFAULT_MODULE_ID: count}
    return keywords


def check_recipe(arguments: dict[str, Any]) -> None:
    """Reject arguments of a buffer that a stock algorithm determines."""
    for name in ("n_step", "gamma"):
        if name in arguments:
            raise ValueError(f"{name}={arguments[name]} belongs to the algorithm: config.training({name}=...)")


def _check_method(buffer: CoreBuffer) -> None:
    """Reject a replay method that RLlib's algorithms do not support, and warn about limited support."""
    buffer.check_offers(frozenset(), "an algorithm of RLlib's own")
    views = getattr(buffer.synthesizer, "views", 1)
    if views > 1:
        raise ValueError(f"views is {views}; expected 1, because RLlib's algorithms learn from one view of each row")
    if LARGEST_ERROR in buffer.scores_wanted or buffer.brings_critic_loss:
        warnings.warn(
            f"{type(buffer).__name__} uses the mean TD error of the critics here, which is what RLlib's algorithms "
            "report, not the largest one; and the critics' loss is RLlib's",
            stacklevel=3,
        )


def _check_sequence(length: int | None) -> None:
    if length not in (None, 0, 1):
        raise ValueError(f"batch_length_T is {length}; expected 0 or 1: sequences, as for use_lstm, are not supported")
