"""Speed on a GPU."""
