"""RLlib's methods for checkpoints, in our own format."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.rllib.checkpoints import files


class CheckpointedAlgorithm(Algorithm):
    """An algorithm whose checkpoints hold everything, appear completely or not at all, and contain no pickle."""

    learner: Any
    replay_buffer: Any
    single_spaces: Any
    capacity: Any

    @override(Algorithm)
    def save_to_path(self, path: Any = None, *, state: dict[str, Any] | None = None, **kwargs: Any) -> str:
        """Save everything, including the replay buffer and the environments.

        Args:
            path: A local folder; a temporary one for None.
            state: The algorithm's state; the current one for None.
            **kwargs: RLlib's options of its own format, ignored.

        Returns:
            The folder.

        Raises:
            TrainingDiverged: A loss or a weight is not finite; nothing is written.
        """
        return files.save(self, path, state)

    @override(Algorithm)
    def restore_from_path(self, path: Any, *, component: str | None = None, **kwargs: Any) -> None:
        """Continue where a checkpoint was saved.

        Args:
            path: A local folder.
            component: Restore only this part, such as ``"learner_group/learner/rl_module"``.
            **kwargs: RLlib's options of its own format, ignored.

        Raises:
            CheckpointError: The checkpoint is unreadable, damaged, or of another environment, algorithm or buffer.
        """
        files.restore(self, path, component)

    @classmethod
    @override(Algorithm)
    def from_checkpoint(cls, path: Any, filesystem: None = None, **options: Any) -> Self:
        """Build the algorithm of a checkpoint and continue where it was saved.

        RLlib's own ``Algorithm.from_checkpoint`` cannot read these checkpoints; call this method of the class.

        Args:
            path: A local folder, or a checkpoint of Ray Train.
            filesystem: None; remote file systems are not supported.
            **options: ``config``, a configuration to use instead of the stored one, and ``trusted``, whether its
                settings may name code.

        Raises:
            CheckpointError: The checkpoint cannot be read, or does not store all of its settings.
            ValueError: It is of another class, or not local.
        """
        return files.make(cls, path, filesystem, **options)
