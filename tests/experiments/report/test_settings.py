import json

from interreplay.experiments.report.reading import Description, describe, method_names


def of(env="Hopper-v5", buffer="NMER", settings=None, **arguments):
    return Description("SAC", env, buffer, 0, None, settings or {"gamma": 0.99, "n_step": 1}, arguments)


def short(*runs):
    return [name for name, _ in method_names(runs)]


def described(tmp_path, name, params):
    folder = tmp_path / name
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(params))
    return describe(folder)


def test_names_contain_the_settings_in_which_runs_differ():
    """A setting is compared within an environment, between runs that know it, and named in all environments."""
    assert short(of(), of(), of(buffer="Uniform")) == ["NMER", "NMER", "Uniform"]
    assert short(of(), of(k=30), of("Reacher-v5", k=30)) == ["NMER", "NMER, k=30", "NMER, k=30"]
    assert short(of(), of("Reacher-v5", settings={"gamma": 0.9, "n_step": 1})) == ["NMER", "NMER"]
    assert short(of(), of(settings={"gamma": 0.99, "tau": 0.1})) == ["NMER", "NMER"]


def test_long_names_are_abbreviated_by_a_number():
    runs = [of(k=30, prob_interpolation=0.5), of(k=31, prob_interpolation=0.25)]
    assert method_names(runs) == [
        ("NMER, settings 1", "NMER, k=30, prob_interpolation=0.5"),
        ("NMER, settings 2", "NMER, k=31, prob_interpolation=0.25"),
    ]


def test_settings_of_this_package(tmp_path):
    params = {"trainer": "TD3", "env": "Hopper-v5", "buffer": "NMER", "buffer_args": {"k": 5}, "seed": 3}
    params |= {"total_env_steps": 20000, "prioritized": {"alpha": 0.6}, "gamma": 0.9, "local_dir": "x"}
    found = described(tmp_path, "anything", params)
    assert (found.algorithm, found.env, found.buffer, found.seed, found.total) == ("TD3", "Hopper-v5", "NMER", 3, 20000)
    assert found.settings == {"buffer": "NMER", "gamma": 0.9} and found.arguments == {"k": 5, "selector": "Prioritized"}


def test_settings_of_this_package_through_tune(tmp_path):
    params = {"env": "Pendulum-v1", "seed": 1, "updates_per_step": 1.0}
    params["replay_buffer_config"] = {"type": "NMER", "k": 5, "capacity": 10}
    found = described(tmp_path, "SAC_Pendulum-v1_d9d40_00000_0_seed=0", params)
    assert (found.algorithm, found.buffer, found.arguments) == ("SAC", "NMER", {"k": 5})
    params["replay_buffer_config"] = {"type": "<class 'replay_buffers.per.PER'>"}
    assert described(tmp_path, "TD3_x", params).buffer == "PER"
    assert described(tmp_path, "interreplay.SAC_x", params).algorithm == "SAC"


def test_runs_through_tune_that_differ_in_any_plain_setting_are_different_methods(tmp_path):
    """Also with a run of this package, which has few names of settings in common with RLlib's configurations."""
    common = {"env": "x", "seed": 1, "updates_per_step": 1.0, "replay_buffer_config": {"capacity": 10, "type": "NMER"}}
    more = [
        {"policy_delay": 1, "env_config": {}, "callbacks": "<class 'A'>", "learner_class": "<class 'A'>"},
        {"policy_delay": 2, "env_config": {}, "callbacks_on_episode_end": None, "num_cpus_per_env_runner": 2},
        {"policy_delay": 2, "env_config": {"goal": 3}, "policy_mapping_fn": "<function f at 0x7f>"},
    ]
    runs = [of("x", settings={"gamma": 0.99})]
    for number, settings in enumerate(more):
        runs.append(described(tmp_path, f"SAC_{number}", common | settings))
    names = [full for _, full in method_names(runs)]
    assert names == ["NMER", "NMER, policy_delay=1", "NMER, policy_delay=2", "NMER, env_config/goal=3, policy_delay=2"]


def test_stock_algorithms_are_named_rllib(tmp_path):
    replay = {"type": "PrioritizedEpisodeReplayBuffer", "alpha": 0.6}
    found = described(tmp_path, "SAC_a", {"env": "Pendulum-v1", "replay_buffer_config": replay})
    assert (found.algorithm, found.buffer, found.arguments) == ("SAC", "RLlib prioritized", {"alpha": 0.6})
    replay = {"type": "interreplay.rllib.stock.buffer.ReplayBuffer", "buffer": "NMER", "k": 3}
    assert described(tmp_path, "DQN_a", {"env": "x", "replay_buffer_config": replay}).buffer == "RLlib NMER"
    assert described(tmp_path, "PPO_a", {"env": "x"}).buffer == "RLlib no replay"


def test_settings_are_read_from_the_folder_name(tmp_path):
    (tmp_path / "SAC_Hopper-v5_NMER_s4_20260101-120000").mkdir()
    found = describe(tmp_path / "SAC_Hopper-v5_NMER_s4_20260101-120000")
    assert (found.algorithm, found.env, found.buffer, found.seed) == ("SAC", "Hopper-v5", "NMER", 4)
