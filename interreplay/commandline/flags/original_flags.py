"""Flags of the original work and of other programs that there are not here, and what to do instead."""

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

ELSEWHERE = {
    "learning_rate": "use --actor_lr and --critic_lr (SAC also has --alpha_lr)",
    "lr": "use --actor_lr and --critic_lr (SAC also has --alpha_lr)",
    "batch_size": "use --train_batch_size",
    "algo": "use --trainer",
    "run": "use --trainer",
    "timesteps": "use --total_env_steps",
    "total_timesteps": "use --total_env_steps",
    "num_env_runners": "use --num_workers",
    "num_cpus": "use --threads and --num_workers",
    "results_dir": "use --local_dir",
    "output": "use --local_dir",
    "dry_run": "only cluster_run.py and submit.py have it",
    "stop": "use --total_env_steps",
    "config": "every setting is a flag of its own",
}
"""Flags that other programs have for what is done otherwise here."""
