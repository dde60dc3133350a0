"""One adapter per engine, each to be used in a process of its own; they agree in the methods of wire.py."""
