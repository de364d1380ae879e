"""Every flag of a run: type, default, help and scope."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from interreplay.environments.wrapped import make_id
from interreplay.experiments.flags.algorithm_flags import (
    ALGORITHM_FLAGS,
    REPLAY_PARAMETERS,
    exceptions,
    loop_flag,
    make_count_flag,
)
from interreplay.experiments.flags.offline_flags import OFFLINE_FLAGS
from interreplay.experiments.flags.original_flags import GAUSSIAN_PROCESS_FLAGS, ORIGINAL_REPLAY_FLAGS
from interreplay.experiments.flags.reading import Flag
from interreplay.experiments.flags.replay_flags import CATALOGUE, PART_FLAGS, read_part
from interreplay.experiments.flags.values import (
    assignment,
    assignments,
    duration,
    env_steps,
    read_nonempty,
    read_path,
    updates_per_step,
)
from interreplay.learning.algorithms_table import ALGORITHMS, FRESH, MIX
from interreplay.learning.setting_fields import SEED, Boolean, Number, OneOf, OrWord, WholeNumber

_OWN_METHODS = exceptions({name: row.buffer for name, row in ALGORITHMS.items()}, "Uniform")

_changeable = partial(Flag, scope="execution", changeable=True)
_invocation = partial(Flag, scope="invocation", in_study="")

WHAT_TO_TRAIN = (
    Flag(
        "trainer",
        str,
        "SAC",
        f"algorithm: {', '.join(ALGORITHMS)}, or module:Class of your own",
        scope="identity",
        in_study="trainers",
    ),
    Flag(
        "env",
        str,
        "InvertedPendulum-v5",
        "Gymnasium id, or module:Env-v0; the newest version replaces retired versions; many have their own preset",
        scope="identity",
        in_study="envs",
    ),
    Flag(
        "preset",
        str,
        None,
        "name of a preset, which sets defaults by environment and algorithm, or your own .yaml file; none: no preset "
        "(default: the environment's own)",
        scope="identity",
    ),
    _invocation(
        "config",
        str,
        None,
        "settings from a .yaml file or from a file of the folder configs, such as cartpole/dqn; flags and words such as"
        " gamma=.95 override them",
    ),
    _invocation("list_presets", Boolean(), False, "print the presets, one line each, and exit"),
    Flag(
        "env_args",
        assignments,
        {},
        "arguments of the environment, such as reward_clipping=none full_action_space=true",
        aliases=("env_kwargs",),
        many=True,
    ),
    Flag(
        "wrapper",
        read_part,
        (),
        "module:Class of a gymnasium.Wrapper with its arguments, such as my_envs:Scaled factor=2; may be repeated, the"
        " first is the innermost",
        many=True,
        repeat=True,
    ),
    Flag("frame_stack", WholeNumber(1), 1, "number of newest observations stacked into one, around all wrappers"),
    Flag(
        "horizon",
        WholeNumber(1),
        None,
        "maximum steps of an episode (default: the environment's own)",
        aliases=("max_episode_steps",),
    ),
    _changeable(
        "total_env_steps",
        WholeNumber(0),
        15_000,
        "environment steps of the whole run, including those before a --resume",
    ),
    _changeable(
        "max_time", duration, None, "save and exit after this time in this process; exit code 75, --resume continues"
    ),
    _changeable(
        "stop_at_return",
        Number(),
        None,
        "stop at the first evaluation with at least this mean return; without evaluations, at this training return",
    ),
    _changeable(
        "stop_without_improvement",
        WholeNumber(1),
        None,
        "stop after this many evaluations in a row without a new best mean return; in runs without evaluations, after "
        "this many iterations",
    ),
    Flag("seed", SEED, 0, "random seed; runs with the same seed are identical", scope="identity", in_study="seeds"),
    Flag(
        "resume",
        Path,
        None,
        "continue from this run's folder, or from one of its checkpoints",
        scope="invocation",
        in_study="--resume",
    ),
    _invocation(
        "recover",
        Boolean(),
        False,
        "with --resume: add the kept transitions after the checkpoint, such as those before a crash",
    ),
    Flag(
        "fork_from",
        read_path,
        None,
        "begin with the networks, transitions and environments of this checkpoint, with new random numbers; another"
        " --buffer is filled with its transitions",
        scope="identity",
    ),
    _invocation("best", Boolean(), False, "with --resume: continue from the best checkpoint, not from the newest"),
)
REPLAY = (
    Flag(
        "buffer",
        read_nonempty,  # whether the method exists is checked with its arguments
        None,
        f"replay method: {', '.join(CATALOGUE)}, or module:Class of your own; for unrolls: {FRESH}, {MIX} "
        f"(default: Uniform; {_OWN_METHODS})",
        scope="method",
        in_study="buffers",
    ),
    _invocation("list_buffers", Boolean(), False, "print the replay methods, one line each, and exit"),
    Flag(
        "buffer_arg",
        assignment,
        (),
        "argument of the replay method, such as k=10; may be repeated",
        repeat=True,
        scope="method",
        in_study="buffers",
    ),
    *PART_FLAGS,
    REPLAY_PARAMETERS,
    Flag("buffer_size", WholeNumber(1), 1_000_000, "maximum number of stored transitions", aliases=("capacity",)),
    loop_flag("learning_starts"),
    ALGORITHM_FLAGS["train_batch_size"],
    loop_flag(
        "updates_per_step",
        type=updates_per_step,
        help="updates per environment step, or a,b: b updates per a steps",
        aliases=("round_robin_weights",),
        many=True,
    ),
    loop_flag("n_step"),
    loop_flag("normalize_observations"),
    loop_flag("scale_rewards"),
)
LEARNER = (
    Flag("gamma", Number(0, 1), 0.99, "discount factor"),
    *(flag for name, flag in ALGORITHM_FLAGS.items() if name != "train_batch_size"),
)
MACHINE = (
    Flag("num_workers", WholeNumber(0), 0, "sampling processes; 0 samples in the training process"),
    make_count_flag("num_envs_per_worker", "environments per sampling process"),
    make_count_flag("rollout_fragment_length", "steps per environment between two rounds of updates, or per unroll"),
    Flag(
        "device",
        OneOf("cpu", "cuda", "auto"),
        "cpu",
        "device of the networks; auto: a GPU if available",
        scope="execution",
    ),
    _changeable("threads", WholeNumber(1), 1, "CPU threads of the learner", in_study="cpus_per_trial"),
    Flag(
        "hang_timeout",
        Number(0),
        1800.0,
        "seconds without an env step, an update or a checkpoint after which the process exits, at least 900 before the "
        "first one; 0 disables",
        scope="invocation",
        changeable=True,
        in_study="hang_timeout",
    ),
    loop_flag("matrix_dtype"),
    loop_flag("cuda_graph", scope="execution", changeable=True),
)
RESULTS = (
    loop_flag("steps_per_iteration", aliases=("timesteps_per_iteration",), scope="execution"),
    _changeable(
        "evaluation_interval",
        WholeNumber(0),
        1,
        "iterations between evaluations with deterministic actions; 0 disables",
    ),
    _changeable("evaluation_num_episodes", WholeNumber(1), 5, "episodes per evaluation"),
    _changeable("evaluation_num_envs", WholeNumber(1), 5, "parallel environments of an evaluation"),
    loop_flag("on_manifold_rows", scope="execution"),
    loop_flag(
        "episode_table",
        scope="execution",
        help="write episodes.csv, a row per training episode: return, length, TD errors, correlated pairs, Q-values",
    ),
    _changeable("checkpoint_freq", WholeNumber(0), 5, "iterations between checkpoints; 0 saves only at the end"),
    _changeable("keep_checkpoints", WholeNumber(1), 2, "number of newest checkpoints to keep"),
    _changeable(
        "keep_best",
        Boolean(),
        True,
        "also keep the checkpoint of the best evaluation, or of the best training return without evaluations",
    ),
    _changeable(
        "keep_checkpoints_at",
        env_steps,
        None,
        "env steps, such as 10_000,30_000, at which to keep a checkpoint permanently, for interreplay fork",
    ),
    _changeable(
        "keep_experience",
        OrWord(WholeNumber(0), "auto"),
        "auto",
        "number of newest transitions to keep in the run's folder; auto: 1,000,000 or 2 GB, none in studies",
    ),
    _changeable(
        "output_dir",
        Path,
        Path("results"),
        "folder in which the run's own folder is created",
        aliases=("local_dir", "results_dir"),
        in_study="--output_dir",
    ),
    _changeable(
        "wandb",
        read_nonempty,
        None,
        "also log to this project of Weights & Biases; WANDB_MODE=offline keeps the log on this machine",
        in_study="",
    ),
    _changeable(
        "mlflow",
        read_nonempty,
        None,
        "also log to this experiment of MLflow; URI/ before it selects the server",
        in_study="",
    ),
    _changeable("video_to_tensorboard", Boolean(), False, "log a video of the first episode of every evaluation"),
    _changeable("quiet", Boolean(), False, "print only the first lines, the summary and errors", in_study=""),
)

GROUPS: dict[str, tuple[Flag, ...]] = {
    "what to train": WHAT_TO_TRAIN,
    "replay": REPLAY,
    "recorded experience": OFFLINE_FLAGS,
    "learner": LEARNER,
    "sampling and machine": MACHINE,
    "evaluation and results": RESULTS,
    "replay, as in the original work": ORIGINAL_REPLAY_FLAGS,
    "Gaussian processes, as in the original work (BIER)": GAUSSIAN_PROCESS_FLAGS,
}

COMMON = (
    *("trainer", "env", "preset", "config", "total_env_steps", "max_time", "stop_at_return", "seed", "resume"),
    *("buffer", "buffer_arg", "list_buffers", "list_presets", "buffer_size", "learning_starts"),
    *("train_batch_size", "updates_per_step", "offline_data", "gamma", "hiddens", "lr", "actor_lr"),
    *("critic_lr", "num_workers", "device", "steps_per_iteration", "evaluation_interval"),
    *("evaluation_num_episodes", "checkpoint_freq", "output_dir", "quiet"),
)
"""The most common flags, which ``--help`` prints."""
FLAGS = {flag.name: flag for flag in chain(*GROUPS.values())}
DEFAULTS = {name: flag.default for name, flag in FLAGS.items()}
ALIASES: dict[str, str] = {}
for _flag in FLAGS.values():
    ALIASES |= dict.fromkeys(_flag.aliases, _flag.name)


def use_current_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings by their current names; files and checkpoints may use aliases."""
    return {ALIASES.get(name, name): value for name, value in settings.items()}


def list_flags(*scopes: str) -> frozenset[str]:
    """Return the names of the flags of these scopes."""
    return frozenset(name for name, flag in FLAGS.items() if flag.scope in scopes)


INVOCATION = list_flags("invocation")
METHOD = list_flags("method")
IN_STUDIES = frozenset(name for name, flag in FLAGS.items() if flag.in_study is None)
"""Settings that runs of a study may have."""
CHANGEABLE = frozenset(name for name, flag in FLAGS.items() if flag.changeable)
"""Settings that a resumed run may change; all others come from the checkpoint."""


def environment_config(settings: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the id and the arguments of a run's environment for RLlib's configuration."""
    arguments = dict(settings["env_args"])
    if settings["horizon"]:
        arguments["max_episode_steps"] = settings["horizon"]
    return make_id(settings["env"], arguments, settings["wrapper"], settings["frame_stack"])
