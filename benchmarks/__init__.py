"""The command behind every published figure."""
