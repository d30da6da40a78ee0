"""The synthetic-data chapter of Programming Differential Privacy, with its bug and without."""
