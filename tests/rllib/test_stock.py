"""RLlib's stock algorithms with our buffers: the adapter against a plain list of rows, configurations, trainings."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from builders import by_turns
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.dqn import DQN, DQNConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils.replay_buffers import PrioritizedEpisodeReplayBuffer

from interreplay.rllib.stock.buffer import ReplayBuffer
from interreplay.rllib.stock.configs import (
    DOTTED,
    ReplayMixin,
    StockDQNConfig,
    StockSAC,
    StockSACConfig,
    StockTQCConfig,
)
from replay_buffers import NMER, PER, Uniform

GAMMA = 0.9


class Worlds:
    """Interleaved episodes with unique observations, collected in chunks, and a list of their rows."""

    def __init__(self, seed: int, envs: int = 3, discrete: bool = False):
        self.rng, self.discrete = np.random.default_rng(seed), discrete
        self.rows: list[dict] = []
        self.chunks = [self.begin() for _ in range(envs)]

    def begin(self) -> SingleAgentEpisode:
        return SingleAgentEpisode(observations=[self.state()], infos=[{}], len_lookback_buffer=0)

    def state(self) -> np.ndarray:
        return self.rng.normal(size=3).astype(np.float32)

    def step(self, chunk: SingleAgentEpisode) -> None:
        end = self.rng.choice(["", "terminated", "truncated"], p=[0.8, 0.1, 0.1])
        action = int(self.rng.integers(4)) if self.discrete else self.rng.normal(size=2).astype(np.float32)
        chunk.add_env_step(self.state(), action, float(self.rng.normal()), {}, **({end: True} if end else {}))

    def collect(self, steps: int, numpy: bool = False) -> list[SingleAgentEpisode]:
        """Run each environment for `steps` steps and return the chunks, as an env runner would."""
        out = []
        for i in range(len(self.chunks)):
            for _ in range(steps):
                self.step(self.chunks[i])
                if self.chunks[i].is_done:
                    out.append(self.chunks[i])
                    self.chunks[i] = self.begin()
            if len(self.chunks[i]):
                out.append(self.chunks[i])
                self.chunks[i] = self.chunks[i].cut(len_lookback_buffer=int(self.rng.integers(3)))
        for chunk in out:
            self.note(chunk)
        return [chunk.to_numpy() for chunk in out] if numpy else out

    def note(self, chunk: SingleAgentEpisode) -> None:
        for t in range(len(chunk)):
            last = t == len(chunk) - 1
            row = dict(id=chunk.id_, obs=chunk.get_observations(t), action=chunk.get_actions(t))
            row |= dict(reward=chunk.get_rewards(t), next_obs=chunk.get_observations(t + 1))
            self.rows.append(row | dict(terminated=last and chunk.is_terminated, truncated=last and chunk.is_truncated))

    def n_step(self, index: int, n: int) -> dict:
        """Return row `index` as an n-step row, by a plain loop over the rows of its episode."""
        episode = [row for row in self.rows[index:] if row["id"] == self.rows[index]["id"]][:n]
        reward = sum(GAMMA**t * row["reward"] for t, row in enumerate(episode))
        ends = {name: episode[-1][name] for name in ("next_obs", "terminated", "truncated")}
        return self.rows[index] | ends | dict(reward=reward, n_step=len(episode))


def assert_is(drawn: SingleAgentEpisode, row: dict) -> None:
    assert len(drawn) == 1
    np.testing.assert_array_equal(drawn.get_observations(0), row["obs"])
    np.testing.assert_array_equal(drawn.get_observations(-1), row["next_obs"])
    np.testing.assert_array_equal(drawn.get_actions(0), row["action"])
    np.testing.assert_allclose(drawn.get_rewards(0), row["reward"], rtol=1e-5, atol=1e-6)
    assert (drawn.is_terminated, drawn.is_truncated) == (row["terminated"], row["truncated"])
    assert drawn.get_extra_model_outputs("n_step", 0) == row["n_step"]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "discrete", "numpy"), by_turns([1, 3, 5], [False, True], [False, True]))
def test_sampled_rows_equal_added_ones_over_n_steps_chunks_and_the_seam(discrete, n, numpy):
    worlds, buffer = Worlds(seed=n, discrete=discrete), ReplayBuffer(30, buffer="Uniform", seed=0)
    for _ in range(8):
        buffer.add(worlds.collect(4, numpy))
        kept = range(max(0, len(worlds.rows) - 30), len(worlds.rows))
        expected = {worlds.rows[i]["obs"].tobytes(): worlds.n_step(i, n) for i in kept}
        drawn = buffer.sample(num_items=300, n_step=n, gamma=GAMMA, sample_episodes=True, to_numpy=numpy)
        for episode in drawn:
            assert_is(episode, expected[np.asarray(episode.get_observations(0)).tobytes()])
        assert len({np.asarray(e.get_observations(0)).tobytes() for e in drawn}) == len(kept) == len(buffer)


def test_counts_and_metrics_follow_the_stored_rows():
    worlds, buffer = Worlds(seed=1), ReplayBuffer(30)
    for _ in range(10):
        buffer.add(worlds.collect(3))
    stored = worlds.rows[-30:]
    assert buffer.get_num_timesteps() == len(buffer) == 30 and buffer.get_added_timesteps() == 90
    assert set(buffer.episode_id_to_index) == {row["id"] for row in stored}
    ever = len({row["id"] for row in worlds.rows})
    assert buffer.get_num_episodes() + buffer.get_num_episodes_evicted() == ever
    buffer.sample(num_items=7, n_step=1)
    metrics = {name: stats.peek() for name, stats in buffer.get_metrics().items() if not isinstance(stats, dict)}
    assert metrics["num_env_steps_added_lifetime"] == 90 and metrics["num_env_steps_evicted_lifetime"] == 60
    assert metrics["num_episodes_added_lifetime"] == ever and metrics["num_env_steps_sampled"] == 7


def test_a_range_of_n_steps_includes_both_ends():
    buffer = ReplayBuffer(100, seed=0)
    buffer.add(Worlds(seed=3).collect(30))
    longest = {max(e.get_extra_model_outputs("n_step", 0) for e in buffer.sample(64, n_step=(2, 4))) for _ in range(40)}
    assert longest == {2, 3, 4}


def test_td_errors_reach_the_priorities_of_the_rows_drawn():
    worlds, buffer = Worlds(seed=4), ReplayBuffer(100, buffer="PER", alpha=1.0, beta=1.0, seed=0)
    buffer.add(worlds.collect(10))
    target = worlds.rows[17]["obs"].tobytes()

    def is_target(size: int) -> np.ndarray:
        drawn = buffer.sample(num_items=size, n_step=1, beta=1.0)
        return np.array([e.get_observations(0).tobytes() == target for e in drawn])

    assert is_target(300).mean() < 0.1
    buffer.update_priorities(np.where(is_target(300), 100.0, 0.1), "default_policy")
    assert abs(is_target(3000).mean() - 100 / (100 + 0.1 * 29)) < 0.01
    weights = {float(e.get_extra_model_outputs("weights", 0)) for e in buffer.sample(num_items=300, n_step=1)}
    assert sorted(weights) == pytest.approx([1e-3, 1.0], rel=1e-3)


def test_the_steps_of_a_row_are_those_of_its_outcome():
    """KNNOutcome returns outcomes of neighbors, which may have other numbers of steps than their anchors."""
    buffer = ReplayBuffer(200, buffer="KNNOutcome", seed=0)
    buffer.add(Worlds(seed=5).collect(50))
    drawn = buffer.sample(64, n_step=3, gamma=GAMMA)
    steps = np.array([episode.get_extra_model_outputs("n_step", 0) for episode in drawn])
    rows = buffer._drawn.transitions
    np.testing.assert_allclose(rows.discounts, GAMMA**steps * ~rows.terminated.numpy(), rtol=1e-6)


def test_lap_uses_the_mean_error_with_a_warning():
    with pytest.warns(UserWarning, match="LAP uses the mean TD error of the critics here.*not the largest"):
        buffer = ReplayBuffer(100, buffer="LAP", seed=0)
    buffer.add(Worlds(seed=3).collect(30))
    buffer.sample(16)
    buffer.update_priorities(np.full(16, 3.0))
    drawn = buffer.buffer.selector.priorities(buffer.buffer.selector._raw.nonzero().squeeze(1))
    assert set(drawn.tolist()) == {1.0, 3.0}


def test_td_errors_must_match_the_last_draw():
    buffer = ReplayBuffer(100, buffer="PER")
    buffer.add(Worlds(seed=5).collect(5))
    with pytest.raises(ValueError, match="3 TD errors for 0 drawn"):
        buffer.update_priorities(np.ones(3))
    buffer.sample(num_items=4, n_step=1)
    with pytest.raises(ValueError, match="3 TD errors for 4 drawn"):
        buffer.update_priorities(np.ones(3))


def contents(episodes: list[SingleAgentEpisode]) -> list[tuple]:
    return [
        (e.get_observations(0).tobytes(), e.get_observations(-1).tobytes(), e.get_rewards(0), e.is_terminated)
        + tuple(float(e.get_extra_model_outputs(name, 0)) for name in ("weights", "n_step"))
        for e in episodes
    ]


@pytest.mark.parametrize("recipe", ["Uniform", "PER", "NMER"])
def test_the_state_contains_rows_priorities_episodes_and_randomness(recipe):
    worlds, buffer = Worlds(seed=6), ReplayBuffer(50, buffer=recipe, seed=0)
    for _ in range(5):
        buffer.add(worlds.collect(5))
    buffer.sample(num_items=16, n_step=3)
    buffer.update_priorities(np.linspace(0, 5, 16))
    state = buffer.get_state()
    twin = pickle.loads(pickle.dumps(ReplayBuffer(50, buffer=recipe, seed=1)))
    more = worlds.collect(2)
    buffer.add(more)
    expected = contents(buffer.sample(num_items=64, n_step=3))
    twin.set_state(pickle.loads(pickle.dumps(state)))
    twin.add(more)
    assert contents(twin.sample(num_items=64, n_step=3)) == expected
    assert twin.get_added_timesteps() == buffer.get_added_timesteps() == len(worlds.rows)


def test_blended_rows_are_steps_between_stored_ones():
    worlds, buffer = Worlds(seed=7), ReplayBuffer(200, buffer="NMER", k=3, seed=0)
    buffer.add(worlds.collect(30))
    stored = {row["obs"].tobytes() for row in worlds.rows}
    drawn = buffer.sample(num_items=200, n_step=1)
    blended = [e for e in drawn if e.get_observations(0).tobytes() not in stored]
    assert len(blended) > 100 and not any(e.is_terminated for e in blended)
    low, high = (getattr(np, f)([row["obs"] for row in worlds.rows], axis=0) for f in ("min", "max"))
    assert all((low <= e.get_observations(0)).all() and (e.get_observations(0) <= high).all() for e in blended)


@pytest.mark.parametrize("kind", ["NMER", NMER, lambda capacity, k: NMER(capacity=capacity, k=k)])
def test_a_name_a_class_and_a_factory_are_equivalent_and_an_object_is_used(kind):
    buffer = ReplayBuffer(40, buffer=kind, k=4).buffer
    assert isinstance(buffer, NMER) and buffer.capacity == 40 and buffer.neighborhood.k == 4
    assert ReplayBuffer(buffer=buffer).buffer is buffer and ReplayBuffer(buffer=buffer).capacity == 40
    assert ReplayBuffer().capacity == Uniform().capacity


def test_bad_arguments_are_named():
    for arguments, message in (
        (dict(buffer="NMRE"), "did you mean NMER"),
        (dict(buffer="NMER", kk=3), "did you mean k"),
        (dict(alpha=0.6), "Uniform takes no argument 'alpha'.*pass the method's name as buffer"),
        (dict(buffer="PER", k=3), "PER takes no argument 'k'(?!.*as buffer)"),
        (dict(n_step=3), "config.training"),
        (dict(batch_length_T=8), "batch_length_T is 8"),
        (dict(buffer=3), "buffer is 3"),
        (dict(buffer="S4RL", views=2), "views is 2; expected 1, because RLlib's algorithms learn from one view"),
        (dict(buffer="LaBER"), "^LaBER requires score, which an algorithm of RLlib's own does not provide"),
        (dict(buffer="EventTables", events=["success"]), "EventTables requires success, which an algorithm"),
    ):
        with pytest.raises(ValueError, match=message):
            ReplayBuffer(100, **arguments)


def test_unsupported_options_are_rejected():
    buffer = ReplayBuffer(100)
    buffer.add(Worlds(seed=8).collect(5))
    for name, value in {"batch_length_T": 4, "include_infos": True, "sample_episodes": False, "numitems": 3}.items():
        with pytest.raises(ValueError, match=name):
            buffer.sample(n_step=1, **{name: value})


@pytest.mark.parametrize("kind", ["interreplay.rllib.ReplayBuffer", ReplayBuffer])
def test_rllib_constructs_it_by_dotted_string_and_by_class(kind):
    shell = SimpleNamespace(config=SimpleNamespace(metrics_num_episodes_for_smoothing=7))
    config = {"replay_buffer_config": {"type": kind, "capacity": 20, "buffer": "PER", "alpha": 0.5}}
    buffer = Algorithm._create_local_replay_buffer_if_necessary(shell, config)
    assert type(buffer) is ReplayBuffer and isinstance(buffer, PrioritizedEpisodeReplayBuffer)
    assert isinstance(buffer.buffer, PER) and buffer.buffer.selector.alpha == 0.5


def test_n_step_returns_are_rejected_with_hindsight():
    buffer, episode = ReplayBuffer(capacity=50, buffer="HER", seed=0), SingleAgentEpisode()
    goals = {name: np.zeros(2, np.float32) for name in ("achieved_goal", "desired_goal", "observation")}
    episode.add_env_reset(observation=goals)
    episode.add_env_step(observation=goals, action=np.zeros(1, np.float32), reward=1.0)
    buffer.add(episode)
    with pytest.raises(ValueError, match="n_step is 3; expected 1"):
        buffer.sample(4, n_step=3)


class Mine(ReplayMixin, SACConfig):
    """Replay method of a user."""


CONTINUOUS = [StockSACConfig, StockTQCConfig, Mine]


# --- configurations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONTINUOUS)
@pytest.mark.parametrize("kind", ["NMER", NMER, lambda capacity, k: NMER(capacity=capacity, k=k)])
def test_replay_and_replay_buffer_config_are_equivalent(config, kind):
    one = config().environment("Pendulum-v1").replay(kind, capacity=500, k=4)
    two = config().environment("Pendulum-v1").training(replay_buffer_config={"type": kind, "capacity": 500, "k": 4})
    for made in (one, two):
        made.validate()
        assert made.replay_buffer_config == {"type": DOTTED, "buffer": kind, "capacity": 500, "k": 4}
        assert made.store_buffer_in_checkpoints
        made.validate()


def test_the_buffer_is_not_saved_on_request():
    left_out = {"store_buffer_in_checkpoints": False}
    for made in (
        StockSACConfig().training(replay_buffer_config={"type": "NMER", "capacity": 500}, **left_out),
        StockSACConfig().update_from_dict({"replay_buffer_config": {"type": "NMER", "capacity": 500}, **left_out}),
        StockSACConfig().replay("NMER").training(**left_out),
        StockSACConfig().training(**left_out).replay("NMER"),
    ):
        made.environment("Pendulum-v1").validate()
        assert made.replay_buffer_config["buffer"] == "NMER" and made.store_buffer_in_checkpoints is False


def test_a_second_replay_replaces_the_first():
    config = StockSACConfig().replay("PER", capacity=9, alpha=0.1).replay("NMER", k=2)
    assert config.replay_buffer_config == {"type": DOTTED, "buffer": "NMER", "k": 2}


def test_the_seed_follows_the_configuration():
    for given, seed in (({}, 5), ({"seed": 1}, 1)):
        config = StockSACConfig().environment("Pendulum-v1").replay("PER", **given).debugging(seed=5)
        config.validate()
        assert config.replay_buffer_config["seed"] == seed


@pytest.mark.parametrize("config", [StockSACConfig, StockDQNConfig])
def test_stock_buffers_are_unchanged(config):
    made = config().environment("Pendulum-v1")
    before = dict(made.replay_buffer_config)
    made.validate()
    assert made.replay_buffer_config == before and not made.store_buffer_in_checkpoints


def test_bad_configurations_are_named():
    for kind, arguments, message in (
        ("NMRE", {}, "did you mean NMER"),
        ("NMER", {"kk": 1}, "did you mean k"),
        ("NMER", {"gamma": 0.9}, "config.training"),
        ("interreplay.rlib.ReplayBuffer", {}, "no replay buffer 'interreplay.rlib"),
    ):
        with pytest.raises(ValueError, match=message):
            StockSACConfig().replay(kind, **arguments)
        with pytest.raises(ValueError, match=message):
            StockSACConfig().training(replay_buffer_config={"type": kind, **arguments}).validate()


def test_rllibs_own_checks_remain():
    config = StockSACConfig().environment("Pendulum-v1").replay("PER").training(grad_clip=-1.0)
    with pytest.raises(ValueError, match="grad_clip"):
        config.validate()
    assert config.replay_buffer_config["type"] == DOTTED


# --- trainings ---------------------------------------------------------------------------------------------------


def short(config, env):
    config.environment(env).env_runners(num_env_runners=0)
    config.training(num_steps_sampled_before_learning_starts=40, train_batch_size_per_learner=32)
    return config.reporting(min_sample_timesteps_per_iteration=60, min_time_s_per_iteration=0).debugging(seed=0)


BY_CLASS = {"type": ReplayBuffer, "buffer": "NMER", "capacity": 1000, "k": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "buffer", "core"),
    [
        (Mine, {"type": "NMER", "capacity": 1000}, NMER),
        (StockTQCConfig, {"type": "PER", "capacity": 1000}, PER),
        (SACConfig, BY_CLASS, NMER),  # of RLlib itself
    ],
)
def test_sac_and_tqc_train(config, buffer, core):
    made = short(config(), "Pendulum-v1").training(replay_buffer_config=buffer)
    assert config is not SACConfig or made.replay_buffer_config == BY_CLASS, "no argument of RLlib's buffer is merged"
    algorithm = made.build_algo()
    result = algorithm.train()
    assert np.isfinite(result["learners"]["default_policy"]["total_loss"])
    assert result["replay_buffer"]["num_env_steps_stored"] > 0
    inside = algorithm.local_replay_buffer.buffer
    assert isinstance(inside, core) and len(inside) == 60
    if core is PER:
        assert len(inside.selector.priorities(np.arange(60)).unique()) > 10, "TD errors arrived"


@pytest.mark.slow
@pytest.mark.parametrize("as_dict", [False, True], ids=["config", "dict, as Tune hands it over"])
def test_stock_dqn_trains_by_dotted_string(as_dict):
    buffer = {"type": "interreplay.rllib.ReplayBuffer", "buffer": "PER", "capacity": 1000, "alpha": 0.5, "beta": 0.4}
    config = short(DQNConfig(), "CartPole-v1").training(replay_buffer_config=buffer, n_step=3)
    algorithm = DQN(config=config.to_dict()) if as_dict else config.build_algo()
    for _ in range(2):
        assert np.isfinite(algorithm.train()["learners"]["default_policy"]["total_loss"])
    inside = algorithm.local_replay_buffer.buffer
    assert isinstance(inside, PER) and len(inside) >= 120 and inside.view.n_step == 3


@pytest.mark.slow
def test_a_checkpoint_of_a_stock_algorithm_contains_the_buffer(tmp_path):
    algorithm = short(StockSACConfig(), "Pendulum-v1").replay("PER", capacity=1000).build_algo()
    algorithm.train()
    again = StockSAC.from_checkpoint(algorithm.save_to_path(tmp_path / "checkpoint"))
    mine, theirs = (contents(each.local_replay_buffer.sample(50, n_step=1)) for each in (algorithm, again))
    assert mine == theirs
    again.train()
    assert len(again.local_replay_buffer) == 120
    algorithm.set_state(again.get_state())
    assert len(algorithm.local_replay_buffer) == 120
