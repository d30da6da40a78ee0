"""How often intervals from synthetic data cover: the figures of docs/tutorials/inference.md."""
