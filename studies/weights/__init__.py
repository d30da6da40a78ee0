"""Do intervals of weighted totals and weighted regressions cover? A simulation of samples drawn with unequal probabilities."""
