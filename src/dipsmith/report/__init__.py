"""Pages for people: frozen content in, HTML out; this room knows nothing of where content comes from."""
