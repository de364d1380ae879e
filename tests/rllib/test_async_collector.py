"""The asynchronous collector in a checkpoint: unused answers, their metrics, and errors of requests in flight."""

from types import SimpleNamespace

import pytest
from ray.exceptions import RayError
from ray.rllib.utils.actor_manager import RemoteCallResults, ResultOrError
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from interreplay.errors import EnvironmentFailure, RunnerLost
from interreplay.rllib.env_runner import remote
from interreplay.rllib.env_runner.remote import Answer, AsyncCollector
from interreplay.runs import state_files

CONFIG = SimpleNamespace(max_requests_in_flight_per_env_runner=2, sample_timeout_s=None, max_lag=5)
CONFIG.stats_cls_lookup = MetricsLogger().stats_cls_lookup
RUNNERS = SimpleNamespace(missing=lambda: None, states=dict, load_states=lambda states, env_steps: None)


class Requests(list):
    """The answers that arrive for requests in flight."""

    def send(self, ask, version):
        """Send no further request."""

    def receive(self, oldest):
        return self.pop(0)


@pytest.fixture
def collector(monkeypatch):
    """Create a collector, given the answers to its requests in flight."""
    monkeypatch.setattr(remote.ray, "put", lambda value: value)
    monkeypatch.setattr(AsyncCollector, "_send", lambda self, make: None)
    monkeypatch.setattr(remote, "unpack", lambda packed: packed)

    def make(*answers):
        made = AsyncCollector(RUNNERS, SimpleNamespace(updates=0), lambda columns: columns, CONFIG)
        made._requests = Requests(answers)
        return made

    return make


def measured(steps, value):
    """Return the metrics of a runner."""
    logger = MetricsLogger()
    logger.log_value("steps", steps, reduce="lifetime_sum")
    logger.log_value(("agent", "return"), value, window=10)
    return logger.reduce()


def total(metrics):
    """Return metrics as an algorithm reports them."""
    logger = MetricsLogger(root=True)
    logger.aggregate(metrics, key="env_runners")
    return logger.peek()["env_runners"]


def test_metrics_of_unused_answers_are_saved(collector, tmp_path):
    straight = collector(*(Answer(f"rows {i}", 0.0, measured(40 * i, float(i))) for i in (1, 2)))
    state_files.save(tmp_path, straight.state_dict() | {"env_steps": 0})
    resumed = collector()
    resumed.load_state_dict(state_files.load(tmp_path))
    for made in (straight, resumed):
        assert not made.metrics(), "their steps are counted when they are used"
        assert [made.collect(None).rows for _ in range(2)] == [["rows 1"], ["rows 2"]]
        assert total(made.metrics()) == {"steps": 120, "agent": {"return": 1.5}} and not made.metrics()


def test_the_error_of_a_runner_that_cannot_be_saved_is_returned_by_the_next_round():
    answers = [ResultOrError(result="state"), ResultOrError(error=RayError("ValueError: no state"))]
    results = RemoteCallResults()
    for index, answer in enumerate(answers, start=1):
        results.add_result(index, answer, None)
    manager = SimpleNamespace(actors=lambda: {1: "one", 2: "two"}, actor_ids=lambda: [1, 2])
    manager.healthy_actor_ids = lambda: [1]
    manager.foreach_actor = lambda work, timeout_seconds: results
    runners = remote.RemoteRunners(SimpleNamespace(_worker_manager=manager), CONFIG)
    assert str(runners.missing()) == "1 of 2 remote env runners lost"
    assert runners.call_each(None) == ["state"]
    _, failure = runners.call_with_weights({}, None, "sample_timeout_s")
    assert isinstance(failure, RunnerLost)
    assert str(failure) == "remote env runner 2 died: RayError: ValueError: no state"


def test_the_error_of_a_runner_whose_process_died_is_its_cause():
    text = "The actor died unexpectedly before finishing this task.\n\tclass_name: Runner\n\tpid: 1\nThe actor is dead "
    text += "because its worker process has died. Worker exit detail: connection error code 2. End of file."
    failure = remote.convert_error(RayError(f"{text} Some common causes include: (1) memory{' or other' * 90}."), 2)
    cause = "its worker process has died. Worker exit detail: connection error code 2. End of file"
    assert str(failure) == f"remote env runner 2 died: {cause}"


def test_runners_that_died_or_do_not_answer_are_ended_and_removed(monkeypatch):
    results = RemoteCallResults()
    results.add_result(1, ResultOrError(result="pong"), None)
    results.add_result(2, ResultOrError(error=RayError("died")), None)
    ended = []
    monkeypatch.setattr(remote.ray, "kill", ended.append)
    left = {1: "one", 2: "two", 3: "three"}
    manager = SimpleNamespace(actor_ids=lambda: list(left), remove_actor=left.pop)
    manager.foreach_actor = lambda work, **arguments: results
    config = SimpleNamespace(env_runner_health_probe_timeout_s=1)
    remote.RemoteRunners(SimpleNamespace(_worker_manager=manager), config).end_silent()
    assert left == {1: "one"} and sorted(ended) == ["three", "two"], "RLlib prints a traceback for others"


def test_an_error_that_arrives_while_saving_ends_the_run(collector):
    failure, second = (EnvironmentFailure("Env-v0", f"raised ValueError: {text}") for text in "ab")
    made = collector(Answer("rows", 0.0, measured(40, 1.0)), failure, second)
    made.state_dict()
    found = made.collect(None)
    assert found.rows == ["rows"] and found.failure is None
    assert made.collect(None).failure is failure
    made._requests.append(Answer("later rows", 0.0, measured(40, 1.0)))
    assert made.collect(None).rows == ["later rows"]
