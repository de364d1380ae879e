"""Translate the command line of RLcycle, a collection of agents with Hydra settings, to ours.

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
from interreplay.experiments.flags.config_files import merge_config, names
from interreplay.experiments.flags.values import read_boolean, whole
from interreplay.experiments.process import outcome
from interreplay.learning.algorithms_table import VARIANTS

DEFAULT = "atari/rainbow_dqn"
"""Default configuration of RLcycle."""
HYPER = "configs.hyper_params."
MODEL = "configs.model."
EXPERIMENT = "configs.experiment_info."

SETTINGS = {
    f"{HYPER}batch_size": "train_batch_size",
    f"{HYPER}replay_buffer_size": "buffer_size",
    f"{HYPER}buffer_size": "buffer_size",
    f"{HYPER}use_per": "buffer",
    f"{HYPER}per_alpha": "buffer_arg.alpha",
    f"{HYPER}per_beta": "buffer_arg.beta",
    f"{HYPER}per_beta_max": "buffer_arg.final_beta",
    f"{HYPER}eps": "initial_epsilon",
    f"{HYPER}eps_final": "final_epsilon",
    f"{HYPER}max_exploration_frame": "epsilon_steps",
    f"{HYPER}update_starting_point": "learning_starts",
    f"{HYPER}train_freq": "updates_per_step",
    f"{HYPER}n_step": "n_step",
    f"{HYPER}gamma": "gamma",
    f"{HYPER}tau": "tau",
    f"{HYPER}learning_rate": "lr",
    f"{HYPER}adam_eps": "optimizer_eps",
    f"{HYPER}gradient_clip": "grad_clip",
    f"{HYPER}actor_gradient_clip": "actor_grad_clip",
    f"{HYPER}critic_gradient_clip": "critic_grad_clip",
    f"{HYPER}weight_decay": "weight_decay",
    f"{HYPER}actor_learning_rate": "actor_lr",
    f"{HYPER}critic_learning_rate": "critic_lr",
    f"{HYPER}alpha_learning_rate": "alpha_lr",
    f"{HYPER}alpha": "initial_alpha",
    f"{HYPER}noise": "exploration",
    f"{HYPER}noise_sigma": "exploration_sigma",
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
"""RLcycle's settings without an equivalent, and what to do instead."""
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
RANGE = (f"{MODEL}params.model_cfg.v_min", f"{MODEL}params.model_cfg.v_max")
"""The ends of RLcycle's range of returns."""
BULLET = re.compile(r"(\w+)PyBulletEnv-v\d+")


def main(argv: Sequence[str] | None = None) -> int:
    """Train with RLcycle's settings; return the exit code, 2 without any word."""
    words = sys.argv[1:] if argv is None else argv
    prog = sys.argv[0].rsplit("/", 1)[-1]
    if not words:
        print(f"{usage(prog)}\n--help lists the flags")
        return 2
    if not {"-h", "--help"}.isdisjoint(words):
        with outcome.keep_output_open():
            print(f"{usage(prog)}\nIt accepts the flags of custom_training.py, also as KEY=VALUE:\n")
    return outcome.run(lambda: train.main(translate(words)))


def usage(prog: str) -> str:
    """Return the usage message."""
    lines = [
        f"usage: {prog} configs=NAME [configs.hyper_params.KEY=VALUE ...] [KEY=VALUE ...] [FLAGS]",
        "",
        f"such as: {prog} configs=cartpole/dqn configs.hyper_params.batch_size=64",
        f"configurations: {', '.join(names())}; without configs= and flags: {DEFAULT}",
    ]
    return "\n".join(lines)


def translate(words: Sequence[str]) -> list[str]:
    """Translate RLcycle's words to flags and words ``key=value``; leave all others unchanged."""
    names_given = []
    others = []
    for word in words:
        if word.startswith("configs="):
            names_given.append(word.partition("=")[2])
        else:
            others.append(word)
    if len(names_given) > 1:
        raise UsageError(f"configs= is given {len(names_given)} times; expected one name such as {DEFAULT}")
    others = _with_range(others)
    if names_given:
        theirs = read_experiment(names_given[0], others)
        if theirs is not None:
            # `read_experiment` has applied the sizes.
            given = [word for word in others if not word.partition("=")[0].endswith(SIZES)]
            found, of_values = theirs
            return _translate_words([*found, *given], of_values)
    elif all("=" in word and not word.startswith("-") for word in others):
        names_given.append(DEFAULT)
    if not names_given:
        return _translate_words(others, of_values=False)
    name = names_given[0]
    trainer = [word for word in others if word.startswith("trainer=")]
    named = merge_config({"config": name}, trainer).get("trainer")
    if name.startswith("pybullet/"):
        print(f"{name}: MuJoCo's environments replace PyBullet's, which Gymnasium does not have")
    return [f"--config={name}", *_translate_words(others, named in VARIANTS)]


def _translate_words(words: Sequence[str], of_values: bool) -> list[str]:
    """Return words with RLcycle's settings translated; `of_values` is true for variants of DQN."""
    found = []
    for word in words:
        key, _, text = word.partition("=")
        if word.startswith("configs."):
            found += _setting(word, of_values)
        elif text.lower() in HARMLESS.get(f"{EXPERIMENT}{key}", ()):  # an experiment's setting without its prefix
            found += _setting(f"{EXPERIMENT}{word}", of_values)
        else:
            found.append(word)
    return found


def _with_range(words: list[str]) -> list[str]:
    """Return the words with both ends of the range of returns as one setting, if both are given."""
    ends: dict[str, str] = {}
    others = []
    for word in words:
        key, _, value = word.partition("=")
        if key in RANGE:
            ends[key] = value
        else:
            others.append(word)
    if len(ends) < len(RANGE):
        return words
    return [*others, f"value_range={ends[RANGE[0]]},{ends[RANGE[1]]}"]


def _setting(word: str, of_values: bool) -> list[str]:
    key, equals, text = word.partition("=")
    if key in HARMLESS and (not HARMLESS[key] or text.lower() in HARMLESS[key]):
        print(f"{key} has no effect: {INSTEAD[key]}")
        return []
    if key in INSTEAD:
        raise UsageError(f"{key}: {INSTEAD[key]}")
    if not equals:
        raise UsageError(f"{word}: expected a value, as in {word}=1")
    if key.endswith(SIZES):
        raise UsageError(f"unknown setting {key}; network.STREAM.LAYER.out_features= sets the size of a listed layer")
    if key not in SETTINGS:
        lasts = {known.rpartition(".")[2]: known for known in (*INSTEAD, *SETTINGS)}
        close = difflib.get_close_matches(key.rpartition(".")[2], lasts, n=1, cutoff=0.5)
        hint = "accepted: settings of configs.hyper_params, configs.model, configs.experiment_info"
        if close:
            hint = f"did you mean {lasts[close[0]]}?"
        raise UsageError(f"unknown setting {key}; {hint}; flags are accepted by name, such as hiddens=256,256")
    value = text
    try:
        if bullet := BULLET.fullmatch(text):
            print(f"{text} is an environment of PyBullet; using {bullet[1]}-v5 of MuJoCo")
            value = f"{bullet[1]}-v5"
        elif key == f"{HYPER}use_per":
            value = "PER" if read_boolean(text) else "Uniform"
        elif key == f"{HYPER}train_freq":
            value = str(1 / whole(1)(text))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{key} {error}") from None
    found = [f"{SETTINGS[key]}={value}"]
    if key == f"{HYPER}train_freq":
        found.append(f"rollout_fragment_length={text}")
    elif key == f"{HYPER}tau" and of_values:
        found.append("target_update_period=1")  # RLcycle updates targets at every update
    return found
