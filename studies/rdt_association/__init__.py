"""What becomes of the association of two private labels when the second is trained on the synthetic first."""
