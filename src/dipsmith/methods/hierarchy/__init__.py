"""The hierarchy family: a cross-table divided level by level, every level measured and made to agree."""
