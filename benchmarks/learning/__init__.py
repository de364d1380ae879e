"""Returns of agents, next to other libraries."""
