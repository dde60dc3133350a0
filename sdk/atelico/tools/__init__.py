"""Tool calling: what a request asks for, how each family of models writes a call, and reading calls out of text.

Prompts are rendered in models/, grammars compiled in grammar/; nothing here calls a tool.
"""
