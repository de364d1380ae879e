"""A replay buffer for RLlib's stock algorithms: their interface outside, one of ours inside."""

from __future__ import annotations

import copy
from abc import ABCMeta
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import force_list
from ray.rllib.utils.replay_buffers import EpisodeReplayBuffer, PrioritizedEpisodeReplayBuffer

from interreplay.buffer import Sample
from interreplay.buffer.catalogue import Kind, make_buffer
from interreplay.rllib.stock.checks import check_method, check_options, check_recipe, check_sequence
from interreplay.rllib.stock.episode_conversion import episodes_of, transitions_of
from interreplay.rllib.stock.episode_ids import EpisodeIds
from interreplay.rllib.stock.metrics import log_added, log_drawn
from interreplay.storage.read_views import read_view

DOTTED = "interreplay.rllib.ReplayBuffer"
"""The name by which RLlib imports the class below."""
KEPT = ("episode_id_to_index", "_num_timesteps_added", "_num_episodes_evicted", "sampled_timesteps", "rng", "_spaces")
"""Attributes that are saved beside the buffer inside."""


ACCEPTED = "EpisodeReplayBuffer"
"""A type that every stock configuration accepts, and that none has by default; the buffer below is a subclass of it."""


class _Named(ABCMeta):
    """Lets RLlib compare a buffer's class with names, as it does with types that are strings.

    ``"EpisodeReplayBuffer" in cls`` looks for a part of the name. ``cls == "EpisodeReplayBuffer"`` is true, because
    RLlib's SAC accepts only four names. It differs from the default type, whose arguments RLlib would merge with ours.
    """

    def __contains__(cls, part: object) -> bool:
        return isinstance(part, str) and part in cls.__name__

    def __eq__(cls, other: object) -> bool:
        return cls is other or (isinstance(other, str) and other == ACCEPTED)

    __hash__ = ABCMeta.__hash__


class ReplayBuffer(PrioritizedEpisodeReplayBuffer, metaclass=_Named):
    """Any of our replay buffers, usable by RLlib's stock algorithms.

    It is a `PrioritizedEpisodeReplayBuffer` by name only, for RLlib returns TD errors to no other kind. Each
    sampled row is an episode of one step. ``config.n_step`` and ``config.gamma`` rule n-step returns, which
    follow the stored episodes: at the end of an episode, and of what is stored of it, a row spans fewer steps
    and says so, so that the learner's γ^n_step is right.

    Importance weights come from the buffer inside. RLlib also hands ``replay_buffer_config["beta"]`` over at
    every draw; as the same entry went to the buffer inside, it is not used twice.

    Args:
        capacity: Number of transitions; None for the default of the buffer inside, which also counts where it
            takes no such argument.
        buffer: A name of the catalogue, a class, a factory, or a ready buffer.
        seed: Of all randomness, also of the buffer inside where it takes one; None draws one from the system.
        batch_size_B: Rows per draw where `sample` is not told.
        batch_length_T: 0 or 1; sequences are not offered.
        metrics_num_episodes_for_smoothing: RLlib's window for averages.
        **recipe: Arguments of the buffer inside; unknown ones are refused.

    Raises:
        ValueError: When the buffer or one of its arguments is unknown, or names what the algorithm decides.
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
        check_sequence(batch_length_T)
        check_recipe(recipe)
        defaults = {"seed": seed} if capacity is None else {"seed": seed, "capacity": capacity}
        try:
            self.buffer = make_buffer(buffer, defaults, **recipe)
        except ValueError as error:
            if buffer == "Uniform":
                raise ValueError(f"{error}; the method's name goes under buffer, such as buffer='PER'") from error
            raise
        check_method(self.buffer)
        # PrioritizedEpisodeReplayBuffer's own __init__ would allocate its segment trees; nothing here uses them.
        EpisodeReplayBuffer.__init__(
            self,
            capacity=self.buffer.capacity,
            batch_size_B=batch_size_B,
            batch_length_T=batch_length_T,
            metrics_num_episodes_for_smoothing=metrics_num_episodes_for_smoothing,
        )
        self.rng = np.random.default_rng(seed)
        self.episode_id_to_index = EpisodeIds()
        self._spaces: dict[str, Any] = {}
        self._drawn: Sample | None = None

    def add(self, episodes: SingleAgentEpisode | list[SingleAgentEpisode], weight: float | None = None) -> None:
        """Store episodes or chunks of episodes; a chunk continues what was stored under its id.

        Args:
            episodes: One or several.
            weight: Must be None: the buffer inside decides the priority of new rows.
        """
        if weight is not None:
            raise ValueError(f"weight is {weight}; expected None, for the buffer inside sets new priorities")
        chunks = [chunk for chunk in force_list(episodes) if len(chunk)]
        ids = self.episode_id_to_index
        steps, stored, known = sum(map(len, chunks)), len(self), len(ids)
        if chunks:
            self._spaces = {name: getattr(chunks[0], name) for name in ("observation_space", "action_space")}
            self.buffer.add(transitions_of(chunks, ids.write(chunks)))
        new = len(ids) - known
        gone = ids.forget(self.capacity)
        self._num_timesteps_added += steps
        self._num_episodes_evicted += gone
        evicted = stored + steps - len(self)
        log_added(self, episodes=new, steps=steps, episodes_evicted=gone, steps_evicted=evicted)

    def sample(
        self,
        num_items: int | None = None,
        *,
        batch_size_B: int | None = None,
        batch_length_T: int | None = None,
        n_step: int | tuple[int, int] | None = None,
        beta: float | None = None,
        gamma: float = 0.99,
        sample_episodes: bool = True,
        to_numpy: bool = False,
        lookback: int = 0,
        **options: Any,
    ) -> list[SingleAgentEpisode]:
        """Draw rows, each an episode of one step with ``weights`` and ``n_step`` among its extra outputs.

        Args:
            num_items: Number of rows.
            batch_size_B: The same; at most one of the two.
            batch_length_T: None, 0 or 1.
            n_step: Steps per row, or a range ``(low, high)``, both included, drawn once per call.
            beta: Not used, see the class.
            gamma: Discount factor per step.
            sample_episodes: Must be true: rows come as episodes only.
            to_numpy: Let the episodes hold arrays in place of lists.
            lookback: Not used; one step has nothing to look back on.
            **options: RLlib's options that are not offered; each must be false or 0.
        """
        check_sequence(batch_length_T)
        check_options(options, sample_episodes)
        if num_items is not None and batch_size_B is not None:
            raise ValueError(f"num_items is {num_items} and batch_size_B {batch_size_B}; give one of them")
        view = read_view(self._n_step(n_step), gamma)
        if view != self.buffer.view:
            self.buffer.use_view(view)
        self._drawn = sample = self.buffer.sample(num_items or batch_size_B or self.batch_size_B)
        steps = view.spans(self.buffer.storage, sample.slots).cpu().numpy()
        rows, episodes = len(sample.slots.unique()), len(sample.transitions.episode.unique())
        log_drawn(self, steps=len(sample), different_steps=rows, episodes=episodes, n_step=float(steps.mean()))
        return episodes_of(sample, steps, self._spaces, to_numpy)

    def _n_step(self, asked: int | tuple[int, int] | None) -> int:
        if isinstance(asked, (tuple, list)):
            asked = int(self.rng.integers(asked[0], asked[1], endpoint=True))
        return asked or 1

    def update_priorities(self, priorities: np.ndarray, module_id: str | None = None) -> None:
        """Hand the TD errors ``(n,)`` of the rows drawn last to the buffer inside.

        Raises:
            ValueError: When nothing was drawn since the last call, or the number of rows differs.
        """
        drawn, self._drawn = self._drawn, None
        if drawn is None or len(priorities) != len(drawn):
            rows = 0 if drawn is None else len(drawn)
            raise ValueError(f"{len(priorities)} TD errors for {rows} drawn rows; sample, then update once")
        self.buffer.update(drawn, np.asarray(priorities))

    def get_num_timesteps(self, module_id: str | None = None) -> int:
        """Return the number of stored transitions."""
        return len(self.buffer)

    def get_num_episodes(self, module_id: str | None = None) -> int:
        """Return the number of episodes of which some transition is stored."""
        return len(self.episode_id_to_index)

    def get_state(self) -> dict[str, Any]:
        """Return contents, priorities and random state of the buffer inside, and which episodes it knows, as a copy."""
        kept = {name: copy.deepcopy(getattr(self, name)) for name in KEPT}
        return {"buffer": self.buffer.state_dict(), **kept}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state: the next draw is the same, row for row."""
        self.buffer.load_state_dict(state["buffer"])
        for name in KEPT:
            setattr(self, name, copy.deepcopy(state[name]))
        self._drawn = None
