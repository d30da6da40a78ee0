"""Our own checks of dipsmith: the whole audit, and the page that says what came of it. Not part of the package."""
