"""RLlib's names for settings and replay buffers, and our counterparts.

`training`, configurations from dictionaries, `rllib train --config` and docs/coming-from.md all use the table `NAMES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.models.catalog import MODEL_DEFAULTS

from interreplay.argument_checks import check_number
from interreplay.errors import accepted_names, did_you_mean
from interreplay.rllib.host import choices, is_search_space, with_choices

Lookup = Callable[[str], Any]
"""Returns the current or new value of one of our settings, None if there is no such setting."""


@dataclass(frozen=True)
class Counterpart:
    """Our counterpart of one of RLlib's names.

    Attributes:
        text: Description for the documentation and for messages.
        translate: Takes a value and a `Lookup`, and returns our settings by name. Raises ValueError, with what is
            accepted, for a value without a counterpart. None if no value has one.
        setting: Our name for the same setting, None if values have to be translated.
    """

    text: str
    translate: Callable[[Any, Lookup], dict[str, Any]] | None = None
    setting: str | None = None


def _renamed(name: str) -> Counterpart:
    return Counterpart(f"becomes `{name}`", setting=name)


def _only(default: Any, text: str) -> Counterpart:
    """Return the counterpart of a name that has no effect and accepts only its default."""

    def translate(value: Any, get: Lookup) -> dict[str, Any]:
        if value != default:
            raise ValueError(f"expected {default!r}")
        return {}

    return Counterpart(text, translate)


def _updates_per_step(value: Any, get: Lookup) -> dict[str, Any]:
    if value is None:
        return {}
    check_number("training_intensity", value, 0)
    batch = get("_train_batch_size_per_learner") or get("train_batch_size")
    return {"updates_per_step": value / batch}


def _distribution(value: Any, get: Lookup) -> dict[str, Any]:
    if value == 1:
        return {"distribution": "mean"}
    return {"distribution": "categorical", "atoms": value}


def _epsilon(value: Any, get: Lookup) -> dict[str, Any]:
    if isinstance(value, Real) and not isinstance(value, bool):
        return {"initial_epsilon": value, "final_epsilon": value}
    points = [tuple(point) for point in value] if isinstance(value, list | tuple) else []
    if len(points) != 2 or any(len(point) != 2 for point in points) or points[0][0] != 0:
        raise ValueError("expected a number, or two points such as [(0, 1.0), (10000, 0.02)]")
    (_, initial), (steps, final) = points
    return {"initial_epsilon": initial, "final_epsilon": final, "epsilon_steps": steps}


def _huber_delta(value: Any, get: Lookup) -> dict[str, Any]:
    if value not in ("huber", "mse"):
        raise ValueError("expected 'huber' or 'mse'")
    return {"huber_delta": 1.0 if value == "huber" else None}


def _target_update_period(value: Any, get: Lookup) -> dict[str, Any]:
    updates = (value or 0) * (get("updates_per_step") or 1)
    if get("target_update_period") is not None:
        return {"target_update_period": max(1, round(updates))}
    if updates > 1:
        raise ValueError("tau moves the targets at every update; leave it out, or use a smaller tau")
    return {}


def _model(value: Any, get: Lookup) -> dict[str, Any]:
    changed = dict(value)
    if changed.keys() == MODEL_DEFAULTS.keys():  # a whole configuration as a dictionary
        changed = {key: item for key, item in changed.items() if item != MODEL_DEFAULTS[key]}
    if not changed:
        return {}
    settings = []
    if "fcnet_hiddens" in changed:
        settings.append(f"hiddens={tuple(changed['fcnet_hiddens'])}")
    if "fcnet_activation" in changed:
        settings.append(f"activation={str(changed['fcnet_activation']).lower()!r}")
    others = [key for key in changed if key not in ("fcnet_hiddens", "fcnet_activation")]
    parts = []
    if settings:
        parts.append(f"use {', '.join(settings)}")
    if others:
        parts.append(f"there is no counterpart of {', '.join(others)}")
    raise ValueError("; ".join(parts))


_PER = 'use `replay("PER", alpha=.6, beta=.4, eps=1e-6)`'
NAMES: dict[str, Counterpart] = {
    "training_intensity": Counterpart(
        "becomes `updates_per_step`: the intensity, rows learned per env step, divided by the batch size",
        _updates_per_step,
    ),
    "target_network_update_freq": Counterpart(
        "becomes `target_update_period` of DQN: env steps times `updates_per_step`; elsewhere `tau` moves the targets "
        "at every update",
        _target_update_period,
    ),
    "double_q": _renamed("double"),
    "num_atoms": Counterpart('becomes `distribution="categorical"` with `atoms`, or `"mean"` for 1', _distribution),
    "v_min": Counterpart(
        "becomes the first number of `value_range`", lambda value, get: {"value_range": (value, get("value_range")[1])}
    ),
    "v_max": Counterpart(
        "becomes the second number of `value_range`", lambda value, get: {"value_range": (get("value_range")[0], value)}
    ),
    "epsilon": Counterpart("becomes `initial_epsilon`, `final_epsilon` and `epsilon_steps`", _epsilon),
    "adam_epsilon": _renamed("optimizer_eps"),
    "td_error_loss_fn": Counterpart('becomes `huber_delta`: 1 for `"huber"`, `None` for `"mse"`', _huber_delta),
    "lr_schedule": Counterpart("becomes `lr`", lambda value, get: {} if value is None else {"lr": value}),
    "twin_q": Counterpart(
        "becomes `n_critics`: 2 if true, else 1", lambda value, get: {"n_critics": 2 if value else 1}
    ),
    "top_quantiles_to_drop_per_net": _renamed("drop_per_critic"),
    "target_noise": _renamed("target_policy_noise"),
    "store_buffer_in_checkpoints": _only(True, "the buffer is always in the checkpoint"),
    "burn_in_len": _only(0, "there are no recurrent networks with replay; leave it out"),
    "before_learn_on_batch": _only(None, "batches are not changed before an update; use a callback or an own `Update`"),
    "categorical_distribution_temperature": _only(1.0, "the distribution has no temperature; leave it out"),
    "_deterministic_loss": _only(False, "the policy's loss has no deterministic form; leave it out"),
    "_use_beta_distribution": _only(False, "the policy is a squashed Gaussian; leave it out"),
    "model": Counterpart("use `hiddens=(256, 256)` and `activation`", _model),
    "q_model_config": Counterpart("use `hiddens=(256, 256)`, for policy and critics alike"),
    "policy_model_config": Counterpart("use `hiddens=(256, 256)`, for policy and critics alike"),
    "actor_hiddens": Counterpart("use `hiddens=(256, 256)`, for policy and critics alike"),
    "critic_hiddens": Counterpart(
        "use `hiddens=(256, 256)`, for policy and critics alike; CrossQ has `critic_hiddens`"
    ),
    "optimization_config": Counterpart("use `actor_lr`, `critic_lr` and `alpha_lr`"),
    "categorical_dqn": Counterpart('use `distribution="categorical"`'),
    "buffer_size": Counterpart("use `replay(..., capacity=...)`"),
    "prioritized_replay": Counterpart(_PER),
    "prioritized_replay_alpha": Counterpart(_PER),
    "prioritized_replay_beta": Counterpart(_PER),
    "prioritized_replay_eps": Counterpart(_PER),
    "replay_batch_size": Counterpart("use `train_batch_size`"),
    "timesteps_per_iteration": Counterpart("use `steps_per_iteration`"),
    "use_huber": Counterpart("use `huber_delta=1`"),
    "huber_threshold": Counterpart("use `huber_delta`"),
    "l2_reg": Counterpart("use `actor_l2` and `critic_l2`"),
    "smooth_target_policy": Counterpart("use `target_policy_noise`; 0 leaves the target policy as it is"),
}
"""Names in RLlib's `training` of SAC, TQC and DQN, and of its former TD3 and DDPG, in order of translation."""

BUFFERS = {"EpisodeReplayBuffer": "Uniform", "PrioritizedEpisodeReplayBuffer": "PER"}
"""RLlib's replay buffers, and the replay methods with the same arguments."""
OLD_BUFFERS = {
    "MultiAgentEpisodeReplayBuffer": "Uniform",
    "MultiAgentPrioritizedEpisodeReplayBuffer": "PER",
    "MultiAgentReplayBuffer": "Uniform",
    "MultiAgentPrioritizedReplayBuffer": "PER",
    "PrioritizedReplayBuffer": "PER",
}
"""RLlib's replay buffers for several agents or its old stack, and the replay methods to use instead."""


def understood(
    config: AlgorithmConfig, given: Mapping[str, Any], known: list[str], refused: Mapping[str, str]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Translate settings by RLlib's names.

    Args:
        config: A configuration of ours.
        given: Settings by RLlib's names or by ours.
        known: Names of the settings of `config`.
        refused: RLlib's settings that `config` would ignore, and what to use instead.

    Returns:
        Settings by our names, names that are unknown, and a line for each setting that is rejected.
    """
    own: dict[str, Any] = config.own_settings()
    given = {name: value for name, value in given.items() if value is not NotProvided}
    settings = {name: value for name, value in given.items() if name in own or name not in NAMES}
    rejected = []

    def get(name: str) -> Any:
        return settings.get(name, getattr(config, name, None))

    for name, counterpart in NAMES.items():
        if name not in given or name in own:
            continue
        try:
            made = _translated(counterpart, given[name], get)
            if lacking := [key for key in made if key not in known]:
                title = type(config).__name__.removesuffix("Config")
                raise ValueError(f"{_plain(counterpart)}; {title} has no {' and no '.join(lacking)}")
            for key in made.keys() & given.keys():
                if given[key] != made[key]:
                    raise ValueError(f"{key} is {given[key]!r}, too; set one of them")
            settings.update(made)
        except (TypeError, ValueError) as error:
            rejected.append(f"{name}={given[name]!r} ({str(error) or _plain(counterpart)})")
    plain = AlgorithmConfig()
    for name, instead in refused.items():
        if name in settings and name not in own and settings[name] != getattr(plain, name):
            rejected.append(f"{name}={settings.pop(name)!r} ({instead})")
    unknown = [name for name in settings if name not in known]
    return settings, unknown, rejected


def _plain(counterpart: Counterpart) -> str:
    return counterpart.text.replace("`", "")


def _translated(counterpart: Counterpart, value: Any, get: Lookup) -> dict[str, Any]:
    if counterpart.setting is not None:
        return {counterpart.setting: value}
    if counterpart.translate is None:
        raise ValueError
    translate = counterpart.translate
    if not is_search_space(value):
        return translate(value, get)
    listed = [translate(choice, get) for choice in choices(value)]
    names = {name for made in listed for name in made}
    if len(names) != 1 or any(len(made) != 1 for made in listed):
        raise ValueError(f"{_plain(counterpart)}; give the search space to these settings")
    (name,) = names
    return {name: with_choices(value, lambda choice: translate(choice, get)[name])}


def explained(title: str, unknown: list[str], rejected: list[str], known: list[str], list_known: bool = True) -> str:
    """Return one message for all settings that a configuration does not accept.

    Args:
        title: Name of the configuration, the beginning of the message.
        unknown: Unknown names.
        rejected: Lines about other settings.
        known: Accepted names.
        list_known: Whether the message lists the accepted names.
    """
    parts = []
    if rejected:
        parts.append(f"{title} rejects {', '.join(rejected)}")
    if len(unknown) == 1:
        hint = accepted_names(unknown[0], known) if list_known else did_you_mean(unknown[0], known)
        parts.append(f"{title} has no setting {unknown[0]!r}; {hint or 'see the documentation of its configuration'}")
    elif unknown:
        named = []
        for name in unknown:
            hint = did_you_mean(name, known)
            named.append(f"{name!r} ({hint})" if hint else repr(name))
        listed = f"; accepted: {', '.join(known)}" if list_known else ""
        parts.append(f"{title} has no settings {', '.join(named)}{listed}")
    return "; ".join(parts)


def replay_method(kind: Any) -> Any:
    """Return the replay method for one of RLlib's replay buffers; other values are returned unchanged.

    Args:
        kind: A name, a dotted name, a class, a factory or a search space.

    Raises:
        ValueError: RLlib's buffer has no counterpart; names what to use instead.
    """
    name = kind
    if isinstance(kind, type) and kind.__module__.startswith("ray.rllib."):
        name = kind.__name__
    elif isinstance(kind, str) and kind.startswith("ray.rllib."):
        name = kind.rpartition(".")[2]
    if isinstance(name, str) and name in OLD_BUFFERS:
        raise ValueError(f"the replay buffer {name} is for several agents or the old stack; use {OLD_BUFFERS[name]!r}")
    return BUFFERS.get(name, kind) if isinstance(name, str) else kind
