"""Passes and losses of algorithms that learn from unrolls, by hand, for small networks on the processor."""
