"""Trained policies: acting, storage in checkpoints and export, without Ray."""
