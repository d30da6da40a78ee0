"""Where rows come from: files, frames and databases, behind one contract."""

from dipsmith.sources.source import Progress, Source, source

__all__ = ["Progress", "Source", "source"]
