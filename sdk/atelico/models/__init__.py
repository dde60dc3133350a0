"""Model files: which file a name means, what a GGUF says about itself, chat templates, thoughts.

Nothing here loads weights or imports llama.cpp.
"""
