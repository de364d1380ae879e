"""What RLlib's stock algorithms may not ask of our replay buffers: each check raises ValueError."""

from __future__ import annotations

import warnings
from typing import Any

from interreplay.buffer import ReplayBuffer as Buffer
from interreplay.errors import accepted_names
from interreplay.learning.update import LARGEST_ERROR

NOT_OFFERED = ("include_infos", "include_extra_model_outputs", "min_batch_length_T")
"""Options of RLlib's `sample` that must be false or 0."""


def check_recipe(arguments: dict[str, Any]) -> None:
    """Refuse arguments of a buffer that a stock algorithm decides itself."""
    for name in ("n_step", "gamma"):
        if name in arguments:
            raise ValueError(f"{name}={arguments[name]} belongs to the algorithm: config.training({name}=...)")


def check_method(buffer: Buffer) -> None:
    """Refuse a replay method that needs more of an algorithm than RLlib's have, and warn of what it does without."""
    buffer.check_offers(frozenset(), "an algorithm of RLlib's own")
    if LARGEST_ERROR in buffer.scores_wanted or buffer.brings_critic_loss:
        warnings.warn(
            f"{type(buffer).__name__} goes by the mean TD error of the critics here, which is what RLlib's algorithms "
            "report, not by the largest; and the critics' loss is theirs",
            stacklevel=3,
        )


def check_sequence(length: int | None) -> None:
    """Refuse to store or draw rows of more than one step."""
    if length not in (None, 0, 1):
        raise ValueError(f"batch_length_T is {length}; expected 0 or 1: sequences, as for use_lstm, are not offered")


def check_options(options: dict[str, Any], sample_episodes: bool) -> None:
    """Refuse what RLlib's buffers can be asked for and this one cannot give."""
    if not sample_episodes:
        raise ValueError("sample_episodes is false; expected true, for rows come as episodes only")
    for name, value in options.items():
        if name not in NOT_OFFERED:
            raise ValueError(f"sample takes no argument {name!r}; {accepted_names(name, NOT_OFFERED)}")
        if value:
            raise ValueError(f"{name} is {value}; expected false or 0, for it is not offered")
