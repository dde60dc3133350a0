//! CPU kernels that give a row the same bits in every company: matrix products over packed weights, and attention over
//! visible cells. `ggml` hooks them into llama.cpp; nothing else here knows of it.
//!
//! Each output has one defined order of float operations (see `product` and `attention`). How many rows a pass has, how
//! many threads compute it, where cells lie and what instructions the processor has change the speed and not one bit.

// Kernels are unsafe throughout: they work on raw memory whose sizes the callers have checked, and each trait or module
// says once what all its functions need.
#![allow(unsafe_op_in_unsafe_fn, clippy::missing_safety_doc)]

pub mod activations;
pub mod attention;
pub mod exponential;
pub mod formats;
pub mod ggml;
pub mod half;
pub mod product;
pub mod simd;
pub mod tier;
pub mod weights;
