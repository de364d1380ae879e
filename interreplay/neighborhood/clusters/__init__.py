"""Clusters that follow the stored rows."""
