"""The off-policy algorithms: configurations, training loop, learner and RLModules."""
