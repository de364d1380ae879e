"""The commands: what is typed, checked and reported; the work itself lies in the rooms below."""
