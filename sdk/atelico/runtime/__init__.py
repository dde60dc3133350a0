"""The only place that touches llama.cpp: library, devices, threads, model, vocabulary, context.

Everything here validates before it calls: llama.cpp aborts the process on what it considers a caller's mistake.
"""

from atelico.runtime import openmp

# libgomp reads its environment once, when it is loaded, and `import llama_cpp` loads it.
openmp.configure()
