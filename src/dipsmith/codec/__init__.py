"""Rows ↔ codes, against the public schema."""

from dipsmith.codec.decode import codebook, decode, released_schema
from dipsmith.codec.encode import Encoder

__all__ = ["Encoder", "codebook", "decode", "released_schema"]
