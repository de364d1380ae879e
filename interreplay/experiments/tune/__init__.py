"""Studies of many runs through Ray Tune."""
