"""Words of the original command lines that change nothing here: accepted with one line each, and short names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HARMLESS = {
    "verbose": "progress is always printed; --quiet prints less",
    "cpu_only": "the CPU is the default; --device cuda is the other choice",
    "local_mode": "Ray no longer has a local mode; --num_workers 0, the default, samples in this process",
    "use_queue": "BIER predicts every batch when it is drawn",
    "debug_plot": "the methods' diagnostics are in the results, under replay_buffer/",
}
"""Flags without a value, and why they have no effect."""
HARMLESS_VALUES = {
    "sleep_time": "runs that start at the same time do not disturb each other",
    "agent_name": "runs are named by algorithm, environment, method and seed; --output_dir sets where they are stored",
    "log_dir": "everything is written to the run's folder in --output_dir",
}
"""Flags with a value, and why they have no effect."""
DEFAULT_VALUES = {
    "framework": "torch",
    "restore_path": "-1",
    "metrics_smoothing_episodes": "100",
    "replay_sequence_length": "1",
    "num_sgd_iter": "1",
    "noise_multiple": "0.0",
    "furthest_neighbor": "-1",
}
"""Flags that are accepted with the original default only, where they have no effect."""
NO_EFFECT = frozenset(f"--{name}" for name in (*HARMLESS, *HARMLESS_VALUES, *DEFAULT_VALUES))
SHORT = {
    "batch": "train_batch_size",
    "ct": "ct_baseline",
    "episodes_smoothing": "metrics_smoothing_episodes",
    "gp": "gaussian_process",
    "gp_cov": "sample_gp_cov",
    "is": "use_importance_sampling",
    "k_max": "furthest_neighbor",
    "knn": "kneighbors",
    "man_testing": "on_manifold_testing",
    "mixup": "mixup_interpolation",
    "naive_mixup": "naive_mixup_baseline",
    "noisy_replay": "noisy_replay_baseline",
    "s4rl": "s4rl_baseline",
    "smote": "smote_interpolation",
    "std_x": "standardize_gpr_x",
    "ts_it": "timesteps_per_iteration",
    "v": "verbose",
}
"""Short names of the original flags, which had one dash."""
ONE_DASH = re.compile(r"-([A-Za-z]\w*)((?:=.*)?)", re.DOTALL)


def with_two_dashes(words: Sequence[str], known: Mapping[str, object]) -> list[str]:
    """Return words with the original one-dash names replaced, such as ``-knn`` and ``-trainer``.

    Args:
        words: The command line.
        known: The options of the parser, such as ``--trainer``.
    """
    found = []
    for word in words:
        match = ONE_DASH.fullmatch(word)
        name = match[1] if match else ""
        if name in SHORT or (len(name) > 1 and f"--{name}" in known):
            word = f"--{SHORT.get(name, name)}{match[2]}" if match else word
        found.append(word)
    return found


def without_harmless(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words without those that have no effect, and one line for each of these.

    Args:
        words: The command line, with ``_`` in the names of flags.
    """
    kept: list[str] = []
    notes: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        following = rest[0] if rest else ""
        if not word.startswith("--"):
            kept.append(word)
        elif name in HARMLESS:
            if not equals and following.lower() in ("true", "false"):
                rest.pop(0)
            notes.append(f"--{name} has no effect: {HARMLESS[name]}")
        elif name in HARMLESS_VALUES and (equals or following):
            if not equals:
                rest.pop(0)
            notes.append(f"--{name} has no effect: {HARMLESS_VALUES[name]}")
        elif name in DEFAULT_VALUES and (value if equals else following) == DEFAULT_VALUES[name]:
            if not equals:
                rest.pop(0)
            notes.append(f"--{name} {DEFAULT_VALUES[name]} has no effect: it is the default")
        else:
            kept.append(word)
    return kept, notes
