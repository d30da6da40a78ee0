"""The barrier between private rows and everything else."""
