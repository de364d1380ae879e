"""The flags of all commands: tables, readers, parsers, and what they mean together."""
