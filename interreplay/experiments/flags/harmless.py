"""Flags of the original command lines: those without effect, accepted with one line each, and short names."""

from __future__ import annotations

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
