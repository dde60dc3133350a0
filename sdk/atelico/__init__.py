"""atelico: a small language model inside a game."""

__version__ = "0.1.0"
