"""What surrounds a run in its process: signals, progress, hangs, exit codes and the machine."""
