"""Environments of a configuration: classes with keyword arguments, and environments that cannot be used here."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.errors import accepted_names

ONE_AGENT = "these algorithms train one policy for one agent; RLlib's PPO trains several"


def creator_of(env: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return what makes an environment of its `env_config`; None for an id of Gymnasium's.

    Args:
        env: A class, a function of RLlib's ``env_config``, a name registered with Tune, or an id.
    """
    if isinstance(env, str):
        if not _global_registry.contains(ENV_CREATOR, env):
            return None
        registered = _global_registry.get(ENV_CREATOR, env)
        return lambda context: check_agents(registered(context))
    if isinstance(env, type):
        return lambda context: check_agents(made_of_class(env, context))
    return (lambda context: check_agents(env(context))) if callable(env) else None


def check_agents(env: Any) -> Any:
    """Return an environment or a class of environments, unless it is one of several agents.

    Raises:
        ValueError: It has several agents.
    """
    kind = env if isinstance(env, type) else type(env)
    if issubclass(kind, MultiAgentEnv):
        raise ValueError(f"the environment {kind.__name__} is a MultiAgentEnv: {ONE_AGENT}")
    return env


def made_of_class(kind: type, context: Mapping[str, Any]) -> Any:
    """Return an environment of a class, made as its constructor's signature has it.

    The entries of ``env_config`` are keyword arguments where the constructor has them by name. Else the class receives
    one mapping, as RLlib's convention has it.

    Raises:
        ValueError: The constructor has no such keywords and takes no mapping.
    """
    parameters = list(inspect.signature(kind).parameters.values())
    by_name = [one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    any_keyword = any(one.kind is one.VAR_KEYWORD for one in parameters)
    if context and all(name in by_name for name in context):
        return kind(**context)
    if _takes_mapping(parameters):
        return kind(context)
    for name in context:
        if name not in by_name and not any_keyword:
            raise ValueError(
                f"env_config: {kind.__name__} takes no argument {name!r}; {accepted_names(name, by_name)}; "
                "or a constructor of one mapping, RLlib's env_config"
            )
    return kind(**context)


def _takes_mapping(parameters: list[inspect.Parameter]) -> bool:
    """Return whether the first argument of a constructor may be a mapping: one without a default of another kind."""
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        return False
    default = parameters[0].default
    return default is inspect.Parameter.empty or default is None or isinstance(default, Mapping)
