"""The process around a run: signals, progress, hangs, exit codes and the machine's resources."""
