"""Pickles in checkpoints: looked through before they are loaded, since loading one may run anything.

RLlib writes the state of an algorithm as pickles; the replay buffer is not among them, see
`interreplay.runs.state_files`.
Those of a checkpoint that a run is resumed from name nothing but arrays and containers. The one that says what the
algorithm was also names classes; these are noted by name, not imported, and nothing can call them. What names more is
refused, unless it is trusted.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ray import cloudpickle

from interreplay.errors import CheckpointError
from interreplay.learning.exploration import Exploration
from interreplay.rllib.checkpoints.moved import current
from interreplay.runs.state_files import manifest

CONSTRUCTOR = "class_and_ctor_args.pkl"
"""RLlib reads it in `from_checkpoint` alone, at the top of the folder; those of parts are never read."""
MSGPACK = (".msgpack", ".msgpck", ".mpk")
"""RLlib prefers such a file to the pickle beside it, and msgpack-numpy unpickles what it finds there."""
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
    ("interreplay.rllib.stock.episode_ids", "EpisodeIds"),
}
_VALUES = {
    *((f"gymnasium.spaces.{name.lower()}", name) for name in ("Box", "Discrete", "Dict", "Tuple", "Text", "Graph")),
    ("gymnasium.spaces.multi_discrete", "MultiDiscrete"),
    ("gymnasium.spaces.multi_binary", "MultiBinary"),
    ("gymnasium.spaces.sequence", "Sequence"),
    ("gymnasium.spaces.oneof", "OneOf"),
    ("interreplay.rllib.evaluation.video", "Camera"),
    ("ray.rllib.algorithms.algorithm_config", "TorchCompileWhatToCompile"),
    ("ray.rllib.core.rl_module.default_model_config", "DefaultModelConfig"),
    ("ray.rllib.core.rl_module.multi_rl_module", "MultiRLModuleSpec"),
    ("ray.rllib.core.rl_module.rl_module", "RLModuleSpec"),
    ("ray.rllib.env.env_context", "EnvContext"),
    ("ray.rllib.policy.policy", "PolicySpec"),
}
"""What a configuration holds values of; making one does nothing else."""
_SETTINGS = "interreplay.learning."
"""Its explorations and dataclasses are such values, too."""
_NAMED = ("ray.rllib.", "interreplay.", "gymnasium.spaces.")
_NOT_NEEDED = (
    "which checkpoints do not need; loading it could run anything; --trust_checkpoint, or trusted=True, loads it "
    "nevertheless"
)
_FUNCTIONS = {("ray.rllib.algorithms.algorithm_config", "AlgorithmConfig.DEFAULT_POLICY_MAPPING_FN")}


class ClassReference(NamedTuple):
    """The name of a class that was not looked up: nothing that a pickle could call or change."""

    module: str
    name: str


class RestrictedUnpickler(pickle.Unpickler):
    """Loads what names nothing but arrays and containers; where `classes` are expected, also their names.

    A class of RLlib's, Gymnasium's or ours becomes a `ClassReference`, so that the pickle cannot call it: making an
    algorithm, say, from settings of its own choice could run anything. With `others`, so does a class of a user's,
    such as an algorithm and its configuration.
    """

    def __init__(self, file: BinaryIO, path: Path, classes: bool, others: bool = False):
        super().__init__(file)
        self._path, self._classes, self._others = path, classes, others

    def find_class(self, module: str, name: str) -> Any:
        module, name = current(module, name)
        if (module, name) in _PLAIN or (self._classes and (module, name) in _VALUES):
            return super().find_class(module, name)
        if self._classes and module.startswith(_SETTINGS) and "." not in name:
            found = super().find_class(module, name)
            own = isinstance(found, type) and found.__module__.startswith(_SETTINGS)
            if own and (issubclass(found, Exploration) or is_dataclass(found)):
                return found
        if self._classes and ((module, name) in _FUNCTIONS or (module.startswith(_NAMED) and "." not in name)):
            return ClassReference(module, name)
        if self._others and "." not in name and module.partition(".")[0] not in sys.stdlib_module_names:
            return ClassReference(module, name)
        raise CheckpointError(f"{self._path} names {module}.{name}, {_NOT_NEEDED}")


def load(path: Path, trusted: bool = False, others: bool = False) -> Any:
    """Return the contents of a pickle that may name classes of RLlib's, Gymnasium's and ours, or anything when trusted.

    Classes are `ClassReference`s, and the classes themselves where it is trusted. With `others`, the pickle may name
    classes of any module that is not of Python's own; they are not imported.

    Raises:
        CheckpointError: It names something else, or cannot be read.
    """
    if trusted:
        with path.open("rb") as file:
            return pickle.load(file)
    return _restricted(path, classes=True, others=others)


def check(folder: Path) -> None:
    """Look through the files that RLlib may load when an algorithm is restored from a checkpoint.

    Raises:
        CheckpointError: One is a link, MessagePack, or a pickle that names more than arrays and containers or cannot
            be read.
    """
    manifest.check_links(folder)
    for path in _files(folder):
        if path.suffix.lower() in MSGPACK:
            raise CheckpointError(f"{path} is MessagePack, {_NOT_NEEDED}")
        if path.suffix in (".pkl", ".pickle") and path.name != CONSTRUCTOR:
            _restricted(path, classes=False)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _restricted(path: Path, classes: bool, others: bool = False) -> Any:
    try:
        with path.open("rb") as file:
            return RestrictedUnpickler(file, path, classes, others).load()
    except CheckpointError:
        raise
    except Exception as error:  # whatever damaged bytes lead to
        reason = " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(f"{path} cannot be read: {reason}") from error


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
