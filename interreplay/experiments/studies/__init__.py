"""Studies of many runs, from a file or from flags. Nothing here requires Ray."""
