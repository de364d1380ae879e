"""One run: build its algorithm, train it, and write its results."""
