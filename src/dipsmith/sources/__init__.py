"""Where rows come from: files, frames and databases, behind one contract."""

from dipsmith.sources.source import Progress, Source, piped, source

__all__ = ["Progress", "Source", "piped", "source"]
