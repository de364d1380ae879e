"""The commands: what is typed, checked and told; the work itself lies in the rooms below."""
