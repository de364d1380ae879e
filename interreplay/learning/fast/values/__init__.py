"""Updates of value networks with gradients by hand."""
