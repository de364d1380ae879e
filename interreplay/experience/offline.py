"""Offline: recorded experience as a source of rows, sampled by any replay method."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interreplay.buffer import ReplayBuffer
from interreplay.buffer.catalogue import Kind, check_arguments, make_buffer, resolve
from interreplay.buffer.sample import Sample
from interreplay.environments.relabeled import RewardFunction
from interreplay.errors import UsageError
from interreplay.experience.offline_data import open_rows
from interreplay.experience.offline_data.collection import get_data_name
from interreplay.experience.offline_data.dataset import Spaces
from interreplay.experience.offline_data.where import Where
from interreplay.experience.store.reader import PORTION
from interreplay.learning.policies import POLICY_OUTPUT
from interreplay.part import Context
from interreplay.storage.columns import DERIVED, Columns, is_extra, num_features
from interreplay.storage.ring import FixedStorage
from interreplay.storage.state_copies import copy_arrays
from interreplay.transitions import Transitions


class Offline:
    """A `RowSource` of recorded rows: it ignores new rows, and its checkpoints do not contain the recorded rows.

    The replay method works on these rows as in a replay buffer to which all of them were added at once. The state
    contains a key of the rows, and loading it with other rows fails.

    Args:
        data: A Minari dataset (``minari:ID``, or its folder), RLlib's Parquet episodes, a run's folder, an experience
            store, a checkpoint or a saved replay buffer; a pattern such as ``results/*``; or several of these.
        method: Replay method: a name of the catalog, a class or a factory.
        arguments: Arguments of the method.
        where: Conditions for rows, such as ``"return>=500, newest=100_000"``; see `Where`.
        relabel: Function that recomputes rewards and terminations, or its name ``module:function``; see `Relabel`.
            New rows get the same rewards if their environment is wrapped with `Relabeled`.
        spaces: Observation and action space of the environment; None to read them from the data.
        n_step: Number of steps of the returned transitions; None for 1, or the number of a `Mix`.
        gamma: Discount factor per step; None for .99, or the factor of a `Mix`.
        seed: Seed of all randomness.
        device: Torch device of batches, None for the CPU; concurrent runs share one memory-mapped file of rows.

    Raises:
        ValueError: The method or one of its arguments is unknown.
    """

    columns_wanted: frozenset[str] = frozenset()  # new rows are ignored

    def __init__(
        self,
        data: str | Path | Sequence[str],
        method: Kind = "Uniform",
        arguments: Mapping[str, Any] | None = None,
        *,
        where: str | Where | None = None,
        relabel: str | RewardFunction | None = None,
        spaces: Spaces | None = None,
        n_step: int | tuple[int, int] | None = None,
        gamma: float | None = None,
        seed: int | None = None,
        device: str | None = None,
    ):
        if isinstance(data, Path):
            data = str(data)
        self.data = get_data_name(data)
        self._open = functools.partial(open_rows, data, where=Where.parse(where), relabel=relabel)
        self._method = method
        self._arguments = dict(arguments or {})
        self._given = {"n_step": n_step, "gamma": gamma, "seed": seed, "device": device, "spaces": spaces}
        self._defaults: dict[str, Any] = {"n_step": 1, "gamma": 0.99, "seed": None, "device": "cpu", "spaces": None}
        if isinstance(method, str) or inspect.isclass(method):
            check_arguments(resolve(method), self._arguments)  # type: ignore[arg-type]  # the rows are opened later

    def use_defaults(self, defaults: Mapping[str, Any]) -> None:
        """Use other values for arguments that are None. The rows are opened again, without the state of the method."""
        for name in self._defaults.keys() & defaults.keys():
            self._defaults[name] = defaults[name]
        vars(self).pop("buffer", None)

    @property
    def _common(self) -> dict[str, Any]:
        """The arguments, with defaults for those that are None."""
        return self._defaults | {name: value for name, value in self._given.items() if value is not None}

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for copies, which open the rows by themselves."""
        return {name: value for name, value in vars(self).items() if name != "buffer"}

    @property
    def device(self) -> torch.device:
        return torch.device(self._common["device"])

    @functools.cached_property
    def buffer(self) -> ReplayBuffer:
        """The replay buffer of the rows, which are opened on first access.

        Raises:
            UsageError: The rows cannot be read, belong to another environment, or lack a column that the method needs.
        """
        storage = self._open(self._common["spaces"], self._common["gamma"])
        made = make_buffer(self._method, self._common | {"capacity": storage.capacity}, **self._arguments)
        recorded = {name.removeprefix("extras.") for name in storage.columns if is_extra(name)}
        if lacking := sorted(made.columns_wanted - recorded):
            name = type(made).__name__
            raise UsageError(
                f"offline data {self.data} lacks the column {lacking[0]}, which {name} needs; use the rows of a "
                f"replay buffer that was filled for {name}"
            )
        made.draw_from(storage)
        return made

    @property
    def storage(self) -> FixedStorage:
        """The recorded rows."""
        assert isinstance(self.buffer.storage, FixedStorage)
        return self.buffer.storage

    def __len__(self) -> int:
        return len(self.buffer)

    @property
    def capacity(self) -> int:
        return self.buffer.capacity

    @property
    def scores_wanted(self) -> frozenset[str]:
        return self.buffer.scores_wanted

    @property
    def brings_critic_loss(self) -> bool:
        return self.buffer.brings_critic_loss

    @property
    def wants_goal_functions(self) -> bool:
        return self.buffer.wants_goal_functions

    def check_offers(self, offers: Collection[str], algorithm: str) -> None:
        self.buffer.check_offers(offers, algorithm)

    def check(self, columns: Columns) -> None:
        """Reject an environment with other columns.

        Raises:
            ValueError: A column differs; the message names it.
        """
        own = {name: spec for name, spec in self.storage.columns.items() if not is_extra(name)}
        names = sorted((own.keys() | columns.keys()) - set(DERIVED))
        differing = next((name for name in names if own.get(name) != columns.get(name)), None)
        if differing is not None:
            raise ValueError(
                f"offline data {self.data} belongs to another environment: the column {differing} has "
                f"{_describe(own.get(differing))}; expected {_describe(columns.get(differing))}"
            )
        self.buffer.check(columns)

    def connect(self, context: Context) -> None:
        """Connect the replay method.

        Raises:
            UsageError: The method compares policies, and the rows are of another kind of policy.
        """
        self.buffer.connect(context)
        if context.policy is None or POLICY_OUTPUT not in self.buffer.columns_wanted:
            return
        row = self.storage[torch.arange(1)]
        recorded = row.extras[POLICY_OUTPUT]
        current = context.on_rows(context.policy)(row.obs)
        if recorded.numel() != current.numel():
            raise UsageError(
                f"offline data {self.data} is of another kind of policy: its column {POLICY_OUTPUT} has "
                f"{recorded.numel()} values per row, and the policy of this run returns {current.numel()}; expected "
                f"data of the same algorithm, or a method other than {type(self.buffer).__name__}"
            )

    def add(self, transitions: Transitions) -> None:
        """Ignore new rows: the recorded rows are fixed."""

    def truncate_episodes(self, episodes: Iterable[int]) -> None:
        """Do nothing: recorded episodes have ended."""

    def sample(self, size: int) -> Sample:
        return self.buffer.sample(size)

    def batches(self, size: int, count: int) -> Iterator[Sample]:
        return self.buffer.batches(size, count)

    def update(self, sample: Sample, td_errors: Any, scores: Mapping[str, Any] | None = None) -> None:
        self.buffer.update(sample, td_errors, scores)

    def anneal(self, progress: float) -> None:
        self.buffer.anneal(progress)

    def split_by_buffer(self, sample: Sample, td_errors: Tensor) -> Iterator[tuple[str, ReplayBuffer, Sample, Tensor]]:
        return self.buffer.split_by_buffer(sample, td_errors)

    def recorded_rows(self) -> Iterator[Transitions]:
        """Yield the recorded rows in chronological order, in portions."""
        for start in range(0, len(self), PORTION):
            yield self.storage[torch.arange(start, min(start + PORTION, len(self)))].to(self.device)

    def statistics(self) -> dict[str, float]:
        return self.buffer.statistics()

    def nbytes(self, columns: Columns) -> int:
        """Return the memory in bytes without the memory-mapped rows, which processes share."""
        features = num_features(self.storage.columns)
        return sum(part.nbytes(self.capacity, features) for part in self.buffer.parts.values())

    def state_view(self) -> dict[str, Any]:
        """Return `state_dict` with arrays that share memory with this object."""
        return self.buffer.state_view()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to resume except the rows, which are identified by their key."""
        return copy_arrays(self.state_view())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a state; the next batch is the one that the saved source would have drawn.

        Raises:
            ValueError: The state belongs to other rows.
        """
        self.buffer.load_state_dict(state)

    def __repr__(self) -> str:
        """Return the data and the method."""
        method = self._method if isinstance(self._method, str) else getattr(self._method, "__name__", "a method")
        return f"Offline({self.data!r}: {method})"


def _describe(spec: Any) -> str:
    return "no values" if spec is None else f"shape {tuple(spec[0])} {str(spec[1]).removeprefix('torch.')}"
