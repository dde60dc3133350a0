//! A flag that stops a forward pass from another thread.
//!
//! llama.cpp asks a callback between two nodes of its graph, hundreds of times per pass; a Python function there would
//! wait for the GIL each time. So the callback is compiled, and only its address goes through Python.

use pyo3::prelude::*;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// `bool (*)(void *)` as ggml wants it; `data` is the flag.
///
/// # Safety
/// `data` comes from `AbortFlag::data`, and the flag's owner outlives the context that calls this.
unsafe extern "C" fn is_raised(data: *mut c_void) -> bool {
    // SAFETY: see above; the flag is atomic, so any thread may look at it.
    unsafe { (*data.cast_const().cast::<AtomicBool>()).load(Ordering::Relaxed) }
}

/// Raised to stop the forward pass that runs, if one does. Keep it alive as long as the context that was given it.
#[pyclass(module = "atelico._native", frozen)]
pub struct AbortFlag(Arc<AtomicBool>);

#[pymethods]
impl AbortFlag {
    #[new]
    fn new() -> Self {
        Self(Arc::new(AtomicBool::new(false)))
    }

    /// Stop the pass that runs, and every later one until `clear`.
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Let passes run again.
    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it is raised.
    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Address of the C function that reads the flag.
    #[getter]
    fn function(&self) -> usize {
        is_raised as *const () as usize
    }

    /// Address to hand that function.
    #[getter]
    fn data(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }
}
