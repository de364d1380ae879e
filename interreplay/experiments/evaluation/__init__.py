"""Play trained policies: returns, videos, datasets."""
