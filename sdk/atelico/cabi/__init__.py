"""The Python side of libatelico: takes the mail of a game from the C mailbox and answers it with an Engine.

Started only by the library itself (ffi/cabi); programs in Python use atelico.Engine or atelico.Atelico.
"""
