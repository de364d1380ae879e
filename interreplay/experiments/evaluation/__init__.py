"""A trained policy acts: returns, videos, datasets."""
