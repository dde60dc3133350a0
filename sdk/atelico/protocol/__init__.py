"""The wire: requests, responses, chunks and errors, and the only code that parses or writes JSON for them.

The shapes are OpenAI's chat completions plus `speculative` in the request and `atelico` in the response.
"""
