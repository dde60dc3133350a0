"""Embeddings: texts to vectors, on one thread per embedding model, and their wire format."""
