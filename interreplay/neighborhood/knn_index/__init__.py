"""The nearest neighbors of every stored row, kept up to date."""
