"""Environments: lookup by name, registration, and their spaces."""
