//! The hot kernels of atelico: one pass over a logits row, and n-gram indexes.

use pyo3::prelude::*;

#[pymodule]
fn _native(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
