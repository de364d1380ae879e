"""RLlib's methods of algorithms for checkpoints, those of this package behind them."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.utils.annotations import override
from typing_extensions import Self

from interreplay.rllib.checkpoints import files


class CheckpointedAlgorithm(Algorithm):
    """An algorithm whose checkpoints hold everything, appear whole or not at all, and are checked before they load."""

    learner: Any
    replay_buffer: Any
    single_spaces: Any
    capacity: Any

    @override(Algorithm)
    def save_to_path(self, path: Any = None, **kwargs: Any) -> str:
        """Save everything, buffer and environments included; the folder appears whole or not at all.

        Args:
            path: A local folder; a temporary one for None.
            **kwargs: RLlib's; with ``state``, RLlib's part alone is written.

        Raises:
            TrainingDiverged: A loss or a weight is not finite; nothing is written.
        """
        if kwargs.get("state") is not None:
            return super().save_to_path(path, **kwargs)
        rllib = super().save_to_path
        return files.save(self, path, lambda folder: rllib(folder, **kwargs))

    @override(Algorithm)
    def restore_from_path(self, path: Any, *args: Any, trusted: bool = False, **kwargs: Any) -> None:
        """Continue where a checkpoint was saved; only of a trusted one, pickles may name more than arrays.

        Args:
            path: A local folder.
            *args: RLlib's.
            trusted: Whether loading the checkpoint may run anything that it names.
            **kwargs: RLlib's; with ``component``, the folder of this part alone.

        Raises:
            CheckpointError: When it is unreadable, damaged, or of another environment, algorithm or buffer.
        """
        rllib = super().restore_from_path
        if kwargs.get("component") is None:
            return files.restore(self, path, lambda folder: rllib(folder, *args, **kwargs), trusted)
        if not trusted:
            files.check_part(path)
        rllib(path, *args, **kwargs)

    @classmethod
    @override(Algorithm)
    def from_checkpoint(cls, path: Any, filesystem: None = None, **options: Any) -> Self:
        """Make the algorithm of a checkpoint, and continue where it was saved.

        RLlib's own ``Algorithm.from_checkpoint`` checks nothing.

        Args:
            path: A local folder, or a checkpoint of Ray Train's.
            filesystem: None; RLlib's for folders elsewhere.
            **options: ``config``, in place of the checkpoint's own, and ``trusted``, as in `restore_from_path`.

        Raises:
            CheckpointError: It cannot be read, or names what could run anything.
            ValueError: It is of another class, or not local.
        """
        return files.make(cls, path, filesystem, **options)
