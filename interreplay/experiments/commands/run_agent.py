"""Translate the command line and the experiment files of RLcycle, a collection of agents with Hydra settings, to ours.

``configs=atari/rainbow_dqn configs.hyper_params.batch_size=64`` is ``--config atari/rainbow_dqn train_batch_size=64``.
All other words and flags are passed to `interreplay.experiments.commands.train`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.commands import train
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.config_files import merge_config, names
from interreplay.experiments.flags.reading import by_name, read_programs
from interreplay.experiments.flags.values import drop_settings, select_settings
from interreplay.experiments.process import outcome
from interreplay.learning.algorithms_table import VARIANTS
from interreplay.learning.setting_fields import Boolean, WholeNumber
from interreplay.runs.results.reader import flat

DEFAULT = "atari/rainbow_dqn"
"""Default configuration of RLcycle."""
PREFIX = "configs."
WORDS: dict[str, Any] = read_programs()["rlcycle"]
SETTINGS: dict[str, str] = WORDS["settings"]
"""RLcycle's settings without the prefix, and the equivalent flags."""
INSTEAD = by_name(WORDS["instead"])
"""RLcycle's settings without an equivalent, and what to do instead."""
HARMLESS: dict[str, list[str]] = WORDS["harmless"]
"""Settings of `INSTEAD` that are accepted with these values, [] for all, and have no effect."""
RANGE = ("configs.model.params.model_cfg.v_min", "configs.model.params.model_cfg.v_max")
"""The ends of RLcycle's range of returns."""
BULLET = re.compile(r"(\w+)PyBulletEnv-v\d+")
SIZES = (".output_size", ".kernel_size", ".stride", "activation_fn")
"""Ends of the keys of a layer that a command line may override."""


def main(argv: Sequence[str] | None = None) -> int:
    """Train with RLcycle's settings; return the exit code, 2 without any word."""
    words = sys.argv[1:] if argv is None else argv
    prog = sys.argv[0].rsplit("/", 1)[-1]
    usage = (
        f"usage: {prog} configs=NAME [configs.hyper_params.KEY=VALUE ...] [KEY=VALUE ...] [FLAGS]\n\n"
        f"such as: {prog} configs=cartpole/dqn configs.hyper_params.batch_size=64\n"
        f"configurations: {', '.join(names())}; without configs= and flags: {DEFAULT}"
    )
    if not words:
        print(f"{usage}\n--help lists the flags")
        return 2
    if not {"-h", "--help"}.isdisjoint(words):
        with outcome.keep_output_open():
            print(f"{usage}\nIt accepts the flags of custom_training.py, also as KEY=VALUE:\n")
    return outcome.run(lambda: train.main(translate(words)))


def translate(words: Sequence[str]) -> list[str]:
    """Translate RLcycle's words to flags and words ``key=value``; leave all others unchanged."""
    chosen = []
    others = []
    ends = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in RANGE:
            ends[key] = value
        if equals and key == "configs":
            chosen.append(value)
        else:
            others.append(word)
    if len(chosen) > 1:
        raise UsageError(f"configs= is given {len(chosen)} times; expected one name such as {DEFAULT}")
    if len(ends) == len(RANGE):
        others = [word for word in others if word.partition("=")[0] not in ends]
        others.append(f"value_range={ends[RANGE[0]]},{ends[RANGE[1]]}")
    if not chosen and all("=" in word and not word.startswith("-") for word in others):
        chosen = [DEFAULT]
    found: list[str] = []
    of_values = False  # whether the algorithm is a variant of DQN
    if chosen:
        name = chosen[0]
        contents = read_experiment(name)
        if contents is None:
            named = [word for word in others if word.startswith("trainer=")]
            of_values = merge_config({"config": name}, named).get("trainer") in VARIANTS
            found.append(f"--config={name}")
            if name.startswith("pybullet/"):
                print(f"{name}: MuJoCo's environments replace PyBullet's, which Gymnasium does not have")
        else:
            change_layers(contents, others)
            place = f"configuration {name}"
            trainer = choose_trainer(contents["experiment_info"], place)
            of_values = trainer in VARIANTS
            others = [word for word in others if not word.partition("=")[0].endswith(SIZES)]
            others = [*translate_experiment(contents, trainer, place), *others]
    for word in others:
        key, _, text = word.partition("=")
        if word.startswith(PREFIX):
            found += translate_setting(word, of_values)
        elif text.lower() in HARMLESS.get(f"experiment_info.{key}", ()):
            found += translate_setting(f"{PREFIX}experiment_info.{word}", of_values)
        else:
            found.append(word)
    return found


def translate_setting(word: str, of_values: bool) -> list[str]:
    """Return the words for a setting such as ``configs.hyper_params.tau=.005``."""
    full, equals, text = word.partition("=")
    key = full.removeprefix(PREFIX)
    if key in HARMLESS and (not HARMLESS[key] or text.lower() in HARMLESS[key]):
        print(f"{full} has no effect: {INSTEAD[key]}")
        return []
    if key in INSTEAD:
        raise UsageError(f"{full}: {INSTEAD[key]}")
    if not equals:
        raise UsageError(f"{word}: expected a value, as in {word}=1")
    if key.endswith(SIZES):
        raise UsageError(f"unknown setting {full}; network.STREAM.LAYER.out_features= sets the size of a listed layer")
    if key not in SETTINGS:
        lasts = {known.rpartition(".")[2]: known for known in (*INSTEAD, *SETTINGS)}
        close = difflib.get_close_matches(key.rpartition(".")[2], lasts, n=1, cutoff=0.5)
        hint = "accepted: settings of configs.hyper_params, configs.model, configs.experiment_info"
        if close:
            hint = f"did you mean {PREFIX}{lasts[close[0]]}?"
        raise UsageError(f"unknown setting {full}; {hint}; flags are accepted by name, such as hiddens=256,256")
    value = text
    more = []
    try:
        if bullet := BULLET.fullmatch(text):
            print(f"{text} is an environment of PyBullet; using {bullet[1]}-v5 of MuJoCo")
            value = f"{bullet[1]}-v5"
        elif key == "hyper_params.use_per":
            value = "PER" if Boolean()(text) else "Uniform"
        elif key == "hyper_params.train_freq":
            value = str(1 / WholeNumber(1)(text))
            more = [f"rollout_fragment_length={text}"]
        elif key == "hyper_params.tau" and of_values:
            more = ["target_update_period=1"]  # RLcycle updates targets at every update
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"{full} {error}") from None
    return [f"{SETTINGS[key]}={value}", *more]


def read_experiment(name: str) -> dict[str, Any] | None:
    """Return the contents of an experiment file of RLcycle and of the files under its ``defaults``.

    None if `name` is not such a file.
    """
    path = Path(name)
    if not path.is_file():
        return None
    place = f"configuration {path}"
    contents = presets.read_yaml(path, place)
    if not isinstance(contents, dict) or "experiment_info" not in contents:
        return None
    for default in contents.get("defaults", []):
        ((group, file),) = default.items()
        if group not in ("hyper_params", "models"):
            raise UsageError(f"{place}: defaults: {group}; expected hyper_params and models")
        part = path.parent / group / f"{file}.yaml"
        contents |= presets.read_yaml(part, f"configuration {part}")
    return contents


def change_layers(contents: Mapping[str, Any], words: Sequence[str]) -> None:
    """Override layers of an experiment by words such as ``configs.model.params.model_cfg.fc.input.params.stride=2``."""
    for word in words:
        key, _, value = word.partition("=")
        if key.startswith("configs.model.") and key.endswith(SIZES):
            *parts, last = key.split(".")[1:]
            layer: Any = contents
            for part in parts:
                layer = layer.get(part) or {}
            if last not in layer:
                raise UsageError(f"{key}: the experiment has no such layer; expected a name in its model file")
            try:
                layer[last] = value if last.endswith("_fn") else WholeNumber(1).read(value)
            except ValueError as error:
                raise UsageError(f"{key} {error}") from None


def choose_trainer(about: Mapping[str, Any], place: str) -> str:
    """Return the algorithm of an experiment, given its ``experiment_info``."""
    agent = str(about.get("agent", "")).rpartition(".")[2]
    loss = str(about.get("loss", "")).rpartition(".")[2]
    found = WORDS["losses"].get(loss) if agent == "DQNBaseAgent" else WORDS["agents"].get(agent)
    if found is None:
        raise UsageError(
            f"{place}: experiment_info.agent is {about.get('agent')!r} with the loss {about.get('loss')!r}; expected "
            "an agent of RLcycle, or trainer=my_module:MyAlgorithm for one of your own"
        )
    return found


def translate_experiment(contents: Mapping[str, Any], trainer: str, place: str) -> list[str]:
    """Return the words of an experiment: RLcycle's settings, and layers as the setting ``network``."""
    words = [f"trainer={trainer}", "--preset=none"]
    hyper = dict(contents.get("hyper_params", {}))
    if trainer in ("A2C", "A3C"):
        if "alpha" in hyper:
            words.append(f"entropy_coeff={hyper.pop('alpha')}")
        for flag, setting in (("lr", "learning_rate"), ("grad_clip", "gradient_clip")):
            value = hyper.pop(f"actor_{setting}", None)
            if hyper.pop(f"critic_{setting}", None) != value:
                raise UsageError(f"{place}: actor and critic differ; expected one learning rate and one gradient clip")
            if value:
                words.append(f"{flag}={value}")
    for key, value in flat({"hyper_params": hyper, "experiment_info": contents["experiment_info"]}, separator="."):
        last = key.rpartition(".")[2]
        if last in WORDS["ignored"] or (last in ("weight_decay", "q_reg_coeff") and not value):
            continue
        if last.startswith("per_") and not hyper.get("use_per"):
            continue
        if last == "num_workers" and trainer != "A3C":
            continue
        if last == "noise":
            value = WORDS["noises"].get(value, value)
        words.append(f"{PREFIX}{key}={value}")
    network, more = read_network(contents.get("model", {}), place)
    return [*words, *more, f"--network={json.dumps(network)}"]


def read_network(model: Mapping[str, Any], place: str) -> tuple[dict[str, Any], list[str]]:
    """Return listed layers by stream, and words about the distribution."""
    streams: dict[str, Any] = {}
    if "actor" in model:
        for name in ("actor", "critic"):
            layers = dict(model[name]["params"]["model_cfg"]["fc"])
            layers.pop("log_sigma_stream", None)  # mean and deviation are outputs of one layer here
            streams[name] = read_layers(layers, f"{place}: model.{name}", ends=True)
        return streams, []
    settings = dict(model["params"]["model_cfg"])
    words = []
    for key in ("num_atoms", "num_quantiles"):
        if key in settings:
            words.append(f"atoms={settings[key]}")
    if "v_min" in settings:
        words.append(f"value_range={settings['v_min']},{settings['v_max']}")
    if "conv_features" in settings:
        features = read_layers(settings["conv_features"], f"{place}: model.conv_features")
        streams["features"] = features | {"flat": "Flatten"}
    elif "linear_features" in settings:
        streams["features"] = read_layers({"linear": settings["linear_features"]}, f"{place}: model.linear_features")
    for name in ("fc", "value", "advantage"):
        if name in settings:
            stream = "q" if name == "fc" else name
            streams[stream] = read_layers(settings[name], f"{place}: model.{name}", ends=True)
    return streams, words


def read_layers(contents: Mapping[str, Any], place: str, ends: bool = False) -> dict[str, Any]:
    """Return layers by name; the last one has as many outputs as required if `ends`."""
    found: dict[str, Any] = {}
    for name, params, kind in list_layers(contents, ""):
        for argument in params:
            if argument not in WORDS["layer_arguments"]:
                known = ", ".join(WORDS["layer_arguments"])
                raise UsageError(f"{place}.{name}: {argument} has no equivalent; remove the line, expected {known}")
        if kind not in WORDS["layers"]:
            raise UsageError(
                f"{place}.{name}: class {kind} has no equivalent; expected LinearLayer, Conv2DLayer or "
                "FactorizedNoisyLinearLayer, or a network= with module:Class"
            )
        layer, size = WORDS["layers"][kind]
        found[name] = {"layer": layer, size: params.get("output_size")}
        if kind == "Conv2DLayer":
            found[name] |= select_settings(params, ("kernel_size", "stride"))
        last = name
        activation = params.get("post_activation_fn", params.get("activation_fn"))
        if activation in WORDS["activations"]:
            found[f"{name}_activation"] = WORDS["activations"][activation]
        elif activation not in (None, "identity", "softmax"):
            raise UsageError(f"{place}.{name}: activation {activation!r}; expected relu, tanh, identity or softmax")
    if ends:
        found.pop(f"{last}_activation", None)  # the algorithm squashes actions
        found[last] = drop_settings(found[last], ("out_features", "outputs"))
    return found


def list_layers(contents: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the name, the parameters and the class of each layer, also of nested ones."""
    for name, value in contents.items():
        if "class" in value:
            yield f"{prefix}{name}", value.get("params", {}), str(value["class"]).rpartition(".")[2]
        else:
            yield from list_layers(value, f"{prefix}{name}_")
