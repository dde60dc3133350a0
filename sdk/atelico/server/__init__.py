"""The HTTP server: OpenAI's endpoints over an Engine. Starts no model of its own and decodes nothing."""
