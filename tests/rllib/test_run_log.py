from __future__ import annotations

import csv
import json
import time

import pytest

from interreplay.rllib.run.result_log import RunLog


def rows(folder):
    with (folder / "progress.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def result(iteration, **more):
    return {"training_iteration": iteration, "config": {"not": "again"}, "a": {"b": iteration}, **more}


def test_columns_that_appear_later_are_kept_and_a_resumed_log_goes_on(tmp_path):
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


def test_tensorboard_hides_what_lies_beyond_the_resumed_step(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log = RunLog(tmp_path, {})
    for i in (1, 2, 3):
        log.write(result(i), 100 * i)
    log.close()
    time.sleep(1.1)  # the names of TensorBoard's files have whole seconds
    log = RunLog(tmp_path, {}, steps=100)
    log.write({**result(2), "a": {"b": 50}}, 200)
    log.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    found = {event.step: event.value for event in events.Scalars("ray/tune/a/b")}
    assert found == {100: 1, 200: 50}
