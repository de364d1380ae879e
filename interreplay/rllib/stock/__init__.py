"""Our replay buffers for RLlib's own algorithms."""
