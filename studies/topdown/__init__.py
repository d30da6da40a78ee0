"""The TopDown algorithm as a reference, and AIM with a tree of places beside it."""
