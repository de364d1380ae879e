"""A learned model in addition to replay: schedules, shares, stored rows, goals, states, rejected arguments."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from builders import identical, make, require_same_samples, same_state
from kept_rows import SPACES, episodes_of, fill

from interreplay import Mix, ModelBased
from interreplay.environments.registration import WRAPPED
from interreplay.experience import make_source
from interreplay.experience.recipes import as_settings
from interreplay.neighborhood import ClusterMember
from interreplay.part import Context
from interreplay.selection import Prioritized
from replay_buffers import HER, Uniform

QUICK = dict(members=2, elites=1, model_hiddens=(16,), max_epochs=2, fit_every=20, rollouts=2, capacity=500, seed=0)
SHAPES = {"obs_shape": (3,), "action_shape": (2,)}


def policy(obs):
    return torch.tanh(obs[:, :2])


def context(**changes):
    return Context(**{"policy": policy, "environment": "HalfCheetah-v5"} | changes)


def source(real="Uniform", connected=True, about=None, **changes):
    made = ModelBased(real, **QUICK | changes)
    if connected:
        made.connect(about or context())
    return made


def rows(n, seed=0, **shapes):
    return make(n, seed=seed, **SHAPES | shapes)


def sampled(given, **changes):
    """Return a source that has these rows and has drawn a batch, before which it fits its model."""
    made = source(**changes)
    made.add(given)
    made.sample(8)
    return made


def test_the_model_follows_the_policy_to_its_device_and_batches_stay():
    made = source(about=context(device=torch.device("meta")))
    assert made.dynamics.device.type == "meta" and made.device.type == made.virtual.device.type == "cpu"
    made = sampled(rows(20))
    before = made.dynamics.state_dict()
    made.dynamics.device = torch.device("cpu", 0)
    made.connect(context(device=torch.device("cpu")))  # moves the fitted networks
    assert made.dynamics.device == torch.device("cpu")
    np.testing.assert_equal(made.dynamics.state_dict(), before)


def test_real_rows_alone_until_the_first_fit_and_exact_shares_from_then_on():
    made = source(real_share=0.25)
    made.add(rows(19))
    sample = made.sample(8)
    assert (sample.origins == 0).all() and not len(made.virtual) and made.statistics() == {}
    made.add(rows(1, seed=1))
    counts = torch.stack([sample.origins.bincount(minlength=2) for sample in made.batches(30, 40)])
    assert counts.sum(dim=0).tolist() == [300, 900] and (counts[:, 0] - 7.5).abs().max() < 1
    assert len(made.virtual) == 40 == made.virtual.storage.written and len(made.real) == 20


def test_real_rows_without_a_share_are_drawn_until_the_first_fit():
    made = source(real_share=0.0)
    made.add(rows(19))
    assert (made.sample(8).origins == 0).all()
    made.add(rows(1, seed=1))
    assert (made.sample(8).origins == 1).all()


def test_recorded_rows_are_real_rows_as_if_they_had_been_collected_before(tmp_path):
    recorded = episodes_of([20, 15, 10])
    folder = fill(tmp_path / "store", recorded)
    changes = {"spaces": SPACES, "about": Context(policy=lambda obs: torch.tanh(obs[:, :1]), environment="Pendulum-v1")}
    made = source(recorded={"data": str(folder), "where": "newest=30"}, **changes)
    filled = source(**changes)
    filled.real.add(recorded[-30:])
    made.connect(changes["about"])
    assert len(made.real) == 30 and made.env_steps == 0
    new = episodes_of([25], seed=1, first=0)
    for each in (made, filled):
        each.add(new)
    assert len(made.real) == 55
    for batch, other in zip(made.batches(16, 3), filled.batches(16, 3), strict=True):
        require_same_samples(batch, other)
        assert (batch.origins == 1).any()


def test_recorded_rows_without_a_column_that_the_method_requires_are_rejected(tmp_path):
    folder = fill(tmp_path / "store", episodes_of([20]))
    with pytest.raises(ValueError, match="the rows lack the column behavior"):
        source("Elite", recorded={"data": str(folder)})


def test_virtual_rows_are_the_models_with_actions_of_the_policy():
    made = sampled(rows(40), action_noise=0.0)
    found = made.virtual.storage[torch.arange(len(made.virtual))]
    assert torch.equal(found.actions, policy(found.obs)) and found.truncated.all() and not found.terminated.any()
    stored = made.real.storage[torch.arange(40)].obs
    assert all((stored == obs).all(dim=1).any() for obs in found.obs)
    noisy = sampled(rows(40), action_noise=0.3)
    found = noisy.virtual.storage[torch.arange(40)]
    assert 0.05 < (found.actions - policy(found.obs)).std() < 0.3 and found.actions.abs().max() <= 1


def test_actions_without_dimensions_equal_vectors_of_one_number():
    drawn = []
    for shape in ((), (1,)):
        made = source(about=context(policy=lambda obs: torch.tanh(obs[:, :1])), rollout_length=2)
        given = rows(40, action_shape=(1,))
        made.add(given.replace(actions=given.actions.reshape(40, *shape)))
        made.sample(4)
        found = made.virtual.storage[torch.arange(len(made.virtual))]
        assert found.actions.shape[1:] == shape
        drawn.append(found.replace(actions=found.actions.reshape(-1, 1)))
    identical(*drawn)


def test_a_policy_that_is_a_distribution_is_drawn_from():
    def gaussian(obs):
        return torch.cat([obs[:, :2], torch.full_like(obs[:, :2], -1.0)], dim=1)

    made = sampled(rows(40), about=context(policy=gaussian, policy_is_gaussian=True), rollouts=200)
    found = made.virtual.storage[torch.arange(4_000)]
    before = torch.atanh(found.actions.double().clamp(-0.999999, 0.999999)) - found.obs[:, :2]
    inner = found.obs[:, :2].abs() < 1  # where tanh is not saturated
    assert float(before[inner].std()) == pytest.approx(np.exp(-1.0), rel=0.05)
    assert abs(float(before[inner].mean())) < 0.05


def test_fits_come_every_so_many_steps_and_rows_are_kept_for_so_many_fits():
    made, fits = source(keep_fits=3), []
    fit = made.dynamics.fit
    made.dynamics.fit = lambda *given: fits.append(made.env_steps) or fit(*given)
    for number in range(100):
        made.add(rows(1, seed=number))
        list(made.batches(4, 2))
    assert fits == [20, 40, 60, 80, 100]
    assert made.virtual.storage.written == 200 and len(made.virtual) == 120 == made.virtual.capacity
    assert made.virtual.storage[torch.arange(120)].episode.unique().tolist() == list(range(80, 200))


def test_the_ring_grows_with_the_length_of_rollouts_and_keeps_its_rows():
    made = sampled(rows(20), rollout_length=(1, 3, 20, 40), keep_fits=2)
    first = made.virtual.storage[torch.arange(40)]
    assert made.virtual.capacity == 80 and made.length == 1
    made.add(rows(20, seed=1))
    made.sample(4)
    assert made.virtual.capacity == 240 == made.most_rows and len(made.virtual) == 40 + 120
    kept = made.virtual.storage[torch.arange(40)]
    assert torch.equal(kept.rewards, first.rewards) and torch.equal(kept.next_obs, first.next_obs)
    steps = made.virtual.storage[torch.arange(40, 160)]
    assert steps.truncated.tolist() == [False] * 80 + [True] * 40
    assert torch.equal(steps.next_obs[:40], steps.obs[40:80]) and torch.equal(steps.next_obs[40:80], steps.obs[80:])
    assert made.statistics()["model/rollout_length"] == 3 and made.statistics()["model/rollout_rows"] == 120


def test_the_schedules_of_generated_rows_continue_when_their_buffer_grows():
    made = source(virtual="PER", rollout_length=(1, 3, 20, 40))
    made.anneal(0.5)
    made.add(rows(40))
    made.sample(4)
    assert made.length == 3 and made.virtual.selector.current_beta == pytest.approx(0.7)


def test_parts_of_generated_rows_are_made_again_when_their_buffer_grows():
    virtual = {"type": "NMER", "selector": Prioritized()}
    made = source(virtual=virtual, rollout_length=(1, 3, 20, 40))
    made.add(rows(20))
    made.sample(4)
    selector = made.virtual.selector
    made.add(rows(20))
    made.sample(4)
    assert made.length == 3 and made.virtual.selector is not selector
    assert (made.virtual.selector.priorities(torch.arange(len(made.virtual))) > 0).all()


def test_a_fit_takes_no_row_twice_and_at_most_so_many(monkeypatch):
    made = source(fit_rows=15)
    made.add(rows(40))
    fit = mock.Mock(wraps=made.dynamics.fit)
    monkeypatch.setattr(made.dynamics, "fit", fit)
    made.sample(4)
    states = fit.call_args.args[0]
    assert len(states) == 15 == len(states.unique(dim=0))


@pytest.mark.parametrize("real", ["NMER", "PER", "LCER", {"type": "S4RL", "augmentation": "switch"}])
def test_any_replay_method_is_the_real_part(real):
    made = source(real, real_share=0.5)
    made.add(rows(60))
    sample = made.sample(40)
    assert sample.origins.bincount().tolist() == [20, 20]
    made.update(sample, torch.arange(1.0, 41.0))
    if real == "NMER":
        assert (sample.mix[sample.origins == 0] < 1).any() and (sample.mix[sample.origins == 1] == 1).all()
    if real == "PER":
        errors = {int(s): e for s, e in zip(sample.slots, range(1, 41), strict=True) if e <= 20}
        for slot, error in errors.items():
            assert made.real.selector.priorities(torch.tensor([slot])).item() == pytest.approx(error + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("real", "model"), [("Uniform", "stochastic"), ("PER", "deterministic")])
def test_a_state_in_the_middle_of_a_schedule_continues_bit_for_bit(real, model):
    settings = {"model": model, "rollout_length": (1, 3, 20, 100), "real_share": (0.5, 0.1), "keep_fits": 2}
    one = source(real, **settings)
    for seed in range(5):
        one.add(rows(10, seed=seed))
        sample = one.sample(7)
        one.update(sample, torch.rand(7))
    one.anneal(0.5)
    assert one.env_steps == 50 and one.length == 1 and one.virtual.capacity == 80
    before = one.state_dict()
    one.add(rows(10, seed=5))
    one.sample(7)
    assert one.virtual.capacity == 160  # rollouts now have two steps
    for state in (before, one.state_dict()):
        two, three = source(real, **settings), source(real, **settings)
        for made in (two, three):
            made.load_state_dict(state)
        for seed in range(6, 12):
            for made in (two, three):
                made.add(rows(10, seed=seed))
            require_same_samples(two.sample(7), three.sample(7))
    two.load_state_dict(one.state_dict())
    for seed in range(6, 12):
        for made in (one, two):
            made.add(rows(10, seed=seed))
        mine, other = one.sample(7), two.sample(7)
        require_same_samples(mine, other)
        one.update(mine, torch.ones(7))
        two.update(other, torch.ones(7))
    assert one.statistics().keys() == two.statistics().keys()
    same_state(one.state_dict(), two.state_dict())


def test_states_of_other_sources_are_rejected():
    with pytest.raises(ValueError, match="contains no model, only the sources .*; expected one of ModelBased"):
        source().load_state_dict(Mix({"real": "Uniform", "model": "Uniform"}, capacity=500).state_dict())
    with pytest.raises(ValueError, match="the state belongs to a model of 2 members"):
        source(members=3).load_state_dict(sampled(rows(30)).state_dict())


# -- goals ----------------------------------------------------------------------------------------

GOALS = {"observation": (6,), "achieved_goal": (2,), "desired_goal": (2,)}


def reward(achieved, desired, info):
    return -(np.abs(achieved - desired).sum(-1) > 1.0).astype(np.float32)


def goal_rows(n, seed=0):
    made = make(n, seed=seed, obs_shape=GOALS, action_shape=(2,), ends=0.05)
    for obs in (made.obs, made.next_obs):
        obs["achieved_goal"].copy_(obs["observation"][:, 2:4])
    rewards = reward(*(made.next_obs[name].numpy() for name in ("achieved_goal", "desired_goal")), {})
    return made.replace(rewards=torch.from_numpy(rewards))


REALS = {
    "Uniform": "Uniform",
    "LCER": {"type": "LCER", "n_clusters": 5},
    "HER": "HER",
    "HER with LCER": lambda **given: HER(neighborhood=ClusterMember(n_clusters=5), **given),
}


@pytest.mark.parametrize("real", REALS)
def test_goals_are_recomputed_and_rewards_are_the_environments(real):
    towards_goal = lambda obs: torch.tanh(obs["observation"][:, :2] + obs["desired_goal"])
    about = Context(policy=towards_goal, compute_reward=reward, environment="FetchPush-v4")
    made = source(REALS[real], about=about, rollout_length=3, rollouts=10, real_share=0.5)
    columns = {f"obs.{name}": (shape, torch.float32) for name, shape in GOALS.items()}
    made.check(columns | {"actions": ((2,), torch.float32)})
    made.connect(about)
    assert made.wants_goal_functions
    made.add(goal_rows(60))
    sample = made.sample(40)
    assert sample.origins.bincount().tolist() == [20, 20]
    found = made.virtual.storage[torch.arange(len(made.virtual))]
    for obs in (found.obs, found.next_obs):
        if "LCER" not in real:  # all columns are blended equally, up to rounding
            assert torch.equal(obs["achieved_goal"], obs["observation"][:, 2:4])
    assert torch.equal(found.obs["desired_goal"], found.next_obs["desired_goal"])
    expected = reward(*(found.next_obs[name].numpy() for name in ("achieved_goal", "desired_goal")), {})
    assert found.rewards.tolist() == expected.tolist() and len(set(expected.tolist())) == 2
    stored = made.real.storage[torch.arange(60)]
    starts = found[found.episode < 200]
    among = (starts.obs["desired_goal"].unsqueeze(1) == stored.obs["desired_goal"]).all(2).any(1)
    assert among.all() if "HER" not in real else not among.all()  # hindsight goals are among those of HER
    width = made.dynamics.networks.sizes
    assert width[0] == 6 + 2 and width[-1] == 2 * 6  # neither goals nor rewards are predicted


def test_rollouts_are_relabeled_if_the_virtual_part_is_hindsight():
    about = Context(policy=lambda obs: obs["desired_goal"], compute_reward=reward, environment="FetchPush-v4")
    made = source(about=about, virtual="HER", rollout_length=3, real_share=0.0)
    made.add(goal_rows(60))
    sample = made.sample(200)
    rows, drawn = sample.transitions, made.virtual.storage[sample.slots]
    changed = (rows.obs["desired_goal"] != drawn.obs["desired_goal"]).any(1)
    assert 0.6 < changed.float().mean() < 0.95
    expected = reward(*(rows.next_obs[name].numpy() for name in ("achieved_goal", "desired_goal")), {})
    assert rows.rewards.tolist() == expected.tolist()


def test_environments_with_goals_define_their_termination():
    def reached(achieved, desired, info):
        return np.abs(achieved - desired).sum(-1) < 2.0

    functions = {"compute_reward": reward, "compute_terminated": reached}
    about = Context(policy=lambda obs: obs["desired_goal"], environment="Own-v0", **functions)
    made = sampled(goal_rows(60), about=about)
    found = made.virtual.storage[torch.arange(40)]
    apart = (found.next_obs["achieved_goal"] - found.next_obs["desired_goal"]).abs().sum(1)
    assert torch.equal(found.terminated, apart < 2.0) and 0 < found.terminated.sum() < 40


# -- configurations and rejections ------------------------------------------------------------------


def test_settings_for_configurations_are_plain_and_without_defaults():
    made = ModelBased("NMER", rollout_length=(1, 5, 0, 100), real_share=0.1)
    settings = as_settings(made, {"capacity": 60})
    kind = settings.pop("type")
    assert kind == "ModelBased"
    assert settings == {"real": "NMER", "rollout_length": (1, 5, 0, 100), "real_share": 0.1, "capacity": 60}
    again = make_source(kind, {"seed": 3, "n_step": 2, "gamma": 0.9, "device": "cpu"}, **settings)
    assert isinstance(again, ModelBased) and again.real.capacity == 60 and again.real.view.n_step == 2
    assert "ModelBased(0.1 real: NMER(" in repr(again)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "gaussian"}, "model is 'gaussian'; .*accepted: stochastic, deterministic"),
        ({"real": Mix({"a": "Uniform"})}, "'real' is a mix itself"),
        ({"real": "NMR"}, "there is no replay buffer 'NMR'; did you mean NMER"),
        ({"starts": "everywhere"}, "starts is 'everywhere'; .*accepted: stored, sampled"),
        ({"real_share": 1.5}, "the share of real is 1.5; expected 0 to 1"),
        ({"real_share": None}, "the share of real is None; expected 0 to 1"),
        ({"termination_fn": "Hoper-v5"}, "no termination function for 'Hoper-v5'; did you mean Hopper"),
        ({"fit_every": 10, "rollouts": 0.01}, "rollouts is 0.01; expected a number per env step, at least one per fit"),
        ({"model_hiddens": (0,)}, r"model_hiddens is \(0,\); expected widths"),
    ],
)
def test_invalid_arguments_are_rejected(arguments, message):
    with pytest.raises(ValueError, match=message):
        ModelBased(**arguments)


@pytest.mark.parametrize("given", [0, float("inf"), (1, 2), (1, 5, 10, 5), "long", (1, math.nan, 0, 1), (0, 4, 0, 1)])
def test_invalid_lengths_of_rollouts_are_rejected(given):
    with pytest.raises(ValueError, match=r"rollout_length is .*; expected a number of steps, or \(start, end"):
        ModelBased(rollout_length=given)


@pytest.mark.parametrize("given", [ModelBased, {"type": ModelBased, "members": 2, "elites": 1}, lambda: ModelBased()])
def test_a_model_in_a_mix_is_rejected(given):
    with pytest.raises(ValueError, match="'online' is a mix itself; expected its sources, with their shares"):
        Mix({"online": given, "offline": "Uniform"})


def test_environments_without_termination_function_are_rejected():
    with pytest.raises(ValueError, match="no termination function for 'LunarLander-v3'.*, as termination_fn"):
        source(about=context(environment="LunarLander-v3"))
    source(about=context(environment="LunarLander-v3"), termination_fn="never")
    wrapped = context(environment=WRAPPED, environment_arguments={"env": "Hopper-v5", "arguments": {}})
    with pytest.raises(ValueError, match=r"Hopper-v5 has wrappers or stacked .*expected a termination_fn"):
        source(about=wrapped)
    assert source(about=wrapped, termination_fn="Hopper-v5").most_rows == 15 * source().most_rows
    with pytest.raises(ValueError, match="obs of torch.uint8 cannot be predicted"):
        source().check({"obs": ((3,), torch.uint8), "actions": ((2,), torch.float32)})
    with pytest.raises(ValueError, match="actions of torch.int64 cannot be predicted"):
        source().check({"obs": ((3,), torch.float32), "actions": ((), torch.int64)})


def test_a_model_without_a_policy_raises_an_error():
    made = source(connected=False)
    made.add(rows(30))
    with pytest.raises(ValueError, match=r"no policy for its rollouts; call connect\(Context\(policy="):
        made.sample(4)


def test_a_seed_repeats_everything_and_sources_differ():
    made = [source(seed=seed) for seed in (1, 1, 2)]
    for each in made:
        each.add(rows(30))
    first, again, other = (each.sample(20) for each in made)
    require_same_samples(first, again)
    assert not torch.equal(first.slots, other.slots)
    assert isinstance(made[0].virtual, Uniform)
