"""Combine the updates of learners of several runs in one process, with one thread per run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from interreplay.buffer import Sample
from interreplay.environments.own_modules import locate_error
from interreplay.errors import UsageError
from interreplay.learning.actor_critic.many import ManyUpdates, check_alike
from interreplay.learning.captured import CapturedUpdate
from interreplay.learning.update import Batch, UpdateResult
from interreplay.storage.state_copies import attributes
from interreplay.transitions import Transitions

READ = frozenset({"obs", "actions", "rewards", "next_obs", "terminated", "truncated", "discounts"})
"""Columns of rows that updates read, in addition to `VIEWS`."""
VIEWS = ("views_obs", "views_next_obs")
PACE = (
    *("updates_per_step", "num_steps_sampled_before_learning_starts", "collect"),
    *("num_envs_per_env_runner", "rollout_fragment_length"),
)
"""Settings that determine at which env step an update is made; schedules of learning rates are over env steps."""


class UpdateGroup:
    """Combines the updates of several learners in one update, see `ManyUpdates`.

    Each learner calls `update` in a thread of its own and waits there until all others have done so. A learner that
    ends leaves the group; the others continue without it.

    Args:
        learners: Learners with equal settings and shapes.

    Attributes:
        begins_after: Number of updates after which updates are combined; learners with fewer first learn alone.

    Raises:
        ValueError: The updates cannot be combined, or a replay method needs scores.
    """

    def __init__(self, learners: Sequence[Any]):
        check_group(learners)
        self.begins_after = max(learner.update_rule.updates for learner in learners)
        self._members = list(learners)
        self._batches: dict[Any, Batch] = {}
        self._results: dict[Any, UpdateResult | BaseException] = {}
        self._arrived = threading.Condition()
        self._many: ManyUpdates | None = None
        self._updater: Any = None
        self._generators: list[torch.Generator] = []
        # One thread makes all updates, because each thread has cuBLAS handles of its own, which must exist before the
        # update is recorded as a CUDA graph.
        self._thread = ThreadPoolExecutor(max_workers=1)

    def update(self, learner: Any, sample: Sample) -> UpdateResult:
        """Return the result of a learner's update, once all learners have called this.

        Raises:
            UsageError: The batch has its own loss or targets.
        """
        batch = shared_batch(sample)
        with self._arrived:
            self._batches[learner] = batch
            self._learn_if_complete()
            while learner not in self._results:
                self._arrived.wait()
            result = self._results.pop(learner)
        if isinstance(result, BaseException):
            raise RuntimeError(f"the update of several runs failed: {locate_error(result)}") from result
        return result

    def leave(self, learner: Any) -> None:
        """Remove a learner, for which the others no longer wait."""
        with self._arrived:
            if learner in self._members:
                self._members.remove(learner)
                self._many = None
                self._learn_if_complete()
            if not self._members:
                self._thread.shutdown(wait=False)

    def _learn_if_complete(self) -> None:
        if not self._members or len(self._batches) < len(self._members):
            return
        try:
            result = self._thread.submit(self._learn).result()
            for run, member in enumerate(self._members):
                self._results[member] = UpdateResult(result.errors[run], result.metrics[:, run])
        except BaseException as error:
            for member in self._members:
                self._results[member] = error
        self._batches.clear()
        self._arrived.notify_all()

    def _learn(self) -> UpdateResult:
        updates = [member.update_rule for member in self._members]
        if self._many is None:
            self._many = ManyUpdates(updates)
            self._generators = [member.generator for member in self._members]
            self._updater = self._many
            if self._members[0].captures:
                self._updater = CapturedUpdate(self._many, self._generators[0].device)
        for name, optimizer in self._many.optimizers.items():
            optimizer.param_groups[0]["lr"] = updates[0].optimizers[name].param_groups[0]["lr"]
        batches = align([self._batches[member] for member in self._members])
        batch = Batch.stack(move_to_one_device(batches))
        return self._updater.update(batch, self._generators)


def check_group(learners: Sequence[Any]) -> None:
    """Check that the updates of several learners can be combined."""
    check_alike([learner.update_rule for learner in learners])
    first = settings_outside_updates(learners[0].config)
    updates = learners[0].update_rule.updates
    draw = learners[0].config.batches_per_draw
    for learner in learners:
        if abs(learner.update_rule.updates - updates) > draw:
            raise ValueError(
                f"the runs made {updates} and {learner.update_rule.updates} updates; expected at most {draw} apart"
            )
        for name, value in settings_outside_updates(learner.config).items():
            if value != first[name]:
                raise ValueError(f"{name} of the runs is {first[name]} and {value}; expected equal settings of updates")
        if learner.update_rule.scores_wanted:
            raise ValueError("a replay method needs scores of each update; expected methods that do not")
        if learner.batches_define_loss:
            raise ValueError("a replay method sets targets or losses; expected methods that do not")


def settings_outside_updates(config: Any) -> dict[str, Any]:
    """Return settings of learning that the settings of an update lack: schedules of rates, and the form of batches."""
    found = {name: config.rate(name) for name in config.rate_names()}
    found["matrix_dtype"] = config.matrix_dtype
    found["train_batch_size"] = config.train_batch_size_per_learner
    found["views"] = count_views(config.replay_buffer_config)
    if config.has_schedules:
        found |= attributes(config, PACE)
    return found


def count_views(arguments: Mapping[str, Any]) -> int:
    """Return the number of views of each row (S4RL) of a replay method with these arguments."""
    found = arguments.get("views", 1)
    for value in arguments.values():
        if isinstance(value, Mapping):
            found = max(found, count_views(value))
    return found


def shared_batch(sample: Sample) -> Batch:
    """Return the parts of one run's batch that the combined update reads.

    Raises:
        UsageError: The batch has its own loss or targets.
    """
    if sample.critic_loss is not None or sample.targets is not None:
        raise UsageError("batches of this replay method have their own loss or targets; use --together 0")
    columns = {}
    for name, column in vars(sample.transitions).items():
        if name in READ:
            columns[name] = column
    extras = {}
    for name in VIEWS:
        if name in sample.transitions.extras:
            extras[name] = sample.transitions.extras[name]
    return Batch(Transitions(**columns, extras=extras), sample.weights, sample.row_weights, sample.actor_weights)


def move_to_one_device(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return batches on the GPU if some are there and others in main memory; otherwise unchanged."""
    devices = {batch.weights.device for batch in batches}
    if len(devices) == 1:
        return batches
    gpu = next(device for device in devices if device.type != "cpu")
    return [batch.map(lambda column: column.to(gpu)) for batch in batches]


def align(batches: Sequence[Batch]) -> list[Batch]:
    """Return batches that all have row and actor weights if any batch has them; missing weights become 1."""
    found = []
    for batch in batches:
        weights = []
        for name in ("row_weights", "actor_weights"):
            own = getattr(batch, name)
            if own is None and any(getattr(other, name) is not None for other in batches):
                own = torch.ones_like(batch.weights)
            weights.append(own)
        found.append(Batch(batch.transitions, batch.weights, *weights))
    return found
