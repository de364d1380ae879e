"""Studies: many runs that belong together, from a file or from flags; none of it needs Ray."""
