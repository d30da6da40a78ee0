"""How often the verdicts of `dipsmith confirm` are right, and the claims of the pay-disparity memos asked end to end."""
