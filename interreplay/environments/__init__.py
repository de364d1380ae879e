"""Environments: found by name, registered, and what their spaces are made of."""
