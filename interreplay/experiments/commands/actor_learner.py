"""Translate the command line of an actor-learner platform (V-trace with elite and attentive replay) to ours.

``main.py --op_mode=train --env=PongNoFrameskip-v4 --r_f_steps=10 ...`` is ``custom_training.py --trainer IMPALA ...``,
``train_w_load`` is ``--resume``, ``test`` is ``interreplay evaluate``. Other settings have that platform's defaults.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from interreplay.environments.rendering import has_screen
from interreplay.errors import UsageError
from interreplay.experiments.commands import evaluate, train
from interreplay.experiments.flags import reading, values
from interreplay.experiments.process import outcome
from interreplay.experiments.process.machine import count_cpus
from interreplay.learning.setting_fields import SEED, Boolean, Number, WholeNumber
from interreplay.learning.settings import LoopSettings
from interreplay.unrolls import schema

PIECES = 16
"""Linear pieces that approximate a decreasing learning rate."""
MODES = ("train", "test", "train_w_load")
WORDS: dict[str, Any] = reading.read_programs()["actor_learner"]
SAME: dict[str, list[Any]] = WORDS["same"]
"""The platform's flags with one equivalent: the platform's default, and the equivalent.

With ``preset``, flags that are not given have the preset's values."""
GAMES: dict[str, str] = WORDS["games"]
CLIPPINGS: dict[str, str] = WORDS["clippings"]
OTHERS: dict[str, list[Any]] = WORDS["others"]
"""Other flags: the platform's default, then the flags that it determines together with others."""
FIXED: dict[str, tuple[str, str]] = WORDS["fixed"]
IGNORED: list[str] = WORDS["ignored"]
DEFAULTS: dict[str, str | None] = {name: row[0] for name, row in (SAME | OTHERS).items()}
"""Default of every flag."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command of the platform; return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    return outcome.run(lambda: act(words))


def act(words: Sequence[str]) -> int:
    """Train, resume or test; return the exit code."""
    if not words:
        make_parser().print_help()
        return 2
    if reading.has_flag(words, "--resume"):  # the command that a run prints
        return train.main(list(words))
    given = read(words)
    mode = given.get("op_mode", "train")
    if ignored := values.select_settings(given, IGNORED):
        print(f"--{', --'.join(ignored)} has no effect: a setting of the platform's implementation")
    if mode == "train":
        return train.main(translate(given))
    run = given.get("load_model_url")
    if run is None:
        raise UsageError(f"--op_mode={mode} needs --load_model_url, the folder of a run or of a checkpoint")
    if mode == "test":
        command = [run, "--episodes", _value(given, "test_episode_count")]
        if _read(given, "render", Boolean()) and ("render" in given or has_screen()):
            if not has_screen():
                raise UsageError(
                    "--render=True needs a screen, and DISPLAY is not set; use --render=False, or write a video with "
                    f"interreplay evaluate {run} --video FILE.gif"
                )
            command.append("--render")
        return evaluate.main(command)
    command = ["--resume", run]
    for name, value in values.drop_settings(given, ["op_mode", "load_model_url", *IGNORED]).items():
        if name not in SAME:
            raise UsageError(f"--{name}: a resumed run keeps its settings; leave it out")
        command.append(f"--{SAME[name][1]}={value}")
    return train.main(command)


def make_parser() -> reading.OneLineParser:
    """Return the parser of the platform's flags."""
    parser = reading.OneLineParser(
        prog="main.py",
        usage=f"%(prog)s --op_mode={'|'.join(MODES)} --FLAG=VALUE ...",
        description="Train, resume or test with the flags of elite_buffer_vtrace; docs/migration.md translates them.",
        epilog=f"For Atari games: --{', --'.join(GAMES)}.",
        argument_default=argparse.SUPPRESS,
    )
    reading.accept_harmless(parser)
    for name, (default, *ours) in (SAME | OTHERS).items():
        names = [f"--{name}"]
        if name in SAME and ours != [name]:
            names.append(f"--{ours[0]}")  # named in messages of `train`
        text = f"see docs/migration.md (default: {default or 'none'})"
        if ours:
            text = f"sets --{', --'.join(ours)} of custom_training.py (default: {default or 'none'})"
        parser.add_argument(*names, dest=name, metavar="VALUE", help=text)
    for name in (*GAMES, *FIXED, *IGNORED):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    return parser


def read(words: Sequence[str]) -> dict[str, str]:
    """Return the platform's flags by name."""
    found = vars(make_parser().parse_args(list(map(reading.use_underscores, words))))
    if found.get("op_mode", "train") not in MODES:
        raise UsageError(f"--op_mode {found['op_mode']}; expected one of {', '.join(MODES)}")
    for name, (value, why) in FIXED.items():
        # 1.0 is 1, (84, 84) is 84,84
        if name in found and values.read_literal(found[name]) != values.read_literal(value):
            raise UsageError(f"--{name}={found[name]}: {why}; expected {value}")
    return found


def translate(given: Mapping[str, str]) -> list[str]:
    """Translate the platform's flags to those of `interreplay.experiments.commands.train`."""
    settings = {ours: given.get(name, default) for name, (default, ours) in SAME.items()}
    optimizer = _value(given, "optimizer")
    settings |= {
        "lr": _schedule(given),
        "replay_parameters": json.dumps(_replay(given)),
        "optimizer": {"rmsprop": "RMSprop", "adam": "Adam"}.get(optimizer, optimizer),
        **_processes(given),
    }
    for name in ("policy_cloning", "value_cloning"):
        used = _read(given, f"use_{name}_loss", Boolean())
        settings[name] = _value(given, f"{name}_loss_weight") if used else "0"
    if _read(given, "use_kl_mask", Boolean()):
        settings |= {"relevance_bound": _value(given, "kl_div_threshold"), "relevance_of": "behavior"}
    steps = _read(given, "save_model_period", WholeNumber(1)) * _steps_per_update(given)
    settings["checkpoint_freq"] = str(max(1, round(steps / LoopSettings.steps_per_iteration)))
    if "preset" in given:
        stated: set[str] = set()
        for name in given:
            stated.update((SAME | OTHERS).get(name, [])[1:])
        settings = values.select_settings(settings, stated)
    if settings.get("seed") is None:
        settings["seed"] = str(secrets.randbelow(SEED.high + 1))
    words = ["--trainer=IMPALA"]
    for name, value in settings.items():
        if value is not None:
            words.append(f"--{name}={value}")
    env = _value(given, "env")
    if "NoFrameskip" in env or env.startswith("ALE/"):
        words += ["--env_args", *_game_arguments(given)]
    elif without_effect := values.select_settings(given, [*GAMES, "clip_rewards", "reward_clipping_method"]):
        print(f"--{', --'.join(without_effect)} has no effect: {env} is not an Atari game")
    return words


def _processes(given: Mapping[str, str]) -> dict[str, str]:
    """Return the numbers of env runners and environments; one process steps all if there are too few CPUs."""
    workers = _read(given, "worker_count", WholeNumber(1))
    envs = _read(given, "envs_per_worker", WholeNumber(1))
    cpus = count_cpus()
    if 1 < workers < cpus:
        return {"num_workers": str(workers), "num_envs_per_worker": str(envs)}
    if workers > 1:
        print(
            f"{workers} workers and the learner need {workers + 1} CPUs, available: {cpus}; this process steps all "
            "environments"
        )
    return {"num_envs_per_worker": str(workers * envs)}


def _steps_per_update(given: Mapping[str, str]) -> float:
    """Return the environment steps per update: the fresh unrolls of a batch times their length."""
    shares = {entry["type"]: float(np.mean(entry["share"])) for entry in _replay(given)}
    return shares["queue"] * _read(given, "batch_size", WholeNumber(1)) * _read(given, "r_f_steps", WholeNumber(1))


def _schedule(given: Mapping[str, str]) -> str:
    """Return learning rates by env step: (lr − end)·(1 − k/K)² + end after k of K updates, in `PIECES` pieces."""
    steps = _read(given, "lr_scheduler_steps", WholeNumber(1)) * _steps_per_update(given)
    start = _read(given, "lr", Number())
    end = _read(given, "lr_end_value", Number())
    words = []
    for share in np.linspace(0, 1, PIECES + 1):
        words.append(f"{round(steps * share)}:{(start - end) * (1 - share) ** 2 + end:.6g}")
    return ",".join(words)


def _replay(given: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the sources of batches; stores are used once they are filled to a minimum share."""
    entries = schema.read(_value(given, "replay_parameters"), _read(given, "batch_size", WholeNumber(1)))
    for entry in entries:
        if entry["type"] != "queue":
            entry["fill_in"] = _read(given, "training_fill_in_factor", Number())
    return entries


def _game_arguments(given: Mapping[str, str]) -> list[str]:
    method = _value(given, "reward_clipping_method")
    if method not in CLIPPINGS:
        raise UsageError(f"--reward_clipping_method={method}; expected one of {', '.join(CLIPPINGS)}")
    arguments = {"reward_clipping": "none"}
    if _read(given, "clip_rewards", Boolean()):
        arguments["reward_clipping"] = CLIPPINGS[method]
    for name, value in values.select_settings(given, GAMES).items():
        arguments[GAMES[name]] = value
    return [f"{name}={value}" for name, value in arguments.items()]


def _value(given: Mapping[str, str], name: str) -> str:
    return given.get(name, DEFAULTS[name]) or ""


def _read(given: Mapping[str, str], name: str, reader: Callable[[str], Any]) -> Any:
    """Return a flag's value as read by `reader`."""
    try:
        return reader(_value(given, name))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"--{name} {error}") from None
