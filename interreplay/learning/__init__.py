"""Networks and updates of the off-policy algorithms, in plain PyTorch; `interreplay.rllib` runs them."""
