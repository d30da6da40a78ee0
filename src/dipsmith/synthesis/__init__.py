"""The whole path: from a source to a release and its card."""
