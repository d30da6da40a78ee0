"""The forest family: random decision trees with noisy label counts in their leaves."""
