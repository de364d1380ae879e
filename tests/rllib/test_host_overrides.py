"""The methods and attributes of RLlib that our runner, learner and algorithm override, call or read.

The fast path runs inside RLlib's classes, so some of these are private. An upgrade of Ray that renames one of them or
changes its arguments fails here before it fails in training.
"""

import dis
import inspect
import io
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.algorithm import Algorithm, TrainIterCtx
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig, NotProvided
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.apis import InferenceOnlyAPI
from ray.rllib.env.env_runner import ENV_STEP_FAILURE, EnvRunner
from ray.rllib.env.env_runner_group import EnvRunnerGroup
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics import ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME

import interreplay.rllib
from interreplay.learning.algorithms_table import ALGORITHMS

SIGNATURES = [
    (SingleAgentEnvRunner.sample, "self num_timesteps num_episodes explore random_actions force_reset"),
    (SingleAgentEnvRunner.make_module, "self"),
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
    (Algorithm._compile_iteration_results, "self train_results eval_results"),
    (Algorithm.get_checkpointable_components, "self"),
    (Algorithm.get_state, "self components not_components kwargs"),
    (Algorithm.set_state, "self state"),
    (Algorithm.restore_from_path, "self path args kwargs"),
    (Checkpointable.save_to_path, "self path state filesystem use_msgpack"),
    (Checkpointable.restore_from_path, "self path component filesystem kwargs"),
    (Checkpointable._check_component, "self name components not_components"),
    (InferenceOnlyAPI.get_non_inference_attributes, "self"),
    (AlgorithmConfig.get_state, "self"),
    (RLlibCallback.on_episode_step, None),
    (RLlibCallback.on_episode_created, None),
]


@pytest.mark.parametrize("method, parameters", SIGNATURES, ids=lambda m: getattr(m, "__qualname__", ""))
def test_methods_that_we_override_or_call_have_the_expected_parameters(method, parameters):
    if parameters is not None:
        found = list(inspect.signature(method).parameters)
        # Ray adds this argument to the methods of a class that was used as an actor.
        assert [name for name in found if name != "_ray_trace_ctx"] == parameters.split()


def test_the_callback_hook_of_the_runner_takes_event_index_and_episodes():
    assert list(inspect.signature(SingleAgentEnvRunner._make_on_episode_callback).parameters)[1:4] == [
        "which",
        "idx",
        "episodes",
    ]


def test_why_weights_are_sent_with_the_request_for_rows():
    assert "local_env_runner" in inspect.signature(EnvRunnerGroup.foreach_env_runner).parameters
    assert "foreach_env_runner_async_fetch_ready" in inspect.getsource(EnvRunnerGroup.sync_weights), (
        "it drops weights while two earlier ones are on their way"
    )


def test_optimizers_are_registered_by_keyword():
    assert {"module_id", "optimizer_name", "optimizer", "params"} <= set(
        inspect.signature(Learner.register_optimizer).parameters
    )


def test_model_settings_are_completed_by_a_property_of_the_configuration():
    assert isinstance(AlgorithmConfig._model_config_auto_includes, property)
    assert NotProvided is not None and not isinstance(NotProvided, type)


def test_a_configurations_state_leaves_out_minus_one():
    config = AlgorithmConfig()
    config.some_setting = -1.0
    assert "some_setting" not in config.get_state()


def test_a_runner_has_the_attributes_that_ours_reads():
    config = (
        PPOConfig()
        .environment("Pendulum-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
        .debugging(seed=4)
    )
    runner = SingleAgentEnvRunner(config=config, worker_index=0)
    for name in ("_device", "_callbacks", "_needs_initial_reset", "_ongoing_episodes", "metrics"):
        assert hasattr(runner, name), name
    assert runner._seed is not None and runner.num_env_steps_sampled_lifetime == 0 and runner.num_envs == 2
    assert runner.env.single_action_space.shape == (1,) and len(runner.env.unwrapped.envs) == 2
    observations, infos = runner._try_env_reset(seed=3)
    assert np.shape(observations) == (2, 3) and isinstance(infos, list)
    results = runner._try_env_step(np.zeros((2, 1), np.float32))
    assert len(results) == 5 and isinstance(results[4], list) and isinstance(ENV_STEP_FAILURE, str)


def test_an_environment_that_is_over_resets_at_the_next_step_and_ignores_the_action():
    env = gym.make_vec("Pendulum-v1", num_envs=1, vectorization_mode="sync", max_episode_steps=3)
    assert env.metadata["autoreset_mode"] == gym.vector.AutoresetMode.NEXT_STEP
    env.reset(seed=0)
    steps = [env.step(np.zeros((1, 1), np.float32)) for _ in range(4)]
    assert [bool(truncated[0]) for *_, truncated, _ in steps] == [False, False, True, False]
    assert steps[3][1][0] == 0.0, "the step that resets gives no reward"
    env.close()


def test_a_cut_chunk_carries_its_lookback_apart_from_its_own_steps():
    episode = SingleAgentEpisode(observations=[0.0], infos=[{}], len_lookback_buffer=0)
    for t in range(1, 4):
        episode.add_env_step(float(t), t, float(t), {})
    chunk = episode.cut(len_lookback_buffer=2)
    assert len(chunk) == 0 and chunk.id_ == episode.id_ and chunk.t_started == 3
    chunk.add_env_step(4.0, 4, 4.0, {})
    assert (list(chunk.get_observations(slice(0, 2))), list(chunk.get_actions(slice(0, 1)))) == ([3.0, 4.0], [4])


def context(steps: list[int], **settings) -> TrainIterCtx:
    """Return the loop control of one training iteration of an algorithm with `steps[0]` sampled steps."""

    def peek(key, default=0):
        return steps[0] if key == (ENV_RUNNER_RESULTS, NUM_ENV_STEPS_SAMPLED_LIFETIME) else default

    limits = dict(min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=0, min_train_timesteps_per_iteration=0)
    config = SimpleNamespace(
        enable_env_runner_and_connector_v2=True, count_steps_by="env_steps",
        num_consecutive_env_runner_failures_tolerance=1, **limits | settings,
    )  # fmt: skip
    return TrainIterCtx(SimpleNamespace(config=config, metrics=SimpleNamespace(peek=peek)))


@pytest.mark.parametrize("least, calls", [(0, 1), (25, 3)])
def test_training_step_is_called_until_enough_steps_were_sampled(least, calls):
    steps, made = [100], 0
    with context(steps, min_sample_timesteps_per_iteration=least) as loop:
        while not loop.should_stop(made > 0):
            steps[0], made = steps[0] + 10, made + 1
    assert made == calls


def test_a_training_step_of_the_new_stack_returns_none():
    source = inspect.getsource(Algorithm._run_one_training_iteration)
    assert "while not train_iter_ctx.should_stop(has_run_once)" in source
    assert "training_step_return_value is not None" in source


def test_a_learner_takes_a_module_only_from_a_later_state_than_its_own():
    source = inspect.getsource(Learner.set_state)
    assert "weights_seq_no == 0 or self._weights_seq_no < weights_seq_no" in source


def test_a_local_learner_is_reached_through_its_group():
    assert "self._learner" in inspect.getsource(LearnerGroup.__init__)


@pytest.mark.parametrize("trainer", ALGORITHMS)
def test_ray_can_make_actors_of_our_algorithms(trainer):
    """Ray disassembles a class and, at least two levels deep, all classes in its attributes."""
    made = getattr(interreplay.rllib, ALGORITHMS[trainer].config)()
    assert made.algo_class is getattr(interreplay.rllib, trainer)
    dis.dis(made.algo_class, file=io.StringIO(), depth=2)
