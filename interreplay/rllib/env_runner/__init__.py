"""Env runners: they step environments and return columns, in this process or in others."""
