"""The policy in a checkpoint: weights and a description of the networks, read without Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym

from interreplay.acting.trained_policy import TrainedPolicy
from interreplay.environments.actions import check_action_space
from interreplay.environments.spaces import flat_actions, space_from_record
from interreplay.errors import CheckpointError, UsageError
from interreplay.learning.architectures import ARCHITECTURES, assemble, build_encoder, resolve_model
from interreplay.runs import state_files
from interreplay.runs.checkpoints import CHECKPOINT, METADATA, find, find_best, read_description
from interreplay.runs.state_files import manifest
from interreplay.transitions import to_tensors

POLICY = "policy"
"""Folder of the weights in a checkpoint, which can be read without the rest of the checkpoint."""
FORMAT = 1
PARTS = ("encoder", "actor")
"""Networks with stored weights."""


def load_policy(
    checkpoint: str | Path,
    device: str = "cpu",
    exploration: Any = None,
    seed: int | None = None,
    best: bool = False,
) -> TrainedPolicy:
    """Return the policy of a checkpoint, without importing Ray and without unpickling anything.

    ```python
    policy = interreplay.load_policy("results/SAC_Hopper-v5_...")
    action = policy.act(obs)
    ```

    Args:
        checkpoint: A checkpoint, or the folder of a run to load its newest checkpoint.
        device: Device of the networks.
        exploration: See `TrainedPolicy`; a schedule is at its end.
        seed: Seed of exploration.
        best: Whether to load the best checkpoint of a run instead of the newest.

    Raises:
        UsageError: There is no checkpoint, or it has no policy that can be loaded.
        CheckpointError: The checkpoint is damaged.
        ValueError: The policy does not support this exploration.
    """
    path = Path(checkpoint)
    folder = find_best(path) if best else find(path)[0]
    description = describe_policy(folder)
    try:
        seen = space_from_record(description["observation_space"])
        done = space_from_record(description["action_space"])
        nets = _networks(description, seen, done, folder)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(f"the policy in {folder} cannot be read: {reason}") from error
    about = {"algorithm": description.get("algorithm"), "env": description.get("env"), "checkpoint": str(folder)}
    policy = TrainedPolicy(
        nets.to(device),
        seen,
        done,
        normalized=description["normalized"],
        exploration=exploration,
        seed=seed,
        about=about,
    )
    if policy.exploration is not None:
        policy.exploration.anneal(1.0)
    return policy


def describe_policy(folder: Path) -> dict[str, Any]:
    """Return the description of the policy in a checkpoint.

    Raises:
        UsageError: The checkpoint has no policy that can be loaded without RLlib; the message names an alternative.
        CheckpointError: The checkpoint is damaged.
    """
    if not (folder / CHECKPOINT).exists() and (folder / METADATA).exists():
        raise UsageError(
            f"{folder} holds no policy by itself: it is a checkpoint of RLlib's own algorithms; RLlib's "
            "Algorithm.from_checkpoint may load it"
        )
    found = read_description(folder)["policy"]
    manifest.check_part(folder, POLICY)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise CheckpointError(f"the policy in {folder / CHECKPOINT} is damaged or newer; expected format {FORMAT}")
    if "own_code" in found:
        raise UsageError(
            f"the networks of {folder} are defined by {found['own_code']}, which a checkpoint cannot hold; load the "
            "algorithm with its class's from_checkpoint, and call its act(obs)"
        )
    if found.get("architecture") not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UsageError(f"{folder} has the architecture {found.get('architecture')!r}; this version has {known}")
    return found


def _networks(
    description: Mapping[str, Any], observation_space: gym.Space, action_space: gym.Space, folder: Path
) -> Any:
    architecture = ARCHITECTURES[description["architecture"]]
    model = description["model"]
    check_action_space(action_space, architecture.acts_in)
    model = resolve_model(architecture, observation_space, model)
    encoder, width = build_encoder(observation_space, model)
    made = architecture.make(width, flat_actions(action_space), model, inference_only=True)
    nets = assemble(made, encoder, model)
    weights = state_files.load(folder / POLICY)
    for part in PARTS:
        getattr(nets, part).load_state_dict(to_tensors(weights[part]))
    return nets.requires_grad_(False)
