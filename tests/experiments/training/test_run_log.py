"""The files of a run's results: continued, complete or unchanged, and TensorBoard's groups."""

import csv
import json
import os

import pytest
from builders import full_disk

from interreplay.experiments.training.result_log import EventFile, RunLog, scalars
from tests.experiments.commands.command_lines import rows


def result(iteration, **more):
    return {"training_iteration": iteration, "config": {"not": "again"}, "a": {"b": iteration}, **more}


def test_later_columns_are_kept_and_a_resumed_log_is_continued(tmp_path):
    log = RunLog(tmp_path, {"env": "A"})
    log.write(result(1), 100)
    log.write(result(2, learners={"loss": 0.5}), 200)
    log.close()
    log = RunLog(tmp_path, {"env": "A", "more": 1}, steps=200)
    # A row with other columns in another order.
    log.write({"new": 7, **dict(reversed(result(3).items()))}, 300)
    log.close()
    table = rows(tmp_path)
    assert [row["a/b"] for row in table] == ["1", "2", "3"]
    assert [row["learners/loss"] for row in table] == ["", "0.5", ""]
    assert [row["new"] for row in table] == ["", "", "7"]
    assert [row["timesteps_total"] for row in table] == ["100", "200", "300"]
    lines = [json.loads(line) for line in (tmp_path / "result.json").read_text().splitlines()]
    assert [line["training_iteration"] for line in lines] == [1, 2, 3]
    assert "config" not in lines[0]
    assert json.loads((tmp_path / "params.json").read_text()) == {"env": "A", "more": 1}
    assert not list(tmp_path.glob(".*"))


def test_tensorboard_hides_events_beyond_the_resumed_step(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = RunLog(tmp_path, {})
    for i in (1, 2, 3):
        log.write(result(i), 100 * i)
    log.close()
    log = RunLog(tmp_path, {}, steps=100)
    log.write({**result(2), "a": {"b": 50}}, 200)
    log.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("other/a/b")}
    assert found == {100: 1, 200: 50}


def test_tensorboard_has_few_groups_with_standard_names():
    episodes = {"episode_return_mean": 3.0, "episode_len_mean": 20.0, "success_rate": 0.5, "env_step_timer": 0.01}
    episodes |= {"num_env_steps_sampled": 5, "agent_episode_return_mean": {"default_agent": 3.0}, "falls": 2}
    learned = {"default_policy": {"critic_loss": 0.1, "num_updates_lifetime": 9}, "__all_modules__": {"x": 1}}
    given = {"env_runners": episodes, "evaluation": {"env_runners": episodes, "num_healthy_workers": 1}, "pid": 7}
    given |= {"learners": learned, "replay_buffer": {"td_error_mean": 0.2}, "timers": {"training_step": 1.0}}
    given |= {"time_total_s": 12.5, "perf": {"cpu_util_percent": 3.0}, "mine": {"score": 4}, "name": "text"}
    nan = {"critic_loss": float("nan")}
    expected = {
        **{f"{group}/{name}": value for group in ("training", "evaluation") for name, value in FOUND.items()},
        "speed/env_step_seconds": 0.01,
        "speed/updates": 9,
        "speed/seconds": 12.5,
        "learner/critic_loss": 0.1,
        "replay/td_error_mean": 0.2,
        "other/mine/score": 4,
    }
    assert dict(scalars(given)) == expected
    assert dict(scalars({"learners": {"default_policy": nan}})) == {}


FOUND = {"return": 3.0, "episode_length": 20.0, "success_rate": 0.5, "falls": 2}


PLACES = {"table": (csv.DictWriter, "writerow"), "lines": (json, "dumps"), "events": (EventFile, "add_scalars")}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("columns", [{}, {"learners": {"loss": 0.5}}])
def test_a_row_is_in_every_file_or_in_none(tmp_path, monkeypatch, place, columns):
    log = RunLog(tmp_path, {})
    log.write(result(1), 100)
    before = (rows(tmp_path), (tmp_path / "result.json").read_text())

    owner, name = PLACES[place]
    write = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: full_disk(write(*args, **kwargs)))
    with pytest.raises(OSError, match="No space left"):
        log.write(result(2, **columns), 200)
    log.close()
    kept = [{k: v for k, v in row.items() if k != "learners/loss"} for row in rows(tmp_path)]
    assert (kept, (tmp_path / "result.json").read_text()) == before
    assert not list(tmp_path.glob(".*"))
    monkeypatch.undo()
    log = RunLog(tmp_path, {}, 100)
    log.write(result(2, **columns), 200)
    log.close()
    assert [row["a/b"] for row in rows(tmp_path)] == ["1", "2"]


def test_a_failed_write_of_events_raises(tmp_path):
    log = RunLog(tmp_path, {})
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), log._events.file.fileno())
    with pytest.raises(OSError, match="No space left"):
        log.write({**result(1), "many": dict.fromkeys(map(str, range(50)), 1.0)}, 100)
    log.close()
    assert rows(tmp_path) == [] and (tmp_path / "result.json").read_text() == ""
