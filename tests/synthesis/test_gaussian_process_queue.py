"""Outcomes predicted in advance equal outcomes predicted for the batch."""

import numpy as np
import pytest
import torch
from builders import identical, make, same_sample

from interreplay.runs import state_files
from interreplay.synthesis.gaussian_process import Fit, GaussianProcess, Local, QueuedGaussianProcess
from interreplay.synthesis.gaussian_process.queue import ARRAYS, fingerprint
from replay_buffers import BIER

ROWS = 60


def buffer_with(queue=4, rings=1_000, **arguments):
    buffer = BIER(capacity=ROWS, k=5, seed=0, queue=queue, queue_rings=rings, precision="float64", **arguments)
    buffer.synthesizer.schedule.how = Fit(2)
    buffer.add(make(ROWS, ends=0.05))
    return buffer


def test_every_row_is_predicted_for_its_partner_and_share():
    buffer = buffer_with()
    for _ in range(12):
        sample = buffer.sample(32)
        near = buffer.neighborhood.neighbors(buffer.storage, sample.slots)
        blended = sample.neighbor_slots >= 0
        first = torch.where(blended, sample.neighbor_slots, near[:, 0])
        column = (near == first[:, None]).float().argmax(1)
        assert (near == first[:, None]).any(1).all()
        near[torch.arange(32), column], near[:, 0] = near[:, 0].clone(), first
        mix = sample.mix.numpy()
        plain = GaussianProcess(preparation=buffer.synthesizer.preparation, coefficient=lambda size, rng, mix=mix: mix)
        plain.form = buffer.synthesizer.form
        plain.schedule.current = buffer.synthesizer.schedule.current
        plain.schedule.batches = 1
        anchors = buffer.storage[sample.slots]
        neighbors = buffer.storage[near.view(-1)].map(lambda c: c.unflatten(0, (32, 5)))
        expected = plain(anchors, neighbors, np.random.default_rng(0))
        for name in ("obs", "actions", "rewards", "next_obs"):
            torch.testing.assert_close(getattr(sample.transitions, name), getattr(expected.rows, name), msg=name)
        torch.testing.assert_close(sample.variances, expected.variances, rtol=1e-4, atol=1e-8)
        identical(sample.transitions[~blended], anchors[~blended])
    assert buffer.synthesizer.statistics()["gp_ready_share"] > 0.3


def test_partners_and_shares_have_the_same_distribution_without_a_queue():
    found = []
    for queue in (4, None):
        buffer = buffer_with(queue)
        samples = [buffer.sample(64) for _ in range(60)]
        partners = torch.cat([s.neighbor_slots for s in samples])
        frequencies = np.bincount(partners[partners >= 0], minlength=ROWS) / len(partners)
        mix = torch.cat([s.mix for s in samples])
        found.append((mix.quantile(torch.linspace(0.1, 0.9, 9, dtype=mix.dtype)), frequencies))
    torch.testing.assert_close(found[0][0], found[1][0], rtol=0, atol=0.04)
    assert np.abs(found[0][1] - found[1][1]).sum() < 0.15


def test_outcomes_are_dropped_when_neighbors_or_hyperparameters_change():
    buffer = buffer_with(retrain_interval=6)
    queue = buffer.synthesizer
    for _ in range(5):
        buffer.sample(64)
    before = queue.used
    assert before > 0
    buffer.add(make(ROWS, seed=5))  # replaces every row
    buffer.sample(64)
    assert queue.used == before
    buffer.sample(64)  # the seventh batch requires a fit
    assert queue.schedule.fits == 2 and queue.used == before
    buffer.sample(64)
    assert queue.used > before


def test_local_fits_serve_later_batches():
    buffer = buffer_with(hyperparameters="local")
    assert isinstance(buffer.synthesizer.schedule, Local)
    for _ in range(6):
        buffer.sample(64)
    assert buffer.synthesizer.statistics()["gp_ready_share"] > 0.3


@pytest.mark.parametrize("rings", [7, 1_000])
def test_a_restored_state_returns_the_same_batches(rings, tmp_path):
    buffer = buffer_with(rings=rings)
    for _ in range(3):
        buffer.sample(32)
    queue = buffer.synthesizer
    assert sum(getattr(queue, name).nbytes for name in ARRAYS) == queue.nbytes(ROWS, 4)
    state_files.save(tmp_path / "state", buffer.state_view())
    again = BIER(capacity=ROWS, k=5, queue=4, queue_rings=rings, precision="float64")
    again.synthesizer.schedule.how = Fit(2)
    again.load_state_dict(state_files.load(tmp_path / "state"))
    for _ in range(4):
        same_sample(buffer.sample(32), again.sample(32))


def test_fingerprints_do_not_depend_on_the_order():
    rows = np.random.default_rng(0).integers(-1, 10**6, (1_000, 10))
    assert (fingerprint(rows) == fingerprint(rows[:, ::-1])).all()
    changed = rows.copy()
    changed[:, 3] += 1
    assert (fingerprint(rows) != fingerprint(changed)).all() and len(np.unique(fingerprint(rows))) == 1_000


def test_bad_arguments():
    for arguments, text in (({"queue": 1}, "queue is 1"), ({"queue": 4, "queue_rings": 0}, "queue_rings is 0")):
        with pytest.raises(ValueError, match=text):
            BIER(capacity=10, **arguments)
    with pytest.raises(TypeError):
        QueuedGaussianProcess(4, 10, kernl="rbf")
