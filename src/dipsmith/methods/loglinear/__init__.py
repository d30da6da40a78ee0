"""The log-linear family: private labels from public columns, one small noisy table per effect."""
