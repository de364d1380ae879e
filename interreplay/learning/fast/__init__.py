"""The updates of SAC, TD3 and DDPG with gradients written out by hand, for speed.

What they compute is defined by the plain updates of the same names in `interreplay.learning`, with which tests hold
them equal.
"""
