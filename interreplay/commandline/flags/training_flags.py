"""Every flag of the command line: its type, its default, what it does, and what the original work's flags mean here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from interreplay.algorithms_table import OURS as TRAINERS
from interreplay.catalogue import methods
from interreplay.commandline.flags import presets
from interreplay.commandline.flags.algorithm_flags import BATCH_FLAG, TRAINER_FLAGS, trainer_defaults
from interreplay.commandline.flags.gaussian_process_flags import GAUSSIAN_PROCESS_FLAGS
from interreplay.commandline.flags.original_flags import GONE
from interreplay.commandline.flags.parser import Flag, FlagParser
from interreplay.commandline.flags.replay_flags import METHODS, REPLAY_FLAGS, names_method, replay_for
from interreplay.commandline.flags.values import assignment, boolean, choice, number, updates_per_step, whole
from interreplay.environments.lookup import find_environment
from interreplay.errors import UsageError, accepted_names

CATALOGUE = methods()

GROUPS: dict[str, tuple[Flag, ...]] = {
    "what to train": (
        Flag("trainer", str, "SAC", f"algorithm: {', '.join(TRAINERS)}"),
        Flag(
            "env",
            str,
            "InvertedPendulum-v5",
            "Gymnasium id, also module:Env-v0; retired versions mean the newest; many change defaults, and say so",
        ),
        Flag(
            "preset",
            str,
            None,
            "defaults by environment and algorithm, also a .yaml file; the environment's own if none is given",
        ),
        Flag("list_presets", boolean, False, "print the presets, one line each, and do nothing else"),
        Flag("horizon", whole(1), None, "steps after which an episode is cut off (default: the environment's own)"),
        Flag(
            "total_env_steps", whole(1), 15_000, "environment steps of the whole run, those before a --resume included"
        ),
        Flag("seed", whole(0), 0, "two runs with one seed give one result"),
        Flag("resume", Path, None, "go on from this run's folder or from one of its checkpoint_* folders"),
        Flag("trust_checkpoint", boolean, False, "load a --resume whose pickles name code; it could run anything"),
    ),
    "replay": (
        Flag("buffer", str, None, f"replay method: {', '.join(CATALOGUE)} (default: Uniform)"),
        Flag("list_buffers", boolean, False, "print the replay methods, one line each, and do nothing else"),
        Flag("buffer_arg", assignment, (), "argument of the replay method, such as k=10; may be repeated", repeat=True),
        Flag("buffer_size", whole(1), 1_000_000, "transitions to keep", aliases=("capacity",)),
        Flag("learning_starts", whole(0), 1_000, "environment steps with random actions before the first update"),
        BATCH_FLAG,
        Flag(
            "round_robin_weights",
            updates_per_step,
            1.0,
            "updates per environment step, or a,b: b updates per a steps",
            many=True,
        ),
        Flag("n_step", whole(1), 1, "length of the returns"),
    ),
    "replay, as in the original work": (
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
    ),
    "Gaussian processes, as in the original work (BIER)": GAUSSIAN_PROCESS_FLAGS,
    "learner": (
        Flag("gamma", number(0, 1), 0.99, "discount factor"),
        *TRAINER_FLAGS,
    ),
    "sampling and machine": (
        Flag("num_workers", whole(0), 0, "processes that sample; 0 samples in this one"),
        Flag("num_envs_per_worker", whole(1), 1, "environments per sampling process"),
        Flag("rollout_fragment_length", whole(1), 1, "steps per environment between two rounds of updates"),
        Flag("device", choice("cpu", "cuda"), "cpu", "where the networks are trained and the buffer lives"),
        Flag("threads", whole(1), 1, "CPU threads of the learner"),
        Flag(
            "hang_timeout", number(0), 1800.0, "seconds without a step or an update until it ends itself; 0 for never"
        ),
        Flag(
            "matrix_dtype",
            choice("float32", "bfloat16"),
            "float32",
            "type in which matrices between hidden layers are multiplied; bfloat16 is faster where processors have it",
        ),
    ),
    "evaluation and results": (
        Flag(
            "steps_per_iteration",
            whole(1),
            1_000,
            "environment steps per iteration, the unit of the flags below",
            aliases=("timesteps_per_iteration",),
        ),
        Flag(
            "evaluation_interval", whole(0), 1, "iterations between evaluations with deterministic actions; 0 for none"
        ),
        Flag("evaluation_num_episodes", whole(1), 5, "episodes per evaluation"),
        Flag("on_manifold_rows", whole(0), 0, "blended rows that the simulator (MuJoCo) checks, of every 50th batch"),
        Flag("checkpoint_freq", whole(0), 5, "iterations between checkpoints; 0 for one at the end only"),
        Flag("keep_checkpoints", whole(1), 2, "how many of the newest checkpoints stay"),
        Flag("local_dir", Path, Path("results"), "folder in which the run's own folder is made"),
        Flag("wandb", str, None, "also log to this project of Weights & Biases; WANDB_MODE=offline keeps it on disk"),
        Flag("mlflow", str, None, "also log to this experiment of MLflow; with URI/ before it, at that place"),
        Flag("video_to_tensorboard", boolean, False, "a film of the first episode of every evaluation"),
        Flag("quiet", boolean, False, "no progress; only the first lines, the summary and errors"),
    ),
}

# Flags that are about this one start of the program, and no settings of a run.
NOW = {"resume", "list_buffers", "list_presets", "trust_checkpoint", "hang_timeout"}
DEFAULTS = {flag.name: flag.default for flags in GROUPS.values() for flag in flags}
# Settings that a resumed run may change; everything else is the checkpoint's.
CHANGEABLE = {
    *("total_env_steps", "quiet", "checkpoint_freq", "keep_checkpoints", "evaluation_interval"),
    *("evaluation_num_episodes", "threads", "local_dir", "resume", "wandb", "mlflow", "video_to_tensorboard"),
    *("trust_checkpoint", "hang_timeout"),
}


def make_parser() -> FlagParser:
    """The parser of the whole command line."""
    return FlagParser(
        GROUPS,
        GONE,
        description="Train an RLlib agent with a replay method. Flags are accepted with - or _ between their words.",
    )


def settings_for(given: Mapping[str, Any]) -> SimpleNamespace:
    """The settings of a new run: defaults, a preset's, then what was given; plain values only, ready for JSON.

    Args:
        given: Flags and values as `FlagParser.given` returns them.

    Raises:
        UsageError: Values that do not fit each other, or name nothing.
    """
    trainer = given.get("trainer", DEFAULTS["trainer"])
    if trainer not in TRAINERS:
        raise UsageError(f"unknown trainer {trainer!r}; {accepted_names(trainer, TRAINERS)}")
    own = {flag.name for flag in (BATCH_FLAG, *TRAINER_FLAGS)}
    preset, said = preset_for(given), {**tuned_for(given), **given}
    settings = {name: value for name, value in DEFAULTS.items() if name not in REPLAY_FLAGS | NOW | own}
    settings |= trainer_defaults(said, trainer)
    settings |= {name: value for name, value in said.items() if name in settings} | presets.replay(
        preset, given, CATALOGUE
    )
    settings |= {"preset": preset.name, "local_dir": str(settings["local_dir"])}
    settings |= {"hiddens": list(settings["hiddens"])}
    if settings["buffer_size"] < settings["train_batch_size"]:
        raise UsageError(
            f"--buffer_size {settings['buffer_size']} is smaller than one batch; "
            f"expected at least --train_batch_size, {settings['train_batch_size']}"
        )
    return SimpleNamespace(**settings)


def preset_for(given: Mapping[str, Any]) -> presets.Preset:
    """The preset that was asked for, or the environment's."""
    return presets.load(given["preset"]) if "preset" in given else presets.automatic(given.get("env", DEFAULTS["env"]))


def tuned_for(given: Mapping[str, Any]) -> dict[str, Any]:
    """The preset's settings that no flag overrides.

    Args:
        given: Flags and values that were given.

    Raises:
        UsageError: The preset says something that no flag would accept.
    """
    preset = preset_for(given)
    found = preset.settings(*(given.get(name, DEFAULTS[name]) for name in ("trainer", "env")))
    flags = {flag.name: flag for group in GROUPS.values() for flag in group}
    refused = {"trainer", "env", "preset", *REPLAY_FLAGS, *NOW}
    accepted = {name: flag.type for name, flag in flags.items() if name not in refused}
    return presets.converted(preset.name, presets.fitting(found, given), accepted)


def preset_told(given: Mapping[str, Any]) -> str:
    """A line that says which defaults a preset changed, "" where it changed none."""
    kind = {name: given[name] for name in ("trainer", "env") if name in given}
    plain, tuned = (vars(settings_for(line)) for line in (kind | {"preset": presets.NONE}, given))
    changed = {name: value for name, value in tuned_for(given).items() if plain.get(name) != tuned[name]}
    told = f"preset {given['preset']}" if "preset" in given else "defaults for this environment"
    return f"{told}: {presets.shown(changed)}" if changed else ""


def settings_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> SimpleNamespace:
    """The settings of a resumed run: the checkpoint's, with those changes that a running job can take.

    Args:
        saved: The settings in the checkpoint.
        given: Flags and values that were given beside ``--resume``.

    Raises:
        UsageError: A flag that differs from the checkpoint and cannot be changed.
    """
    asked = replay_resumed(saved, given) if REPLAY_FLAGS & given.keys() else {}
    asked |= {name: value for name, value in given.items() if name not in REPLAY_FLAGS}
    if "env" in asked:
        asked["env"] = find_environment(asked["env"]).name
    if "hiddens" in asked:
        asked["hiddens"] = list(asked["hiddens"])
    for name in asked.keys() - CHANGEABLE:
        if asked[name] != saved.get(name):
            raise UsageError(
                f"the checkpoint was made with {name} {saved.get(name)}, not {asked[name]}; leave the flag out"
            )
    changes = {name: asked[name] for name in CHANGEABLE & asked.keys() - NOW - {"local_dir"}}
    return SimpleNamespace(**saved | changes)


def replay_resumed(saved: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What flags about replay say beside ``--resume``; what they leave open is the checkpoint's."""
    asked = replay_for(given if names_method(given) else {**given, "buffer": saved["buffer"]}, CATALOGUE)
    asked["buffer_args"] = saved["buffer_args"] | asked["buffer_args"]
    if "prioritized_replay" not in given:
        asked["prioritized"] = saved["prioritized"]
    if "interp_prio_update" not in given:
        asked["credit_both"] = saved["credit_both"]
    return asked
