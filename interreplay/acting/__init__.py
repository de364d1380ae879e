"""A trained policy that acts, is stored beside a checkpoint, and is exported: without Ray."""
