"""RLlib's stock algorithms with our replay buffers: mixins for configurations and algorithms, and both applied."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SAC, SACConfig
from ray.rllib.algorithms.tqc import TQCConfig
from ray.rllib.algorithms.tqc.tqc import TQC
from ray.rllib.utils import replay_buffers as stock_buffers
from ray.rllib.utils.serialization import deserialize_type
from typing_extensions import Self

from interreplay.buffer.catalogue import Kind, check_arguments, resolve
from interreplay.rllib.host import is_search_space
from interreplay.rllib.stock.buffer import ACCEPTED, DOTTED, ReplayBuffer, check_recipe

COMPONENT = "replay_buffer"
"""Name of the buffer within a checkpoint."""


class ReplayMixin(AlgorithmConfig):
    """Adds interreplay's replay buffers to a configuration of RLlib: ``class MyConfig(ReplayMixin, SACConfig)``.

    ``config.replay("NMER", capacity=100_000, k=10)`` and
    ``config.training(replay_buffer_config={"type": "NMER", "capacity": 100_000, "k": 10})`` are equivalent.
    ``debugging(seed=...)`` also seeds the buffer, unless the buffer has a separate seed.
    """

    def __init__(self, algo_class: type | None = None):
        super().__init__(algo_class)
        self.store_buffer_in_checkpoints: bool | None = None  # not chosen, unlike False

    def replay(self, kind: Kind, **arguments: Any) -> Self:
        """Learn from this replay buffer, and save its contents in checkpoints if the algorithm supports it.

        ``training(store_buffer_in_checkpoints=False)`` excludes the contents from checkpoints.

        Args:
            kind: A name of the catalog, a class or a factory, or a search space of Tune over these.
            **arguments: Arguments of the buffer, also as search spaces, such as ``capacity`` and ``k``.

        Raises:
            ValueError: The name or an argument is unknown.
        """
        check_recipe(arguments)
        if not is_search_space(kind):
            check_arguments(resolve(kind), arguments)
        self.replay_buffer_config = {"type": DOTTED, "buffer": kind, **arguments}
        if self.store_buffer_in_checkpoints is None:
            self.store_buffer_in_checkpoints = True
        return self

    def validate(self) -> None:
        """Check the whole configuration. Meanwhile, RLlib sees the stock buffer that our buffer extends."""
        ours = self._spell_out()
        kind = self.replay_buffer_config["type"]
        if ours:
            self.replay_buffer_config["type"] = ACCEPTED
        try:
            super().validate()
        finally:
            self.replay_buffer_config["type"] = kind

    def _spell_out(self) -> bool:
        """Rewrite ``{"type": "NMER", ...}`` so that RLlib can construct it; return whether the buffer is ours."""
        kind = self.replay_buffer_config["type"]
        found: Any = deserialize_type(kind) if isinstance(kind, str) and "." in kind else kind
        if kind == DOTTED or found is ReplayBuffer:
            self.replay_buffer_config["type"] = DOTTED
        elif isinstance(found, str) and hasattr(stock_buffers, found):
            return False
        elif isinstance(found, type) and issubclass(found, stock_buffers.EpisodeReplayBuffer):
            return issubclass(found, ReplayBuffer)  # a user's subclass, or a class of RLlib
        else:
            resolve(found)
            arguments = dict(self.replay_buffer_config)
            del arguments["type"]
            self.replay(found, **arguments)
        if self.seed is not None:
            self.replay_buffer_config.setdefault("seed", self.seed)
        return True


class BufferCheckpoints(Algorithm):
    """Lets an algorithm of RLlib save its replay buffer in checkpoints: ``class MySAC(BufferCheckpoints, SAC)``.

    RLlib's new stack ignores ``store_buffer_in_checkpoints``; this class respects it for interreplay's buffers.
    """

    config: Any
    local_replay_buffer: Any

    def get_state(self, components: Any = None, *, not_components: Any = None, **options: Any) -> dict[str, Any]:
        state = super().get_state(components, not_components=not_components, **options)
        saved = isinstance(self.local_replay_buffer, ReplayBuffer) and self.config.store_buffer_in_checkpoints
        if saved and self._check_component(COMPONENT, components, not_components):
            state[COMPONENT] = self.local_replay_buffer.get_state()
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        super().set_state(state)
        if COMPONENT in state:
            self.local_replay_buffer.set_state(state[COMPONENT])


EXAMPLE = """

Examples:
    >>> from interreplay.rllib import {name}
    >>> config = {name}().replay("NMER", capacity=10_000, k=10)
    >>> config.replay_buffer_config["buffer"]
    'NMER'
"""
"""Example in the docstring of a configuration that uses our replay buffers."""


def with_replay(config: Any, algorithm: Any) -> tuple[Any, Any]:
    """Return a stock configuration and its algorithm as classes that use our replay buffers.

    Returns:
        ``StockSACConfig`` and ``StockSAC`` for ``SACConfig`` and ``SAC``; assign them to these names, by which
        checkpoints import them.
    """

    class Config(ReplayMixin, config):
        def __init__(self, algo_class: type | None = None):
            super().__init__(algo_class or Stock)

    class Stock(BufferCheckpoints, algorithm):
        @classmethod
        def get_default_config(cls) -> Any:
            """Return the configuration of this class."""
            return Config()

    for made, stock in ((Config, config), (Stock, algorithm)):
        made.__name__ = made.__qualname__ = f"Stock{stock.__name__}"
        made.__doc__ = f"RLlib's own {algorithm.__name__}, with our replay buffers."
    Config.__doc__ = str(Config.__doc__) + EXAMPLE.format(name=Config.__name__)
    return Config, Stock


StockSACConfig, StockSAC = with_replay(SACConfig, SAC)
StockTQCConfig, StockTQC = with_replay(TQCConfig, TQC)
StockDQNConfig, StockDQN = with_replay(DQNConfig, DQN)
