"""Create the environments of a configuration, and reject those that our algorithms do not support."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from ray.rllib.env.env_context import EnvContext
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import ENV_CREATOR, _global_registry

from interreplay.environments import registration
from interreplay.environments.goal_functions import GoalFn
from interreplay.environments.own_modules import check_arguments
from interreplay.environments.registration import inner_env_name
from interreplay.errors import EnvironmentFailure, copyable, describe_error

ONE_AGENT = "these algorithms train one policy for one agent; RLlib's PPO trains several"


def get_creator(env: Any) -> Callable[[Mapping[str, Any]], Any] | None:
    """Return a function that creates an environment from its `env_config`; None for an id of Gymnasium.

    Args:
        env: A class, a function of RLlib's ``env_config``, a name registered with Tune, or an id.
    """
    if isinstance(env, str):
        if not _global_registry.contains(ENV_CREATOR, env):
            return None
        registered = _global_registry.get(ENV_CREATOR, env)
        return lambda context: check_agents(registered(context))
    if isinstance(env, type):
        return lambda context: check_agents(create_instance(env, context))
    if callable(env):
        return lambda context: check_agents(env(context))
    return None


def check_agents(env: Any) -> Any:
    """Return an environment or a class of environments, unless it has several agents."""
    kind = env if isinstance(env, type) else type(env)
    if issubclass(kind, MultiAgentEnv):
        raise ValueError(f"the environment {kind.__name__} is a MultiAgentEnv: {ONE_AGENT}")
    return env


def create_instance(kind: type, context: Mapping[str, Any]) -> Any:
    """Return an environment of a class, created according to the signature of its constructor.

    The entries of ``env_config`` are passed as keyword arguments if the constructor has all of them by name. Otherwise
    the class receives one mapping, which is RLlib's convention.

    Raises:
        UsageError: The constructor has no such keywords and takes no mapping.
    """
    by_name = set()
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            by_name.add(parameter.name)
    if not (context and set(context) <= by_name):
        if _takes_mapping(kind):
            return kind(context)
        check_arguments(f"env_config: {kind.__name__}", kind, context)
    return kind(**context)


def _takes_mapping(kind: type) -> bool:
    """Return whether the first argument of a constructor may be a mapping, judged by its kind, name and default.

    ``*args`` count as the arguments of the next base class that has any.
    """
    parameters = list(inspect.signature(kind).parameters.values())
    for base in kind.__mro__[1:]:
        if parameters and parameters[0].kind is inspect.Parameter.VAR_POSITIONAL:
            parameters = list(inspect.signature(base).parameters.values()) or parameters
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        return False
    if parameters[0].name == "render_mode":
        return False
    default = parameters[0].default
    return default is inspect.Parameter.empty or default is None or isinstance(default, Mapping)


def make_one(config: Any) -> gym.Env:
    """Return one environment of a configuration, created as RLlib's runners would create it."""
    context = EnvContext(config.env_config, worker_index=0)
    creator = get_creator(config.env)
    if creator is not None:
        return creator(context)
    registration.register(config.env)
    return gym.make(config.env, **config.env_config)


def goal_functions(config: Any, vector: Any) -> tuple[GoalFn, GoalFn | None]:
    """Return ``compute_reward`` and ``compute_terminated`` of a goal-conditioned environment.

    The outermost wrapper that defines a function replaces the environment's. Errors are reported as
    `EnvironmentFailure`.

    Args:
        config: Configuration of the algorithm.
        vector: The vector environment of this process, or None; if it gives no access to its environments, one is made.

    Raises:
        ValueError: The environment has no ``compute_reward``.
    """
    envs = getattr(getattr(vector, "unwrapped", None), "envs", None)
    env = envs[0] if envs else make_one(config)
    found: dict[str, GoalFn] = {}
    for name in ("compute_reward", "compute_terminated"):
        function = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
        if function is not None:
            found[name] = _report_errors(inner_env_name(config.env, config.env_config), function)
    if "compute_reward" not in found:
        raise ValueError(f"hindsight needs an environment with compute_reward(achieved, desired, info); got {env}")
    return found["compute_reward"], found.get("compute_terminated")


def _report_errors(name: str, fn: GoalFn) -> GoalFn:
    """Return a function of the environment `name` that reports its errors as failures of the environment."""
    of_goals = getattr(fn, "__name__", "a function of goals")

    def call(*arguments: Any) -> Any:
        try:
            return fn(*arguments)
        except Exception as error:
            raise EnvironmentFailure(name, f"raised {describe_error(error)} in {of_goals}") from copyable(error)

    call.__name__ = of_goals
    return call
