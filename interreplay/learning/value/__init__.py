"""Algorithms that act greedily by a value network: DQN and its variants."""
