"""The `atelico` command. It parses options, calls the engine and prints; it knows nothing about models itself."""
