"""Methods: one file each; none imports another."""
