"""remote::ALIAS: the same request, answered by a configured OpenAI-compatible endpoint. Loads no model."""
