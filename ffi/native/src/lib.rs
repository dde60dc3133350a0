//! The hot kernels of atelico, as the Python module `atelico._native`.
//!
//! This file only lists what the module exports. Everything below `python` is plain Rust and knows nothing of Python.

mod abort;
mod draw;
mod history;
mod kernels;
mod logprobs;
mod noise;
mod options;
mod passes;
mod python;
mod sampler;
mod select;
mod truncate;
mod view;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<abort::AbortFlag>()?;
    module.add_class::<python::PySampler>()?;
    module.add_class::<python::PySampled>()?;
    module.add_function(wrap_pyfunction!(kernels::install_kernels, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::kernel_tiers, module)?)?;
    module.add_function(wrap_pyfunction!(python::gumbel, module)?)
}
