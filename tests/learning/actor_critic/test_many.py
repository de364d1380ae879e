"""Updates of several runs as one: each run learns as if it were alone."""

import itertools
import warnings

import pytest
import torch

from interreplay.learning.actor_critic.crossq import CrossQNetworks, CrossQUpdate
from interreplay.learning.actor_critic.many import ManyUpdates
from interreplay.learning.actor_critic.sac import SACNetworks, SACUpdate
from interreplay.learning.listed.networks import list_actor_and_critics
from interreplay.learning.update import Batch
from tests.learning.batches import ACTIONS, OBS
from tests.learning.update_cases import ALGORITHMS, given, keep_float64, make, settings_of, state_of  # noqa: F401

RUNS = 3
UPDATES = 6
LISTED = {
    "actor": [{"layer": "Linear", "out_features": 7}, "Tanh", "Linear"],
    "critic": [{"layer": "Linear", "out_features": 6}, "LayerNorm", "ELU", "Linear"],
}
OPTIONS = {  # settings, views per row, row weights
    "defaults": ({}, 0, False),
    "decay, delay, layer norm": ({"weight_decay": 0.1, "critic_layer_norm": True, "policy_delay": 2}, 0, True),
    "one critic, Huber": ({"n_critics": 1, "huber_delta": 0.3}, 3, True),
    "residual, mean target": (
        {"critic_blocks": 1, "critic_width": 6, "actor_blocks": 1, "actor_width": 5, "critic_target": "mean"},
        0,
        False,
    ),
    "PAL": ({"pal_alpha": 0.4, "actor_target": "mean", "n_critics": 3}, 0, True),
    "listed layers": ({"network": LISTED}, 0, True),
}


def runs_of(algorithm, settings, device="cpu"):
    """Return the updates of several runs with different networks, and settings that the algorithm has."""
    kind = ALGORITHMS[algorithm][1]
    settings = settings_of(algorithm, settings)
    network = settings.pop("network", {})
    updates = []
    for run in range(RUNS):
        networks = make(algorithm, settings=settings)
        list_actor_and_critics(networks, network)
        networks.double()
        with torch.no_grad():
            for parameter in networks.parameters():
                parameter += 0.01 * run * torch.sin(torch.arange(parameter.numel()).view_as(parameter))
        updates.append(kind(networks.to(device), **settings))
    return updates


def batches_of(i, algorithm, views, weighted):
    return [Batch(*given(10 * i + run, algorithm, views, weighted)) for run in range(RUNS)]


def generators():
    return [torch.Generator().manual_seed(run) for run in range(RUNS)]


def pairs():
    """Return all algorithms with the defaults, and every other option with one algorithm in turn."""
    yield from ((algorithm, "defaults") for algorithm in ALGORITHMS)
    yield from zip(itertools.cycle(ALGORITHMS), list(OPTIONS)[1:], strict=False)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "option"), pairs())
def test_each_run_learns_as_if_alone(algorithm, option):
    settings, views, weighted = OPTIONS[option]
    alone, together = runs_of(algorithm, settings), runs_of(algorithm, settings)
    for i in range(2):  # networks, moments and counts are copied
        for updates in (alone, together):
            for update, batch, rng in zip(
                updates, batches_of(i, algorithm, views, weighted), generators(), strict=True
            ):
                update.update(batch, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # PyTorch warns about operations that it computes run by run
        many = ManyUpdates(together)
        rngs, own_rngs = generators(), generators()
        for i in range(2, UPDATES):
            batches = batches_of(i, algorithm, views, weighted)
            result = many.update(Batch.stack(batches), rngs)
            for run, (update, batch, rng) in enumerate(zip(alone, batches, own_rngs, strict=True)):
                expected = update.update(batch, rng)
                torch.testing.assert_close(result.errors[run], expected.errors)
                torch.testing.assert_close(result.metrics[:, run], expected.metrics)
    for mine, theirs in zip(together, alone, strict=True):
        assert mine.updates == theirs.updates == UPDATES
        expected = state_of(theirs)
        torch.testing.assert_close(state_of(mine), expected, rtol=1e-7, atol=1e-9)
        assert mine.state_dict()["policy_metrics"] == pytest.approx(theirs.state_dict()["policy_metrics"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"grad_clip": 0.5}, "grad_clip is 0.5"),
        ({"n_critics": 3, "target_subset": 2}, "target_subset is 2"),
        ({"critic_layer_norm": True, "critic_dropout": 0.1}, "critic_dropout is 0.1"),
    ],
)
def test_settings_that_runs_cannot_share_are_rejected(settings, words):
    with pytest.raises(ValueError, match=words):
        ManyUpdates(runs_of("SAC", settings))


def test_runs_that_differ_are_rejected():
    with pytest.raises(ValueError, match="weight_decay of the runs is 0.0 and 0.1"):
        ManyUpdates([*runs_of("SAC", {}), *runs_of("SAC", {"weight_decay": 0.1})])
    narrow, wide = SACUpdate(SACNetworks(OBS, ACTIONS, (8,))), SACUpdate(SACNetworks(OBS, ACTIONS, (9,)))
    with pytest.raises(ValueError, match="networks of the runs have different shapes"):
        ManyUpdates([narrow, wide])
    with pytest.raises(ValueError, match="the runs have SACUpdate and TD3Update"):
        ManyUpdates([*runs_of("SAC", {}), *runs_of("TD3", {})])
    with pytest.raises(ValueError, match="the algorithm learns by CrossQUpdate"):
        ManyUpdates([CrossQUpdate(CrossQNetworks(OBS, ACTIONS, (8,)))])
    ManyUpdates([*runs_of("TD3", {}), *runs_of("TD3", {"exploration_sigma": 0.2, "exploration_theta": 0.5})])
    runs = runs_of("SAC", {})
    runs[1].updates = 1
    with pytest.raises(ValueError, match="the runs made 0 and 1 updates"):
        ManyUpdates(runs)


def test_policies_act_as_alone():
    updates = runs_of("SAC", {})
    obs = torch.randn(RUNS, 5, OBS, dtype=torch.float64)
    noise = [torch.randn(5, ACTIONS, generator=rng, dtype=torch.float64) for rng in generators()]
    expected = [update.networks.actor(obs[run], noise[run])[0] for run, update in enumerate(updates)]
    torch.testing.assert_close(ManyUpdates(updates).act(obs, generators()), torch.stack(expected))
