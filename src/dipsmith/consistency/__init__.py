"""Making noisy numbers agree, and drawing from them: post-processing."""
