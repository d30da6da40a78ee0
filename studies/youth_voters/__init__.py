"""The youth-voter application of the STEPS paper, on a simulated stand-in."""
