"""Pickles in checkpoints: looked through before they are loaded, since loading one may run anything.

RLlib writes the state of an algorithm as pickles; the replay buffer is not among them, see `interreplay.state_files`.
Those of a checkpoint that a run is resumed from name nothing but arrays and containers; the one from which
`rllib evaluate` learns what the algorithm was also names classes of RLlib's, Gymnasium's and ours. What names more is
refused, unless it is trusted.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, BinaryIO

from ray import cloudpickle

from interreplay.errors import CheckpointError

STATES = "*state.pkl"
CONSTRUCTOR = "class_and_ctor_args.pkl"
_PLAIN = {
    *((module, name) for module in ("numpy", "numpy.core", "numpy._core") for name in ("ndarray", "dtype")),
    *((f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")),
    *((f"numpy.{core}.numeric", "_frombuffer") for core in ("core", "_core")),
    *(("collections", name) for name in ("OrderedDict", "defaultdict", "deque")),
    *(("builtins", name) for name in ("set", "frozenset", "complex", "slice", "bytearray", "range")),
    *((f"numpy.random.{module}", name) for module, name in (("_pickle", "__generator_ctor"), ("_pcg64", "PCG64"))),
    ("numpy.random._pickle", "__bit_generator_ctor"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
    ("numpy.random.bit_generator", "SeedSequence"),
    ("torch", "device"),
}
_CLASSES = ("ray.rllib.", "interreplay.", "gymnasium.spaces.")
_FUNCTIONS = {("ray.rllib.algorithms.algorithm_config", "AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN")}


class _Careful(pickle.Unpickler):
    """Loads what names nothing but arrays and containers, and classes of the packages above where they are wanted."""

    def __init__(self, file: BinaryIO, path: Path, classes: bool):
        super().__init__(file)
        self._path, self._classes = path, classes

    def find_class(self, module: str, name: str) -> Any:
        known = (module, name) in _PLAIN or (self._classes and (module, name) in _FUNCTIONS)
        if known or (self._classes and module.startswith(_CLASSES) and "." not in name):
            found = super().find_class(module, name)
            if known or isinstance(found, type):
                return found
        raise CheckpointError(
            f"{self._path} names {module}.{name}, which checkpoints do not need; loading it could run anything; "
            "--trust_checkpoint loads it nevertheless"
        )


def load(path: Path, trusted: bool = False) -> Any:
    """The contents of a pickle that may name classes of RLlib's, Gymnasium's and ours, or anything when trusted.

    Raises:
        CheckpointError: It names something else.
    """
    with path.open("rb") as file:
        return pickle.load(file) if trusted else _Careful(file, path, classes=True).load()


def check_states(folder: Path, classes: bool = False) -> None:
    """Looks through the pickles that are loaded when a run goes on from a checkpoint.

    Args:
        folder: The checkpoint.
        classes: Whether they may name classes, as those of RLlib's own algorithms do.

    Raises:
        CheckpointError: One names more than arrays and containers, or cannot be read.
    """
    for path in sorted(folder.rglob(STATES)):
        try:
            with path.open("rb") as file:
                _Careful(file, path, classes).load()
        except (OSError, EOFError, ValueError, TypeError, pickle.UnpicklingError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error


def name_class(folder: Path) -> None:
    """Let a checkpoint that was just written here name the class of its algorithm.

    Ray gives actors, as Tune's trials are, a class of its own making, which RLlib pickles as code; what came from
    elsewhere could then not be told from what did not.
    """
    path = folder / CONSTRUCTOR
    with path.open("rb") as file:
        made = pickle.load(file)
    original = getattr(made["class"], "__ray_actor_class__", None)
    if original is not None:
        path.write_bytes(cloudpickle.dumps(made | {"class": original}))
