"""The command line of RLcycle, a collection of agents with Hydra settings, translated to ours.

``configs=atari/rainbow_dqn configs.hyper_params.batch_size=64`` is ``--config atari/rainbow_dqn train_batch_size=64``.
All other words and flags are passed to `interreplay.experiments.commands.train`.
"""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence

from interreplay.errors import UsageError
from interreplay.experiments.commands import train
from interreplay.experiments.commands.rlcycle_files import SIZES, read_experiment
from interreplay.experiments.flags.config_files import completed, names
from interreplay.experiments.flags.values import boolean, whole
from interreplay.experiments.process import outcome
from interreplay.learning.algorithms_table import VARIANTS

DEFAULT = "atari/rainbow_dqn"
"""Default configuration of RLcycle."""
HYPER, MODEL, EXPERIMENT = "configs.hyper_params.", "configs.model.", "configs.experiment_info."

SETTINGS = {
    f"{HYPER}{key}": flag
    for key, flag in {
        "batch_size": "train_batch_size",
        "replay_buffer_size": "buffer_size",
        "buffer_size": "buffer_size",
        "use_per": "buffer",
        "per_alpha": "buffer_arg.alpha",
        "per_beta": "buffer_arg.beta",
        "per_beta_max": "buffer_arg.final_beta",
        "eps": "initial_epsilon",
        "eps_final": "final_epsilon",
        "max_exploration_frame": "epsilon_steps",
        "update_starting_point": "learning_starts",
        "train_freq": "updates_per_step",
        "n_step": "n_step",
        "gamma": "gamma",
        "tau": "tau",
        "learning_rate": "lr",
        "adam_eps": "optimizer_eps",
        "gradient_clip": "grad_clip",
        "actor_gradient_clip": "actor_grad_clip",
        "critic_gradient_clip": "critic_grad_clip",
        "weight_decay": "weight_decay",
        "actor_learning_rate": "actor_lr",
        "critic_learning_rate": "critic_lr",
        "alpha_learning_rate": "alpha_lr",
        "alpha": "initial_alpha",
        "noise": "exploration",
        "noise_sigma": "exploration_sigma",
    }.items()
} | {
    f"{MODEL}params.model_cfg.num_atoms": "atoms",
    f"{MODEL}params.model_cfg.num_quantiles": "atoms",
    f"{EXPERIMENT}env.name": "env",
    f"{EXPERIMENT}env.max_episode_steps": "horizon",
    f"{EXPERIMENT}device": "device",
    f"{EXPERIMENT}test_num": "evaluation_num_episodes",
    f"{EXPERIMENT}num_workers": "num_workers",
}
"""RLcycle's settings and the equivalent flags."""

INSTEAD = {
    f"{HYPER}per_beta_total_steps": "beta rises over the whole run; leave it out",
    f"{HYPER}q_reg_coeff": "there is no penalty on values; leave it out",
    f"{HYPER}max_exploratory_steps": "actions are random until learning starts, at learning_starts=",
    f"{HYPER}noise_mu": "noise has mean 0; leave it out",
    f"{MODEL}class": "the algorithm determines it, trainer=",
    f"{MODEL}params.model_cfg.v_min": "give both ends, as value_range=-10,10",
    f"{MODEL}params.model_cfg.v_max": "give both ends, as value_range=-10,10",
    f"{MODEL}params.model_cfg.use_conv": "the observations determine it, or encoder=",
    f"{EXPERIMENT}agent": "the algorithm determines it, trainer=",
    f"{EXPERIMENT}learner": "the algorithm determines it, trainer=",
    f"{EXPERIMENT}loss": "the algorithm determines it, trainer=",
    f"{EXPERIMENT}action_selector": "the algorithm determines it, trainer=",
    f"{EXPERIMENT}experiment_name": "runs are named by their settings; output_dir= sets their folder",
    f"{EXPERIMENT}env.is_atari": "the environment determines it; leave it out",
    f"{EXPERIMENT}env.is_discrete": "the environment determines it; leave it out",
    f"{EXPERIMENT}env.frame_stack": "the environment determines it; leave it out",
    f"{EXPERIMENT}log_wandb": "name a project, with wandb=",
    f"{EXPERIMENT}total_num_episodes": "runs are counted in env steps, total_env_steps=",
    f"{EXPERIMENT}test_interval": "evaluations are counted in iterations, evaluation_interval=",
    f"{EXPERIMENT}render_train": "interreplay evaluate RUN --video FILE shows a trained policy",
    f"{EXPERIMENT}render_test": "interreplay evaluate RUN --video FILE shows a trained policy",
}
"""RLcycle's settings without equivalent, and what to do instead."""
HARMLESS: dict[str, tuple[str, ...]] = {
    f"{HYPER}q_reg_coeff": ("0", "0.0"),
    f"{HYPER}noise_mu": ("0", "0.0"),
    f"{MODEL}params.model_cfg.use_conv": (),
    f"{EXPERIMENT}experiment_name": (),
    f"{EXPERIMENT}log_wandb": ("false",),
    f"{EXPERIMENT}render_train": ("false",),
    f"{EXPERIMENT}render_test": ("false",),
    f"{EXPERIMENT}env.is_atari": (),
    f"{EXPERIMENT}env.is_discrete": (),
    f"{EXPERIMENT}env.frame_stack": (),
}
"""Settings of `INSTEAD` that are accepted with these values, () for all, and have no effect."""
RANGE = (f"{MODEL}params.model_cfg.v_min=", f"{MODEL}params.model_cfg.v_max=")
"""The ends of RLcycle's range of returns."""
BULLET = re.compile(r"(\w+)PyBulletEnv-v\d+")


def main(argv: Sequence[str] | None = None) -> int:
    """Train with RLcycle's settings.

    Returns:
        The exit code of `interreplay.experiments.commands.train.main`; 2 for an unknown word, or without any.
    """
    words = sys.argv[1:] if argv is None else argv
    prog = sys.argv[0].rsplit("/", 1)[-1]
    if not words:
        print(usage(prog))
        return 2
    return outcome.run(prog, lambda: train.main(translated(words)))


def usage(prog: str) -> str:
    """Return the usage message."""
    lines = [
        f"usage: {prog} configs=NAME [configs.hyper_params.KEY=VALUE ...] [KEY=VALUE ...] [FLAGS]",
        "",
        f"such as: {prog} configs=cartpole/dqn configs.hyper_params.batch_size=64",
        f"configurations: {', '.join(names())}",
        "--help lists the flags",
    ]
    return "\n".join(lines)


def translated(words: Sequence[str]) -> list[str]:
    """Translate RLcycle's words to flags and words ``key=value``; leave all others unchanged."""
    asked = [word.partition("=")[2] for word in words if word.startswith("configs=")]
    if len(asked) > 1:
        raise UsageError(f"configs= is given {len(asked)} times; expected one name such as {DEFAULT}")
    others = _with_range([word for word in words if not word.startswith("configs=")])
    bare = all("=" in word and not word.startswith("-") for word in others)
    config = asked or ([DEFAULT] if bare else [])
    if asked and (theirs := read_experiment(asked[0], others)) is not None:
        found = []
        for word in (*theirs.words, *(word for word in others if not word.partition("=")[0].endswith(SIZES))):
            found += _word(word, theirs.of_values)
        return found
    trainer = [word for word in others if word.startswith("trainer=")]
    named = completed({"config": config[0]}, trainer).get("trainer") if config else None
    if config and config[0].startswith("pybullet/"):
        print(f"{config[0]}: MuJoCo's environments replace PyBullet's, which Gymnasium does not have")
    found = [f"--config={name}" for name in config]
    for word in others:
        found += _word(word, named in VARIANTS)
    return found


def _word(word: str, of_values: bool) -> list[str]:
    """Return the equivalents of a setting, of an experiment's setting without effect and without prefix, or the word.

    Args:
        word: The word.
        of_values: Whether the algorithm is a variant of DQN.
    """
    if word.startswith("configs."):
        return _setting(word, of_values)
    key, _, text = word.partition("=")
    if text.lower() in HARMLESS.get(f"{EXPERIMENT}{key}", ()):
        return _setting(f"{EXPERIMENT}{word}", of_values)
    return [word]


def _with_range(words: list[str]) -> list[str]:
    """Return the words with both ends of the range of returns as one setting, if both are given."""
    ends = [[word.partition("=")[2] for word in words if word.startswith(end)] for end in RANGE]
    if not all(ends):
        return words
    others = [word for word in words if not word.startswith(RANGE)]
    return [*others, f"value_range={ends[0][-1]},{ends[1][-1]}"]


def _setting(word: str, of_values: bool) -> list[str]:
    key, equals, text = word.partition("=")
    if key in HARMLESS and (not HARMLESS[key] or text.lower() in HARMLESS[key]):
        print(f"{key} has no effect: {INSTEAD[key]}")
        return []
    if key in INSTEAD:
        raise UsageError(f"{key}: {INSTEAD[key]}")
    if key not in SETTINGS or not equals:
        raise UsageError(_unknown(key) if equals else f"{word}: expected a value, as in {word}=1")
    try:
        return [f"{SETTINGS[key]}={_converted(key, text)}", *_implied(key, text, of_values)]
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{key} {error}") from None


def _converted(key: str, text: str) -> str:
    """Return a value in our terms."""
    if bullet := BULLET.fullmatch(text):
        print(f"{text} is an environment of PyBullet; using {bullet[1]}-v5 of MuJoCo")
        return f"{bullet[1]}-v5"
    if key == f"{HYPER}use_per":
        return "PER" if boolean(text) else "Uniform"
    return str(1 / whole(1)(text)) if key == f"{HYPER}train_freq" else text


def _implied(key: str, text: str, of_values: bool) -> list[str]:
    """Return further settings that a setting implies: RLcycle updates targets at every update."""
    if key == f"{HYPER}train_freq":
        return [f"rollout_fragment_length={text}"]
    return ["target_update_period=1"] if key == f"{HYPER}tau" and of_values else []


def _unknown(key: str) -> str:
    if key.endswith(SIZES):
        return f"unknown setting {key}; network.STREAM.LAYER.out_features= sets the size of a listed layer"
    lasts = {known.rpartition(".")[2]: known for known in (*INSTEAD, *SETTINGS)}
    close = difflib.get_close_matches(key.rpartition(".")[2], lasts, n=1, cutoff=0.5)
    near = f"did you mean {lasts[close[0]]}?" if close else ""
    groups = f"accepted: settings of {', '.join(group.rstrip('.') for group in (HYPER, MODEL, EXPERIMENT))}"
    return f"unknown setting {key}; {near or groups}; flags go by their own names, such as hiddens=256,256"


if __name__ == "__main__":
    sys.exit(main())
