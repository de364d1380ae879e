"""The algorithms: configuration, training loop, learner and RLModules."""
