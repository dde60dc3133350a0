//! The buffer type that holds packed weights: llama.cpp places them there while it loads a model, which packs them.

use super::abi::{Buffer, BufferInterface, BufferType, BufferTypeInterface, Tensor};
use super::install::seam;
use crate::weights::{Shape, WeightType};
use std::alloc::Layout;
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

/// A page of 2 MiB, where the system gives such pages: fewer misses of the table of pages.
const HUGE_PAGE: usize = 1 << 21;

pub const TYPE_INTERFACE: BufferTypeInterface = BufferTypeInterface {
    get_name: Some(get_name),
    alloc_buffer: Some(alloc_buffer),
    get_alignment: Some(get_alignment),
    get_max_size: None,
    get_alloc_size: Some(get_alloc_size),
    is_host: None, // not in ggml's layout
};

const INTERFACE: BufferInterface = BufferInterface {
    free_buffer: Some(free_buffer),
    get_base: Some(get_base),
    init_tensor: None,
    memset_tensor: None,
    set_tensor: Some(set_tensor),
    get_tensor: None, // as ggml's own packed types: nobody reads weights back
    set_tensor_2d: None,
    get_tensor_2d: None,
    cpy_tensor: None,
    clear: Some(clear),
    reset: None,
};

/// The shape of a matrix of weights, or of each of a stack of experts; None where no kernel takes it.
pub fn shape_of(tensor: &Tensor) -> Option<Shape> {
    Shape::new(WeightType::from_ggml(tensor.of)?, tensor.size(0), tensor.size(1))
}

/// Whether `tensor` lies in a buffer of ours.
pub fn is_packed(tensor: &Tensor) -> bool {
    let buffer = unsafe { tensor.buffer.as_ref() };
    buffer.is_some_and(|buffer| std::ptr::eq(buffer.of, seam().buffer_type))
}

unsafe extern "C" fn get_name(_: *mut BufferType) -> *const c_char {
    c"ATELICO".as_ptr()
}

unsafe extern "C" fn get_alignment(_: *mut BufferType) -> usize {
    64
}

unsafe extern "C" fn get_alloc_size(_: *mut BufferType, tensor: *const Tensor) -> usize {
    let tensor = unsafe { &*tensor };
    shape_of(tensor).map_or_else(
        || unsafe { (seam().symbols.nbytes)(tensor) },
        |shape| shape.packed_bytes() * tensor.size(2) * tensor.size(3),
    )
}

fn memory_layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1), if size >= HUGE_PAGE { HUGE_PAGE } else { 64 }).ok()
}

unsafe extern "C" fn alloc_buffer(of: *mut BufferType, size: usize) -> *mut Buffer {
    // llama.cpp asks with a size of 0 to learn what a type supports.
    let Some(layout) = memory_layout(size) else {
        return null_mut();
    };
    let memory = unsafe { std::alloc::alloc(layout) };
    if memory.is_null() {
        return null_mut();
    }
    advise(memory, size);
    unsafe { (seam().symbols.buffer_init)(of, INTERFACE, memory.cast::<c_void>(), size) }
}

unsafe extern "C" fn free_buffer(buffer: *mut Buffer) {
    let buffer = unsafe { &*buffer };
    if let Some(layout) = memory_layout(buffer.size) {
        unsafe { std::alloc::dealloc(buffer.context.cast(), layout) };
    }
}

unsafe extern "C" fn get_base(buffer: *mut Buffer) -> *mut u8 {
    unsafe { (*buffer).context.cast() }
}

unsafe extern "C" fn clear(buffer: *mut Buffer, value: u8) {
    unsafe { std::ptr::write_bytes((*buffer).context.cast::<u8>(), value, (*buffer).size) }
}

unsafe extern "C" fn set_tensor(_: *mut Buffer, tensor: *mut Tensor, data: *const u8, offset: usize, size: usize) {
    let tensor = unsafe { &*tensor };
    let n_bytes = unsafe { (seam().symbols.nbytes)(tensor) };
    let shape = shape_of(tensor).filter(|_| offset == 0 && size == n_bytes);
    let Some(shape) = shape else {
        // llama.cpp sets weights whole; anything else would be a defect that must not compute on.
        eprintln!("atelico: a part of a packed tensor was set");
        std::process::abort();
    };
    let bytes = shape.n_rows * shape.source_row_bytes();
    for expert in 0..tensor.size(2) * tensor.size(3) {
        unsafe { shape.pack_all(data.add(expert * bytes), tensor.data.add(expert * shape.packed_bytes())) };
    }
}

#[cfg(target_os = "linux")]
fn advise(memory: *mut u8, size: usize) {
    use std::ffi::c_int;
    unsafe extern "C" {
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    if size >= HUGE_PAGE {
        // A wish: where the system does not fulfil it, pages are small.
        unsafe { madvise(memory.cast(), size, MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_memory: *mut u8, _size: usize) {}
