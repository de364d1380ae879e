"""Convert RLcycle's experiment files to words of its command line and a ``network`` setting."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interreplay.errors import UsageError
from interreplay.experiments.flags import presets
from interreplay.experiments.flags.values import drop_settings, select_settings
from interreplay.runs.results.reader import flat

GROUPS = {"hyper_params": "hyper_params", "models": "model"}
"""Folders that an experiment file names under ``defaults``, and their keys."""
VALUES = {"DQNLoss": "DDQN", "CategoricalLoss": "C51", "QRLoss": "QRDQN"}
"""Algorithms by the loss of value networks; RLcycle's DQN loss is double DQN's."""
AGENTS = {"DDPGAgent": "DDPG", "SACAgent": "SAC", "A2CAgent": "A2C", "A3CAgent": "A3C"}
ACTIVATIONS = {"relu": "ReLU", "tanh": "Tanh"}
IGNORED = (
    *("agent", "learner", "loss", "critic_loss", "actor_loss", "action_selector", "worker_device"),
    *("is_atari", "is_discrete", "is_bullet", "frame_stack", "experiment_name", "log_wandb"),
    *("train_render", "test_render", "render_train", "render_test"),
    *("total_num_episodes", "test_interval", "max_update_steps", "per_beta_total_steps", "max_exploratory_steps"),
)
"""Settings that the algorithm or the environment determines, about output, or in episodes or updates."""
SIZES = (".output_size", ".kernel_size", ".stride", "activation_fn")
"""Ends of the keys of a layer that a command line may override."""
LAYER_ARGUMENTS = (
    *("input_size", "output_size", "kernel_size", "stride"),
    *("activation_fn", "post_activation_fn", "init_w"),
)
"""Arguments of RLcycle's layers. Sizes of inputs are inferred; ``init_w``, the bound of initial weights, is ignored."""
NOISES = {"OUNoise": "OrnsteinUhlenbeck", "GaussianNoise": "Gaussian"}


def read_experiment(name: str, words: Sequence[str]) -> tuple[list[str], bool] | None:
    """Return the words of an experiment file of RLcycle, and whether its algorithm is a variant of DQN.

    None if `name` is not such a file. Words of the command line about layers, such as
    ``configs.model.params.model_cfg.fc.input.params.output_size=256``, override the file.

    Raises:
        UsageError: A part of the file has no equivalent; the message names the line to change.
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
        if group not in GROUPS:
            raise UsageError(f"{place}: defaults: {group}; expected {' and '.join(GROUPS)}")
        part = path.parent / group / f"{file}.yaml"
        if not part.is_file():
            raise UsageError(f"{place}: defaults: {group}: {file}; there is no file {part}")
        contents |= presets.read_yaml(part, f"configuration {part}")
    for word in words:
        key, _, value = word.partition("=")
        if key.startswith("configs.model.") and key.endswith(SIZES):
            *parts, last = key.split(".")[1:]
            layer = contents
            for part in parts:
                layer = layer.get(part) or {}
            if last not in layer:
                raise UsageError(f"{key}: the experiment has no such layer; expected a name in its model file")
            layer[last] = value if last.endswith("_fn") else int(value)
    about = contents["experiment_info"]
    trainer = _trainer(about, place)
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
    for key, value in flat({"hyper_params": hyper, "experiment_info": about}, separator="."):
        last = key.rpartition(".")[2]
        if last in IGNORED or (last in ("weight_decay", "q_reg_coeff") and not value):
            continue
        if last == "noise":
            value = NOISES.get(value, value)
        if last.startswith("per_") and not hyper.get("use_per"):
            continue
        if last == "num_workers" and trainer != "A3C":
            continue
        words.append(f"configs.{key}={value}")
    network, more = _network(contents.get("model", {}), place)
    return [*words, *more, f"--network={json.dumps(network)}"], trainer in VALUES.values()


def _trainer(about: Mapping[str, Any], place: str) -> str:
    agent = str(about.get("agent", "")).rpartition(".")[2]
    loss = str(about.get("loss", "")).rpartition(".")[2]
    found = VALUES.get(loss) if agent == "DQNBaseAgent" else AGENTS.get(agent)
    if found is None:
        raise UsageError(
            f"{place}: experiment_info.agent is {about.get('agent')!r} with the loss {about.get('loss')!r}; expected "
            f"an agent of RLcycle, or trainer=my_module:MyAlgorithm for one of your own"
        )
    return found


def _network(model: Mapping[str, Any], place: str) -> tuple[dict[str, Any], list[str]]:
    """Return listed layers by stream, and words about the distribution."""
    if "actor" in model:
        streams = {}
        for name in ("actor", "critic"):
            layers = dict(model[name]["params"]["model_cfg"]["fc"])
            layers.pop("log_sigma_stream", None)  # mean and deviation are outputs of one layer here
            streams[name] = _layers(layers, f"{place}: model.{name}", ends=True)
        return streams, []
    settings = dict(model["params"]["model_cfg"])
    words = []
    for key, flag in (("num_atoms", "atoms"), ("num_quantiles", "atoms")):
        if key in settings:
            words.append(f"{flag}={settings[key]}")
    if "v_min" in settings:
        words.append(f"value_range={settings['v_min']},{settings['v_max']}")
    features: dict[str, Any] = {}
    if "conv_features" in settings:
        features = _layers(settings["conv_features"], f"{place}: model.conv_features") | {"flat": "Flatten"}
    elif "linear_features" in settings:
        features = _layers({"linear": settings["linear_features"]}, f"{place}: model.linear_features")
    streams = {"features": features} if features else {}
    for name in ("fc", "value", "advantage"):
        if name in settings:
            stream = "q" if name == "fc" else name
            streams[stream] = _layers(settings[name], f"{place}: model.{name}", ends=True)
    return streams, words


def _layers(contents: Mapping[str, Any], place: str, ends: bool = False) -> dict[str, Any]:
    """Return layers by name; the last one has as many outputs as required if `ends`."""
    found: dict[str, Any] = {}
    for name, params, kind in _each(contents, ""):
        for argument in params:
            if argument not in LAYER_ARGUMENTS:
                known = ", ".join(LAYER_ARGUMENTS)
                raise UsageError(f"{place}.{name}: {argument} has no equivalent; remove the line, expected {known}")
        size = params.get("output_size")
        activation = params.get("post_activation_fn", params.get("activation_fn"))
        if kind == "Conv2DLayer":
            found[name] = {"layer": "Conv2d", "out_channels": size}
            found[name] |= select_settings(params, ("kernel_size", "stride"))
        elif kind == "LinearLayer":
            found[name] = {"layer": "Linear", "out_features": size}
        elif kind == "FactorizedNoisyLinearLayer":
            found[name] = {"layer": "NoisyLinear", "outputs": size}
        else:
            raise UsageError(
                f"{place}.{name}: class {kind} has no equivalent; expected LinearLayer, Conv2DLayer or "
                "FactorizedNoisyLinearLayer, or a network= with module:Class"
            )
        last = name
        if activation in ACTIVATIONS:
            found[f"{name}_activation"] = ACTIVATIONS[activation]
        elif activation not in (None, "identity", "softmax"):
            raise UsageError(f"{place}.{name}: activation {activation!r}; expected relu, tanh, identity or softmax")
    if ends:
        found.pop(f"{last}_activation", None)  # the algorithm squashes actions
        found[last] = drop_settings(found[last], ("out_features", "outputs"))
    return found


def _each(contents: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    """Yield the name, the parameters and the class of each layer, also of nested ones."""
    for name, value in contents.items():
        if "class" in value:
            yield f"{prefix}{name}", value.get("params", {}), str(value["class"]).rpartition(".")[2]
        else:
            yield from _each(value, f"{prefix}{name}_")
