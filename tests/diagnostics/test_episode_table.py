"""The table of episodes compared with direct computations, and its file."""

import csv
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from builders import full_disk, rows_with, same_state

from interreplay.diagnostics import correlation
from interreplay.diagnostics.episode_table import (
    COLUMNS,
    EPISODE_LENGTH,
    EPISODE_RETURN,
    ERRORS,
    PAIRS,
    PAIRS_EVERY,
    Q_EVERY,
    EpisodeTable,
)
from interreplay.experiments.training.result_log import EpisodeFile
from interreplay.runs.run_folder import RunFolder
from replay_buffers import Online, Uniform
from tests.experiments.commands.command_lines import read_csv

BATCH = 32


def one_step(rng, episode, number, last):
    """Return the row of a step with reward 2, and of an environment with two numbers."""
    obs = rng.standard_normal((2, 2)).astype(np.float32)
    returned = 2.0 * number if last else math.nan
    extras = {EPISODE_RETURN: torch.tensor([returned], dtype=torch.float64), EPISODE_LENGTH: torch.tensor([number])}
    row = rows_with(obs=obs[:1], rewards=[2.0], next_obs=obs[1:], terminated=[last], episode=[episode])
    return row.replace(extras=extras)


def played(lengths, recipe=Uniform, begin=0, table=None, buffer=None):
    """Return a table, its buffer and a record of the updates: one after each step from the 40th on."""
    rng = np.random.default_rng(begin)
    table = table or EpisodeTable(("loss", "q_mean"))
    buffer = buffer or recipe(capacity=500, seed=0)
    updates = []
    steps = begin
    for episode, length in enumerate(lengths, begin):
        for number in range(1, length + 1):
            row = one_step(rng, episode, number, number == length)
            buffer.add(row.replace(extras={}))
            steps += 1
            table.add(row, steps)
            if steps >= 40:
                sample = buffer.sample(BATCH)
                errors = torch.from_numpy(rng.standard_normal(BATCH).astype(np.float32))
                q_value = float(rng.standard_normal())
                table.observe(buffer, sample, errors, torch.tensor([0.0, q_value]))
                updates.append((steps, errors.abs().double().numpy(), q_value, sample.slots))
    return table, buffer, updates


def test_rows_are_means_over_the_updates_of_an_episode():
    lengths = [30, 25, *[12] * 24]
    table, _, updates = played(lengths)
    rows = table.take()
    assert table.rows == [] and [row["episode"] for row in rows] == list(range(1, len(lengths) + 1))
    assert rows[0]["updates"] == 0 and all(rows[0][name] is None for name in (*ERRORS, *PAIRS, "q_mean"))
    end = 0
    for row, length in zip(rows, lengths, strict=True):
        begin = end
        end += length
        assert row.keys() == set(COLUMNS)
        assert (row["length"], row["return"], row["env_steps"]) == (length, 2.0 * length, end)
        own = [update for update in updates if begin <= update[0] < end]
        assert row["updates"] == len(own)
        if own:
            sizes = np.stack([size for _, size, _, _ in own])
            expected = sizes.mean(), np.sort(sizes)[:, BATCH // 2 - 1].mean(), sizes.max(1).mean(), sizes.std(1).mean()
            assert [row[name] for name in ERRORS] == pytest.approx(expected, rel=1e-5)
        q_values = [q_value for _, _, q_value, _ in own]
        expected_q = pytest.approx(np.mean(q_values)) if row["episode"] % Q_EVERY == 0 else None
        assert row["q_mean"] == expected_q
    assert rows[Q_EVERY - 1]["q_mean"] is not None


def test_correlated_pairs_are_counted_as_all_pairs_would_be(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rows_with(obs=rng.standard_normal((300, 3)).astype(np.float32) * [1, 5, 0.1], episode=np.arange(300))
    buffer = Uniform(capacity=300, seed=0)
    buffer.add(rows)
    slots, uniform = torch.from_numpy(rng.integers(0, 300, 70)), torch.arange(256)
    states = rows.obs.double().numpy()
    scaled = (states - states[:256].mean(0)) / states[:256].std(0, ddof=1)

    def pairs(chosen):
        count = 0
        for i, one in enumerate(chosen):
            for other in chosen[:i]:
                count += abs(one @ other) > correlation.CORRELATED * np.linalg.norm(one) * np.linalg.norm(other)
        return count

    found = correlation.count_correlated(buffer.storage, slots, uniform)
    assert found == (pairs(scaled[slots[:64].numpy()]), pairs(scaled[:64])) and min(found) > 0
    monkeypatch.setattr(correlation, "WIDEST", 2)
    assert np.isnan(correlation.count_correlated(buffer.storage, slots, uniform)).all()


def test_pairs_are_those_of_every_fifth_update():
    table, _, updates = played([60, 40], Online)
    row = table.rows[1]
    own = [number for number, update in enumerate(updates) if 60 <= update[0] < 100]
    assert len([number for number in own if number % PAIRS_EVERY == 0]) == 8
    assert (row["correlation_count"] * 8) == pytest.approx(round(row["correlation_count"] * 8))


def test_a_state_continues_the_table():
    rng = np.random.default_rng(1)
    table, buffer, _ = played([30, 25])
    for number in range(1, 7):
        table.add(one_step(rng, 55, number, last=False), 55 + number)
        table.observe(buffer, buffer.sample(8), torch.full((8,), float(number)), torch.tensor([0.0, 1.0]))
    restored = EpisodeTable(("loss", "q_mean"))
    restored.load_state_dict(table.state_dict())
    same_state(restored.state_dict(), table.state_dict())
    last = one_step(rng, 55, 7, last=True)
    for each in (table, restored):
        each.add(last, 62)
    assert table.rows == restored.rows and len(table.rows) == 3
    assert table.rows[-1]["updates"] == 1 + 6, "one update after the last step of the episode before"


def test_interleaved_and_discarded_episodes():
    table = EpisodeTable(())
    rng = np.random.default_rng(0)
    buffer = Uniform(capacity=100, seed=0)
    steps = 0
    for number in range(1, 6):
        for episode in (7, 8, 9):
            steps += 1
            row = one_step(rng, episode, number, last=number == 5)
            if number == 4 and episode == 9:
                table.discard([9])
            buffer.add(row.replace(extras={}))
            table.add(row, steps)
        table.observe(buffer, buffer.sample(8), torch.ones(8), torch.zeros(0))
    assert [(row["env_steps"], row["updates"]) for row in table.rows] == [(13, 4), (14, 4), (15, 1)]
    assert all(row["q_mean"] is None and row["td_error_mean"] == 1.0 for row in table.rows)


# -- the file ----------------------------------------------------------------------------------------


def read(folder):
    return read_csv(folder / "episodes.csv")


def test_the_file_has_each_episode_once(tmp_path):
    table, *_ = played([30, 25, 20])
    rows = table.rows
    algo = SimpleNamespace(episode_table=table)
    file = EpisodeFile(tmp_path, algo)
    file.write()
    file.write()
    assert [row["episode"] for row in read(tmp_path)] == ["1", "2", "3"] and table.rows == []
    assert read(tmp_path)[0]["q_mean"] == "" and float(read(tmp_path)[2]["td_error_mean"]) > 0
    # A checkpoint of step 60, of before the second row was written; a damaged last row.
    with (tmp_path / "episodes.csv").open("a") as damaged:
        damaged.write("4,80")
    table.rows = rows[1:2]
    RunFolder(tmp_path).rewind(60)
    resumed = EpisodeFile(tmp_path, SimpleNamespace(episode_table=table))
    assert [row["episode"] for row in read(tmp_path)] == ["1", "2"]
    table.rows += rows[2:]
    resumed.write()
    assert [row["episode"] for row in read(tmp_path)] == ["1", "2", "3"]


def test_a_full_disk_leaves_the_rows_in_the_table(tmp_path, monkeypatch):
    table, *_ = played([30, 25])
    file = EpisodeFile(tmp_path, SimpleNamespace(episode_table=table))
    with monkeypatch.context() as patch:
        patch.setattr(csv.DictWriter, "writerows", full_disk)
        with pytest.raises(OSError, match="No space"):
            file.write()
    assert len(table.rows) == 2 and (tmp_path / "episodes.csv").stat().st_size == 0
    file.write()
    assert len(read(tmp_path)) == 2
