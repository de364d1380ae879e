"""Updates of every kind, with networks and batches in main memory, for comparisons of devices."""

import functools
from collections.abc import Callable
from typing import Any

from interreplay.learning.listed.networks import list_actor_and_critics
from interreplay.learning.policy_gradient.impala import IMPALAUpdate
from interreplay.learning.policy_gradient.unroll_settings import IMPALASettings
from interreplay.learning.update import Batch
from interreplay.learning.value.dqn import DQNUpdate
from tests.learning.actor_critic import test_crossq as of_crossq
from tests.learning.policy_gradient import test_impala as of_impala
from tests.learning.update_cases import ALGORITHMS, CASES, given, make, pairs, settings_of
from tests.learning.value import test_dqn as of_dqn

FEW = ("defaults", "loss extras", "views", "encoder", "clipped layers", "layer norm and dropout", "their tanh")
FEW += ("subset", "subset, dropout", "least of many", "resets")
Learner = tuple[Any, Callable[[Any], Any], list[Any]]
"""Networks, a function that makes an update of networks, and the batches of its updates."""


def rows_and_weights(count: int, algorithm: str = "SAC", views: int = 0, weighted: bool = False) -> list[Batch]:
    return [Batch(*given(i, algorithm, views, weighted)) for i in range(count)]


def actors_and_critics(algorithm: str, case: str, count: int) -> Learner:
    settings, views, encoder, weighted = CASES[case]
    kind = ALGORITHMS[algorithm][1]
    settings = settings_of(algorithm, settings)
    activation = settings.pop("activation", "relu")
    networks = make(algorithm, encoder, activation, settings)
    return networks, lambda nets: kind(nets, **settings), rows_and_weights(count, algorithm, views, weighted)


def listed_critics(count: int) -> Learner:
    _, kind, own = ALGORITHMS["SAC"]
    settings = own | {"n_critics": 4, "target_subset": 2}
    networks = make("SAC", None, "relu", settings)
    layers = [{"layer": "Linear", "out_features": 8}, "ELU", "Linear"]
    list_actor_and_critics(networks, {"actor": layers, "critic": layers})
    return networks.double(), lambda nets: kind(nets, **settings), rows_and_weights(count)


def crossq(warm_up: int, count: int) -> Learner:
    networks, update = of_crossq.make(warm_up)
    return networks, lambda nets: type(update)(nets, target_entropy=-3.0), rows_and_weights(count)


def impala(continuous: bool, optimizer: str, count: int) -> Learner:
    settings = IMPALASettings(optimizer=optimizer)
    batches = [of_impala.unrolls(continuous, seed) for seed in range(count)]
    return of_impala.networks(continuous), lambda nets: IMPALAUpdate(nets, settings, 0.9), batches


def values(kind: str, head: str, count: int) -> Learner:
    """Return a learner whose networks are in the default data type."""
    networks = of_dqn.networks(head, **of_dqn.KINDS[kind])
    batches = rows_and_weights(count, "discrete SAC")
    return networks, lambda nets: DQNUpdate(nets, double=True, target_update_period=2), batches


LEARNERS = {
    f"{algorithm}, {case}": functools.partial(actors_and_critics, algorithm, case) for algorithm, case in pairs(FEW)
}
LEARNERS |= {f"CrossQ, warm-up {updates}": functools.partial(crossq, updates) for updates in (3, 100)}
for optimizer in ("Adam", "RMSprop"):
    LEARNERS[f"IMPALA, discrete, {optimizer}"] = functools.partial(impala, False, optimizer)
    LEARNERS[f"IMPALA, continuous, {optimizer}"] = functools.partial(impala, True, optimizer)
VALUES = [(kind, head) for kind in of_dqn.KINDS for head in of_dqn.HEADS]
