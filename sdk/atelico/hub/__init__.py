"""Downloading models from a Hugging Face compatible hub. Loads nothing."""
