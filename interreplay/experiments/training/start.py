"""Start a run: from scratch, from one of its checkpoints, or from a checkpoint of another run (a fork)."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from operator import methodcaller
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from interreplay.buffer import ReplayBuffer
from interreplay.environments.own_modules import import_user_class
from interreplay.errors import CheckpointError, UsageError, describe_error
from interreplay.experience import Mix, ModelBased, Offline
from interreplay.experience.offline_data.saved_rows import open_saved
from interreplay.experience.store import ExperienceStore
from interreplay.experience.store.reader import find_store
from interreplay.experiments.flags.replay_flags import describe_source
from interreplay.experiments.flags.run_flags import environment_config
from interreplay.experiments.flags.values import select_settings
from interreplay.learning.algorithms_table import ALGORITHMS
from interreplay.learning.settings import LoopSettings, ReplaySettings
from interreplay.rllib.algorithms.off_policy import OffPolicyAlgorithm
from interreplay.rllib.checkpoints import ALGORITHM, BUFFER
from interreplay.runs import state_files
from interreplay.runs.resume import restore
from interreplay.runs.run_folder import find_checkpoints, read_settings

OF_METHOD = (
    *("buffer", "buffer_args", "prioritized", "credit_both", "buffer_size", "n_step"),
    *("offline_data", "offline_where", "relabel"),
)
"""Settings that must be equal for a fork to keep the state of the replay method."""
STREAM = 0xF04C
"""Part of the key of a fork's random streams."""


def start(
    settings: SimpleNamespace,
    checkpoints: Sequence[Path],
    notify: Callable[[str], object],
    source: Any = None,
    recovers: bool = False,
) -> tuple[Any, Path | None]:
    """Build the algorithm of a run, and restore the first usable checkpoint, or fork ``settings.fork_from``.

    A new run has no checkpoints. `source` is as for `build`; `recovers` requests `recover` after a checkpoint.

    Returns:
        The algorithm, which the caller must stop, and the restored checkpoint or None.

    Raises:
        CheckpointError: No checkpoint is usable.
        UsageError: The run cannot begin with the checkpoint that it forks.
    """
    algo = build(settings, source)
    checkpoint = None
    try:
        if checkpoints:
            checkpoint = restore(algo, checkpoints, notify)
            if recovers:
                recover(algo, checkpoint.parent, notify)
        elif settings.fork_from:
            fork(algo, settings, notify)
            if algo.env_steps >= settings.total_env_steps:
                raise UsageError(
                    f"--fork_from {settings.fork_from} is at step {algo.env_steps:,}; expected a larger "
                    f"--total_env_steps, which includes the steps before the fork, than {settings.total_env_steps:,}"
                )
    except BaseException:
        algo.stop()  # it may have parts of a checkpoint
        raise
    return algo, checkpoint


def build(settings: SimpleNamespace, source: Any = None) -> Any:
    """Return the algorithm, ready to train, with the ``evaluation_video`` of its evaluations, or None.

    A `source` of batches must have been built from the same settings.
    """
    try:
        config = configure(settings)
        video = None
        if settings.video_to_tensorboard:
            from interreplay.experiments.evaluation.video import EvaluationVideo

            video = EvaluationVideo(config)
        algorithm = config.algo_class(config, source=source)
        algorithm.evaluation_video = video
        return algorithm
    except ValueError as error:
        raise UsageError(str(error)) from error


def new_config(name: str) -> Any:
    """Return the default configuration of an algorithm; `name` is one of `interreplay.rllib`, or ``module:Class``."""
    if ":" not in name:
        return getattr(importlib.import_module("interreplay.rllib"), name)()
    algorithm = import_user_class(name, Algorithm, "trainer")
    config = algorithm.config_class()
    config.algo_class = algorithm
    return config


def algorithm_settings(settings: SimpleNamespace) -> dict[str, Any]:
    """Return the settings of the algorithm itself, including defaults, by the names of its configuration."""
    own = select_settings(vars(settings), ALGORITHMS[settings.trainer].defaults)
    own["train_batch_size_per_learner"] = own.pop("train_batch_size")
    return own


def configure(settings: SimpleNamespace) -> Any:
    """Return RLlib's configuration of a run."""
    s = settings
    config = new_config(ALGORITHMS[s.trainer].config)
    env, arguments = environment_config(vars(s))
    config.environment(env, env_config=arguments)
    of_loop = LoopSettings
    if ALGORITHMS[s.trainer].unrolls:
        config.replay(s.buffer, **s.buffer_args)
    else:
        name, arguments = describe_source(s)
        config.replay(name, **arguments)
        of_loop = ReplaySettings
        config.training(collect=s.updates is None)
    loop = select_settings(vars(s), [setting.name for setting in fields(of_loop)])
    config.training(**algorithm_settings(s) | loop, gamma=s.gamma, anneal_steps=s.total_env_steps)
    config.env_runners(
        num_env_runners=s.num_workers,
        num_envs_per_env_runner=s.num_envs_per_worker,
        rollout_fragment_length=s.rollout_fragment_length,
    )
    config.evaluation(
        evaluation_interval=s.evaluation_interval or None,
        evaluation_duration=s.evaluation_num_episodes,
        evaluation_duration_unit="episodes",
        evaluation_config=config.evaluation_config
        | {"num_envs_per_env_runner": min(s.evaluation_num_envs, s.evaluation_num_episodes)},
    )
    config.learners(num_gpus_per_learner=int(s.device == "cuda"))
    return config.debugging(seed=s.seed, log_level="ERROR")


def fork(algo: Any, settings: SimpleNamespace, notify: Callable[[str], object]) -> None:
    """Continue from the checkpoint ``settings.fork_from`` with the random numbers of the seed.

    A replay method with the settings of the parent keeps its state, such as priorities. Other methods are filled with
    the parent's transitions in the order in which they were written.

    Raises:
        UsageError: The algorithm learns from unrolls, the replay method needs columns that the rows lack, or the parent
            has another optimizer.
        CheckpointError: The checkpoint is damaged, or belongs to another algorithm or to other spaces.
    """
    if ALGORITHMS[settings.trainer].unrolls:
        raise UsageError(f"--fork_from applies to replayed transitions; {settings.trainer} learns from unrolls")
    assert isinstance(algo, OffPolicyAlgorithm)
    folder = state_files.resolve(find_checkpoints(Path(settings.fork_from))[0])
    algo.check_identity(folder, same_run=False)
    parent = read_settings(folder)
    optimizer = parent.get("optimizer")
    if optimizer != getattr(settings, "optimizer", optimizer):
        raise UsageError(f"--fork_from {folder} has the state of {optimizer}; expected --optimizer {optimizer}")
    same = all(parent.get(name) == getattr(settings, name, None) for name in OF_METHOD)
    diagnostics = algo.diagnostics.state_dict()
    run_id = algo.run_id
    try:
        algo.set_state(state_files.load(folder, ALGORITHM))
    except RuntimeError as error:  # raised by PyTorch for parameters of other names or shapes
        raise CheckpointError(f"the networks of {folder} differ from this run's: {describe_error(error)}") from error
    algo.run_id = run_id
    algo.discard_failed_evaluation()
    scale = algo.learner.reward_scale
    if scale is not None and algo.config.collect and not parent.get("scale_rewards"):
        for portion in open_saved(str(folder), folder).portions():
            scale.observe(portion)
    if same:
        algo.replay_buffer.load_state_dict(state_files.load(folder, BUFFER))
        state = "with the parent's state"
    else:
        algo.diagnostics.load_state_dict(diagnostics)
        try:
            algo.fill(open_saved(str(folder), folder).portions())
        except ValueError as error:
            raise UsageError(f"--fork_from {folder}: {error}") from error
        state = "rebuilt from the parent's transitions"
    reseed(algo, settings.seed)
    rows = len(algo.replay_buffer)
    notify(f"forked from {folder} at step {algo.env_steps:,}: {rows:,} transitions, {settings.buffer} {state}")


def recover(algo: Any, folder: Path, notify: Callable[[str], object]) -> int:
    """Add the recorded rows after the restored checkpoint to the replay buffer of a run, and return their number."""
    place = find_store(folder)
    if place is None:
        raise UsageError(f"--recover: {folder} has no recorded experience; --keep_experience N records it")
    store = ExperienceStore(place)
    store.check()
    begun_at = algo.env_steps
    steps = store.column("step")
    later = steps > begun_at
    if not later.any():
        notify(f"no rows of experience after step {begun_at:,} to recover")
        return 0
    start = int(later.argmax())
    if steps[start] > begun_at + 1:
        raise UsageError(
            f"--recover: the rows in {place} after the checkpoint at step {begun_at:,} begin at step {steps[start]:,}; "
            "expected all rows, a larger --keep_experience keeps more; leave --recover out to repeat these steps"
        )
    try:
        rows = algo.recover(store.portions(start))
    except ValueError as error:
        raise UsageError(f"--recover: {error}") from error
    notify(
        f"recovered {rows:,} rows after step {begun_at:,}; the run continues at step {algo.env_steps:,} with new "
        "episodes, so it differs from an uninterrupted run"
    )
    return rows


def reseed(algo: OffPolicyAlgorithm, seed: int) -> None:
    """Replace all random generators of a run; equal seeds and env steps give equal generators."""
    sequence = np.random.SeedSequence([seed, algo.env_steps, STREAM])
    learner, runners, everywhere, *_ = sequence.generate_state(3).tolist()
    algo.learner.generator.manual_seed(learner)
    algo.env_runner_group.foreach_env_runner(methodcaller("reseed", runners))
    random.seed(everywhere)
    np.random.seed(everywhere)  # noqa: NPY002
    torch.manual_seed(everywhere)
    for number, part in enumerate(_random_parts(algo.replay_buffer)):
        part.rng = np.random.default_rng([seed, algo.env_steps, STREAM, number])


def _random_parts(source: Any) -> Iterator[ReplayBuffer | ModelBased]:
    """Yield the parts of a source with random generators: its replay buffers, and a learned model."""
    if isinstance(source, Mix):
        for part in source.sources.values():
            yield from _random_parts(part)
        if isinstance(source, ModelBased):
            yield source
    elif isinstance(source, Offline):
        yield source.buffer
    elif isinstance(source, ReplayBuffer):
        yield source
