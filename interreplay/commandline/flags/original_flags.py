"""Flags of the original work that have no meaning here, and what to do instead of giving them."""

from __future__ import annotations

GONE = {
    "agent_name": "runs are named by algorithm, environment, method and seed; --local_dir says where they go",
    "log_dir": "everything is written to the run's folder in --local_dir",
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
    "num_sgd_iter": "--round_robin_weights a,b does b updates per a steps, each with rows of its own",
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
