"""The public way to write the results of an algorithm that is trained in Python."""

import json

import pytest

import interreplay
from interreplay.analysis import read_runs
from interreplay.errors import UsageError
from interreplay.experiments.report.reading import describe
from interreplay.rllib import SAC, IMPALAConfig, SACConfig


def sac():
    made = SACConfig().environment("Pendulum-v1").replay("NMER", capacity=500, k=3).debugging(seed=4)
    made.training(hiddens=(16,), train_batch_size=16, learning_starts=20, steps_per_iteration=200)
    return made.evaluation(evaluation_interval=1, evaluation_duration=1)


@pytest.mark.slow
def test_results_can_be_read_by_a_report(tmp_path):
    algo = sac().build_algo()
    with interreplay.log_to(algo, tmp_path / "results" / "run", total_env_steps=400) as log:
        while algo.env_steps < 400:
            log.write(algo.train())
    found = describe(tmp_path / "results" / "run")
    assert (found.algorithm, found.env, found.buffer, found.seed) == ("SAC", "Pendulum-v1", "NMER", 4)
    assert found.total == 400 and found.arguments == {"k": 3}
    params = json.loads((tmp_path / "results" / "run" / "params.json").read_text())
    expected = {"buffer_size": 500, "learning_starts": 20, "train_batch_size": 16, "hiddens": [16], "gamma": 0.99}
    assert expected.items() <= params.items()
    (run,) = read_runs([tmp_path / "results"])
    curve = run.results.dropna(subset=["evaluation"])
    assert (run.method, run.state, list(curve["env_steps"])) == ("NMER", "finished", [200, 400])


def test_classes_are_named(tmp_path):
    class Mine(interreplay.ReplayBuffer):
        pass

    config = sac()
    config.replay_buffer_config = {"type": Mine, "capacity": 100, "n_step": 1}
    algo = config.build_algo()
    interreplay.log_to(algo, tmp_path).close()
    params = json.loads((tmp_path / "params.json").read_text())
    assert (params["buffer"], params["buffer_args"]) == ("Mine", {"n_step": 1})


def test_algorithms_that_learn_from_unrolls_are_described(tmp_path):
    algo = IMPALAConfig().environment("CartPole-v1").training(hiddens=(8,)).build_algo()
    interreplay.log_to(algo, tmp_path).close()
    found = describe(tmp_path)
    assert (found.algorithm, found.env) == ("IMPALA", "CartPole-v1")


def test_a_folder_that_cannot_be_written_to_is_rejected(tmp_path):
    algo = sac().build_algo()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="results cannot be written to .*file"):
        interreplay.log_to(algo, tmp_path / "file")


def steps_in(folder):
    lines = (folder / "result.json").read_text().splitlines()
    return [json.loads(line)["timesteps_total"] for line in lines]


@pytest.mark.slow
def test_a_restored_algorithm_continues_its_own_results_only(tmp_path):
    """Results beyond the restored checkpoint are dropped."""
    config = sac().training(steps_per_iteration=30).evaluation(evaluation_interval=0)
    algo = config.copy(copy_frozen=False).build_algo()
    with interreplay.log_to(algo, tmp_path / "run") as log:
        log.write(algo.train())
        algo.save_to_path(tmp_path / "checkpoint")
    with interreplay.log_to(algo, tmp_path / "run") as log:
        log.write(algo.train())
    assert steps_in(tmp_path / "run") == [30, 60]
    restored = SAC.from_checkpoint(tmp_path / "checkpoint")
    with interreplay.log_to(restored, tmp_path / "run") as log:
        assert steps_in(tmp_path / "run") == [30]
        log.write(restored.train())
    equal = config.copy(copy_frozen=False).build_algo()
    equal.train()
    equal.save_to_path(tmp_path / "equal")
    for other in (sac().build_algo(), SAC.from_checkpoint(tmp_path / "equal")):
        with pytest.raises(UsageError, match="run holds results of another run; give a new"):
            interreplay.log_to(other, tmp_path / "run")
    assert steps_in(tmp_path / "run") == [30, 60]
