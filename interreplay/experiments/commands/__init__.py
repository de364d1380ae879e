"""The commands: their flags, checks and reports. The layers below do the work."""
