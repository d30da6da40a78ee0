"""The graph family: marginals are measured, one graphical model is fitted to them all, rows are drawn from it."""
