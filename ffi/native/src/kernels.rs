//! The CPU kernels, as Python sees them: hooked in once per process, by name.

use atelico_kernels::{ggml, tier};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Hook the kernels into llama.cpp, before its first model is loaded, and return the name of the set that is used.
///
/// Args:
///     libllama: the loader's handle of libllama.
///     tier: the set to use; the best one for this processor by default.
///
/// Raises:
///     RuntimeError: why llama.cpp goes on with its own kernels.
#[pyfunction]
#[pyo3(signature = (libllama, tier = None))]
pub fn install_kernels(libllama: usize, tier: Option<&str>) -> PyResult<&'static str> {
    let handle = std::ptr::with_exposed_provenance_mut(libllama);
    let installed = unsafe { ggml::install(handle, tier) };
    installed.map(|tier| tier.name).map_err(PyRuntimeError::new_err)
}

/// The sets of kernels that this processor can run, the best first.
#[pyfunction]
pub fn kernel_tiers() -> Vec<&'static str> {
    tier::supported().map(|tier| tier.name).collect()
}
