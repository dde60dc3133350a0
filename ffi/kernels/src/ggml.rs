//! The kernels inside llama.cpp: through the list of extra buffer types that ggml-cpu asks before its own kernels.
//!
//! No source of llama.cpp is patched. Its structs are mirrored in `abi`; `install` makes sure that the library in memory
//! is the version they were written from, and that its tensors lie as they say, before anything is hooked in. Where that
//! fails, nothing is changed and llama.cpp goes on with its own kernels.

mod abi;
mod attention;
mod buffer;
mod cells;
mod install;
mod mul_mat;
mod symbols;
mod threads;

pub use install::{install, installed};
