"""Flags of the original work and of other programs that there are not here, and what to do instead."""

from __future__ import annotations

from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.replay_flags import METHODS
from interreplay.experiments.flags.values import boolean, number, whole

REMOVED = {
    "agent_name": "runs are named by algorithm, environment, method and seed; --output_dir says where they go",
    "log_dir": "everything is written to the run's folder in --output_dir",
    "restore_path": "--resume goes on from a run's folder or one of its checkpoints",
    "framework": "it is always torch",
    "cpu_only": "that is the default; --device cuda is the other choice",
    "local_mode": "Ray has none any more; --num_workers 0, the default, samples in this process",
    "sleep_time": "runs that start at once do not disturb each other any more",
    "verbose": "that is the default; --quiet is the other choice",
    "debug_plot": "the methods' diagnostics are in the results, under replay_buffer/",
    "monitor": "interreplay evaluate CHECKPOINT --video FILE shows a trained policy",
    "record_env": "interreplay evaluate CHECKPOINT --video FILE shows a trained policy",
    "metrics_smoothing_episodes": "returns are means over the newest 10 episodes",
    "replay_sequence_length": "rows are single steps; --n_step makes them longer",
    "whole_episodes": "--rollout_fragment_length says how many steps lie between updates",
    "num_sgd_iter": "--updates_per_step a,b does b updates per a steps, each with rows of its own",
    "target_by_steps_sampled": "targets follow with every update, at --tau",
    "uniform_replay": "--buffer Uniform",
    "only_noise": "--buffer Noise",
    "noise_multiple": "--buffer Noise --buffer_arg sigma=0.1",
    "furthest_neighbor": "--kneighbors k draws one of the k nearest",
    "multi_sample": "--buffer BIER uses all neighbors of every row",
    "single_model": "--global_hyperparams shares hyperparameters; every neighborhood has a process of its own",
    "update_hyperparams": "--global_hyperparams False fits every neighborhood of every batch",
    "est_lengthscales": "length scales are fitted",
    "est_lengthscale_constant": "length scales are fitted",
    "use_queue": "--buffer BIER --buffer_arg queue=4 predicts four outcomes per row ahead of time",
    "on_manifold_testing": "--on_manifold_rows n asks the simulator about n rows of every 50th batch",
}

ORIGINAL_REPLAY_FLAGS: tuple[Flag, ...] = (
    Flag("custom_replay_buffer", boolean, None, "True: NMER; False: Uniform, or PER with --prioritized_replay"),
    *(Flag(flag, boolean, False, method) for flag, method in METHODS.items()),
    Flag("mixup_interpolation", boolean, False, "blend by mixup; NMER unless another such method is named"),
    Flag("smote_interpolation", boolean, False, "the same with lambda ~ U(0, 1), which is --mixup_alpha 1"),
    Flag("kneighbors", whole(1), None, "the replay method's k, its number of neighbors"),
    Flag("mixup_alpha", number(0, open_low=True), None, "the replay method's alpha, of its Beta(alpha, alpha)"),
    Flag("prob_interpolation", number(0, 1), None, "probability with which a row is blended"),
    Flag("interp_decay_rate", number(0), None, "what that probability loses over the run; it stays at 0 or more"),
    Flag("prioritized_replay", boolean, False, "select by TD error: PER alone, or the selector of another method"),
    Flag("prioritized_replay_alpha", number(0), None, "exponent of the priorities"),
    Flag("prioritized_replay_beta", number(0, 1), None, "exponent of the importance weights at the start"),
    Flag("prioritized_replay_eps", number(0, open_low=True), None, "added to every priority"),
    Flag("use_importance_sampling", boolean, True, "False: no importance weights, beta stays 0"),
    Flag(
        "interp_prio_update",
        boolean,
        False,
        "credit a blend's TD error to both ends by share, not to the anchor only",
    ),
)

RENAMED = {
    "learning_rate": "use --actor_lr and --critic_lr (SAC also has --alpha_lr; DQN and its variants have --lr)",
    "batch_size": "use --train_batch_size",
    "algo": "use --trainer",
    "run": "use --trainer",
    "timesteps": "use --total_env_steps",
    "total_timesteps": "use --total_env_steps",
    "num_env_runners": "use --num_workers",
    "num_cpus": "use --threads and --num_workers",
    "dry_run": "only cluster_run.py and submit.py have it",
    "stop": "use --total_env_steps",
}
"""Flags that other programs have for what is done otherwise here."""
