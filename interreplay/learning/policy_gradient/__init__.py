"""Algorithms that learn a policy with its value from unrolls: IMPALA, CLEAR, LASER, A2C and A3C."""
