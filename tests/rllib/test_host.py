"""RLlib's interfaces that we override or call, and its quick start: after an upgrade of Ray, this file fails first."""

import contextlib
import dis
import inspect
import io
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import ray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.connectors import connector_v2
from ray.rllib.connectors.module_to_env import NormalizeAndClipActions
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.env import env_runner_group
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.utils.checkpoints import Checkpointable

import interreplay.rllib
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.rllib import host
from interreplay.rllib.host import quick_start

ROOT = Path(__file__).resolve().parents[2]
SIGNATURES = [
    (SingleAgentEnvRunner.sample, "self num_timesteps num_episodes explore random_actions force_reset"),
    (SingleAgentEnvRunner.make_env, "self"),
    (SingleAgentEnvRunner.get_metrics, "self"),
    (SingleAgentEnvRunner.get_state, "self components not_components kwargs"),
    (SingleAgentEnvRunner.set_state, "self state"),
    (SingleAgentEnvRunner._new_episode, "self env_index episodes"),
    (SingleAgentEnvRunner._log_episode_metrics, "self length ret sec"),
    (SingleAgentEnvRunner._increase_sampled_metrics, "self num_steps num_episodes_completed"),
    (EnvRunner._try_env_reset, "self seed options"),
    (EnvRunner._try_env_step, "self actions"),
    (Learner.get_state, "self components not_components kwargs"),
    (Learner.set_state, "self state"),
    (Learner.build, "self"),
    (Learner.configure_optimizers_for_module, "self module_id config"),
    (TorchLearner.configure_optimizers_for_module, "self module_id config"),
    (LearnerGroup.get_state, "self components not_components kwargs"),
    (Algorithm.setup, "self config"),
    (Algorithm._get_env_id_and_creator, "env_specifier config"),
    (Algorithm.training_step, "self"),
    (Algorithm._create_local_replay_buffer_if_necessary, "self config"),
    (Algorithm._run_one_evaluation, "self parallel_train_future"),
    (Algorithm._evaluate_on_local_env_runner, "self env_runner"),
    (Algorithm._compile_iteration_results, "self train_results eval_results"),
    (Algorithm.get_state, "self components not_components kwargs"),
    (Algorithm.set_state, "self state"),
    (Algorithm.restore_from_path, "self path args kwargs"),
    (Checkpointable.save_to_path, "self path state filesystem use_msgpack"),
    (Checkpointable.restore_from_path, "self path component filesystem kwargs"),
    (Checkpointable._check_component, "self name components not_components"),
    (InferenceOnlyAPI.get_non_inference_attributes, "self"),
    (AlgorithmConfig.get_state, "self"),
]
"""Methods that we override or call, some of them private, and their parameters."""


def test_methods_that_we_override_or_call_have_the_expected_parameters():
    for method, parameters in SIGNATURES:
        found = list(inspect.signature(method).parameters)
        # Ray adds this argument to the methods of a class that was used as an actor.
        assert [name for name in found if name != "_ray_trace_ctx"] == parameters.split(), method


def test_ray_can_make_actors_of_our_algorithms():
    """Ray disassembles a class and, at least two levels deep, all classes in its attributes."""
    for trainer in ALGORITHMS:
        dis.dis(getattr(interreplay.rllib, trainer), file=io.StringIO(), depth=2)


@pytest.mark.parametrize("quick", [True, False])
def test_connectors_take_their_arguments_from_the_frame_that_made_them(quick, monkeypatch):
    """They use no other result of ``inspect.stack``, which `quick_start` therefore omits."""
    monkeypatch.setattr(connector_v2, "inspect", inspect)
    with quick_start() if quick else contextlib.nullcontext():
        made = NormalizeAndClipActions(normalize_actions=False, clip_actions=True)
        assert isinstance(connector_v2.inspect, SimpleNamespace) == quick
    assert made.get_ctor_args_and_kwargs()[1] | made._ctor_kwargs == made._ctor_kwargs
    assert (made._ctor_kwargs["normalize_actions"], made._ctor_kwargs["clip_actions"]) == (False, True)
    assert connector_v2.inspect is inspect


def test_threads_that_start_algorithms_without_ray_restore_what_they_replaced(monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(host, "needs_ray", lambda config: False)
    first, second = host.without_ray(None), host.without_ray(None)
    for context in (first, second):
        context.__enter__()
    first.__exit__(None, None, None)
    assert env_runner_group.ray.put("a configuration") is None, "the second one still hides Ray"
    second.__exit__(None, None, None)
    assert env_runner_group.ray is ray


TRAINING = """
import gc
import sys
import tempfile

collections = []
gc.callbacks.append(lambda phase, info: collections.append(phase))
import interreplay.rllib
assert gc.isenabled() and len(collections) < 200

import ray
import torch
from ray.rllib.connectors import connector_v2
from interreplay.rllib import SACConfig

config = SACConfig().environment("Pendulum-v1").training(learning_starts=10, steps_per_iteration=20).debugging(seed=0)
config.evaluation(evaluation_interval=1, evaluation_duration=1)
algo = config.build_algo()
result = algo.train()
assert result["learners"]["default_policy"]["num_updates_lifetime"] > 0 and "evaluation" in result
with tempfile.TemporaryDirectory() as folder:
    algo.save_to_path(folder)
    algo.restore_from_path(folder)
algo.train()
algo.stop()
assert not ray.is_initialized()
assert torch.are_deterministic_algorithms_enabled() and not torch.utils.deterministic.fill_uninitialized_memory
assert torch.use_deterministic_algorithms.__module__ == "torch"
assert connector_v2.inspect.__name__ == "inspect"
print([name for name in ("torch._dynamo", "torch._inductor", "scipy.optimize") if name in sys.modules])
"""


@pytest.mark.slow
def test_training_starts_no_ray_imports_no_compiler_and_restores_what_it_replaced():
    done = subprocess.run([sys.executable, "-c", TRAINING], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
