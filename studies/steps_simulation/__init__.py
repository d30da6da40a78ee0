"""The simulation study of the STEPS paper, with the algorithms as printed and as corrected."""
