"""Translate the command lines of LCER, ``train.py`` and ``enjoy.py`` of github.com/szahlner/lcer, to ours.

``train.py --lcercc --env-name Hopper-v2`` is ``custom_training.py --buffer LCER --env Hopper-v2 ...`` with LCER's
defaults. Flags that LCER does not have are passed to `interreplay.experiments.commands.train`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym

from interreplay.environments.lookup import find_environment
from interreplay.environments.rendering import has_screen
from interreplay.errors import UsageError
from interreplay.experiments.commands import evaluate, train
from interreplay.experiments.flags.reading import OneLineParser, has_flag, read_programs, use_underscores
from interreplay.experiments.process import outcome

CLUSTERS = 1_000
"""Clusters for LCER's default -1, as many as its epochs have steps."""
EPISODE_STEPS = 50
"""Steps of an episode of an environment without a time limit."""
SWITCHES: list[str] = read_programs()["lcer"]["switches"]
VALUES: dict[str, list[Any]] = read_programs()["lcer"]["values"]
"""LCER's flags with a value: its default, and the flags that have the same value."""
CHOICES = {"algo": ("sac", "her"), "policy": ("Gaussian",)}


def make_parser() -> OneLineParser:
    """Return the parser of LCER's flags."""
    parser = OneLineParser(
        description="Train with LCER's flags and defaults. Each line names the flag of custom_training.py that is set; "
        "other flags of custom_training.py, such as --output_dir, are accepted, too.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for name in SWITCHES:
        parser.add_argument(f"--{name}", action="store_true", help="see docs/migration.md")
    for name, (default, *equivalents) in VALUES.items():
        text = ", ".join(f"--{flag}" for flag in equivalents) or "see docs/migration.md"
        parser.add_argument(f"--{name}", type=type(default), default=default, choices=CHOICES.get(name), help=text)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Train with LCER's flags; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return outcome.run(lambda: train.main(translate(words)))


def translate(words: Sequence[str]) -> list[str]:
    """Translate LCER's flags to those of `interreplay.experiments.commands.train`; leave all others unchanged."""
    given, others = make_parser().parse_known_args(list(map(use_underscores, words)))
    if has_flag(others, "--resume"):
        return list(words)
    if bool(given.updates_per_step) == bool(given.n_update_batches):
        raise UsageError("expected one of --updates-per-step and --n-update-batches to be 0, and the other above 0")
    if given.target_update_interval != 1:
        raise UsageError(
            f"--target-update-interval {given.target_update_interval}: targets follow every update at --tau; expected 1"
        )
    flags: dict[str, Any] = {}
    for name, (_, *equivalents) in VALUES.items():
        flags |= dict.fromkeys(equivalents, getattr(given, name))
    flags |= {"trainer": "SAC", "preset": "none"}
    flags["alpha_lr"] = given.lr if given.no_automatic_entropy_tuning else 0.0  # LCER's flag enables the tuning
    flags["hiddens"] = ",".join([str(given.hidden_size)] * (3 if given.algo == "her" else 2))
    if given.n_update_batches:
        spec = gym.spec(find_environment(given.env_name).name)
        flags["updates_per_step"] = f"{spec.max_episode_steps or EPISODE_STEPS},{given.n_update_batches}"
    if given.no_eval:
        flags["evaluation_interval"] = 0
    if given.cuda:
        flags["device"] = "cuda"
    flags["checkpoint_freq"] = int(given.save_agent)
    if given.save_agent:
        flags["keep_checkpoints"] = given.keep_best_agents
    if given.her_normalize:
        flags["normalize_observations"] = True
    return [*(f"--{name}={value}" for name, value in flags.items()), *_method(given), *others]


def _method(given: argparse.Namespace) -> list[str]:
    """Return the flags of the replay method."""
    chosen = [name for name in ("lcercc", "lcerrm", "nmer", "her") if getattr(given, name)]
    if given.algo == "her" and "her" not in chosen:
        chosen.append("her")
    if len(chosen) > 1:
        raise UsageError(
            f"--{chosen[0]} with --{chosen[1]}: expected one of them; in Python, HER takes neighbors, such as "
            "HER(neighborhood=ClusterMember())"
        )
    clusters = CLUSTERS if given.n_clusters == -1 else given.n_clusters
    methods: dict[str, tuple[str, dict[str, Any]]] = {
        "lcercc": ("LCER", {"variant": "center", "n_clusters": clusters}),
        "lcerrm": ("LCER", {"variant": "member", "n_clusters": clusters}),
        "nmer": ("NMER", {"k": given.k_neighbors}),
        "her": ("HER", {"strategy": given.her_replay_strategy, "k": given.her_replay_k}),
    }
    name = "PER" if given.per else "Uniform"
    arguments: dict[str, Any] = {}
    if chosen:
        name, arguments = methods[chosen[0]]
    if given.model_based:
        if given.per:
            raise UsageError("--model-based with --per: expected one of them, real rows are drawn without priorities")
        arguments = {"real": {"type": name, **arguments}, **_model(given)}
        name = "ModelBased"
    words = [f"--buffer={name}"]
    if given.per and name != "PER":
        words.append("--prioritized_replay")
    for argument, value in arguments.items():
        words += ["--buffer_arg", f"{argument}={value if isinstance(value, str) else json.dumps(value)}"]
    return words


def _model(given: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `ModelBased`; LCER counts rollouts per fit and lengths by epochs."""
    found: dict[str, Any] = {
        "real_share": round(1.0 - given.v_ratio, 6),
        "fit_every": given.update_env_model,
        "fit_rows": given.n_training_samples,
        "rollouts": max(1, given.n_rollout_samples // given.update_env_model),
        "keep_fits": max(1, given.model_retain_epochs * given.epoch_length // given.update_env_model),
        "rollout_length": [
            given.rollout_min_length,
            given.rollout_max_length,
            given.rollout_min_epoch * given.epoch_length,
            given.rollout_max_epoch * given.epoch_length,
        ],
    }
    if given.deterministic_model:
        found["model"] = "deterministic"
    return found


def enjoy(argv: Sequence[str] | None = None) -> int:
    """Evaluate a policy with the flags of LCER's ``enjoy.py``, or with our own; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not has_flag(words, "--checkpoint"):
        return evaluate.main(words)
    return outcome.run(lambda: evaluate.main(translate_enjoy(words)))


def translate_enjoy(words: Sequence[str]) -> list[str]:
    """Translate the flags of LCER's ``enjoy.py`` to those of `interreplay.experiments.commands.evaluate`."""
    parser = OneLineParser()
    for name in ("random-actions", "make-gif", "add-episodes"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--n-enjoy-episodes", default="10")
    unused = ("config", "take-every-n-frames", "gif-image-width", "gif-image-height")
    for name in unused:
        parser.add_argument(f"--{name}")
    given, others = parser.parse_known_args(words)
    if given.random_actions:
        raise UsageError("--random-actions: expected a trained policy; smoketest.py runs random actions")
    for name in (*unused, "add-episodes"):
        if getattr(given, name.replace("-", "_")):
            print(f"--{name} has no effect: the checkpoint contains its settings, videos have the environment's size")
    found = [str(given.checkpoint), "--episodes", given.n_enjoy_episodes]
    if given.make_gif:
        video = given.checkpoint.resolve().parent / f"{given.checkpoint.name}.gif"
        return [*found, "--video", str(video), "--video_episodes", given.n_enjoy_episodes, *others]
    if has_screen():
        return [*found, "--render", *others]
    print("no screen: the episodes are played without a window; --make-gif writes a video")
    return [*found, *others]
