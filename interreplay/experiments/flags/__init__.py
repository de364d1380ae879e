"""The flags of all commands: tables, readers, parsers, and their conversion to settings."""
