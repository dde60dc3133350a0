//! ggml's structs, as its headers have them. `install` checks them against the library before they are relied on.

use std::ffi::{c_char, c_int, c_void};

pub const MAX_DIMS: usize = 4;

#[repr(C)]
pub struct Tensor {
    pub of: u32,
    pub buffer: *mut Buffer,
    pub ne: [i64; MAX_DIMS],
    pub nb: [usize; MAX_DIMS],
    pub op: u32,
    pub op_params: [i32; 16],
    pub flags: i32,
    pub src: [*mut Tensor; 10],
    pub view_src: *mut Tensor,
    pub view_offs: usize,
    pub data: *mut u8,
    pub name: [u8; 64],
    pub extra: *mut c_void,
    pub padding: [u8; 8],
}

impl Tensor {
    pub fn source(&self, i: usize) -> Option<&Tensor> {
        unsafe { self.src[i].as_ref() }
    }

    pub fn size(&self, dim: usize) -> usize {
        usize::try_from(self.ne[dim]).unwrap_or(0)
    }

    /// Rows of `ne[0]` values.
    pub fn n_rows(&self) -> usize {
        self.size(1) * self.size(2) * self.size(3)
    }

    /// The address of a row, counted through all dimensions but the first.
    pub fn row(&self, i: usize) -> *mut u8 {
        let (i1, rest) = (i % self.size(1), i / self.size(1));
        let (i2, i3) = (rest % self.size(2), rest / self.size(2));
        unsafe { self.data.add(i1 * self.nb[1] + i2 * self.nb[2] + i3 * self.nb[3]) }
    }

    pub fn float_param(&self, i: usize) -> f32 {
        f32::from_bits(self.op_params[i].cast_unsigned())
    }
}

#[repr(C)]
pub struct ComputeParams {
    pub ith: c_int,
    pub nth: c_int,
    pub work_size: usize,
    pub work_data: *mut u8,
    pub threadpool: *mut c_void,
    pub use_reference: bool,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct BufferTypeInterface {
    pub get_name: Option<unsafe extern "C" fn(*mut BufferType) -> *const c_char>,
    pub alloc_buffer: Option<unsafe extern "C" fn(*mut BufferType, usize) -> *mut Buffer>,
    pub get_alignment: Option<unsafe extern "C" fn(*mut BufferType) -> usize>,
    pub get_max_size: Option<unsafe extern "C" fn(*mut BufferType) -> usize>,
    pub get_alloc_size: Option<unsafe extern "C" fn(*mut BufferType, *const Tensor) -> usize>,
    pub is_host: Option<unsafe extern "C" fn(*mut BufferType) -> bool>,
}

#[repr(C)]
pub struct BufferType {
    pub interface: BufferTypeInterface,
    pub device: *mut c_void,
    pub context: *mut c_void,
}

pub type SetTensor = unsafe extern "C" fn(*mut Buffer, *mut Tensor, *const u8, usize, usize);
pub type FreeBuffer = unsafe extern "C" fn(*mut Buffer);

/// Functions that we neither call nor provide have no signature here.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BufferInterface {
    pub free_buffer: Option<FreeBuffer>,
    pub get_base: Option<unsafe extern "C" fn(*mut Buffer) -> *mut u8>,
    pub init_tensor: Option<unsafe extern "C" fn()>,
    pub memset_tensor: Option<unsafe extern "C" fn()>,
    pub set_tensor: Option<SetTensor>,
    pub get_tensor: Option<unsafe extern "C" fn()>,
    pub set_tensor_2d: Option<unsafe extern "C" fn()>,
    pub get_tensor_2d: Option<unsafe extern "C" fn()>,
    pub cpy_tensor: Option<unsafe extern "C" fn()>,
    pub clear: Option<unsafe extern "C" fn(*mut Buffer, u8)>,
    pub reset: Option<unsafe extern "C" fn()>,
}

#[repr(C)]
pub struct Buffer {
    pub interface: BufferInterface,
    pub of: *mut BufferType,
    pub context: *mut c_void,
    pub size: usize,
    pub usage: c_int,
}

/// A C++ object of class `ggml::cpu::tensor_traits`: a pointer to the table of its virtual functions (Itanium C++ ABI:
/// two destructors first).
#[repr(C)]
pub struct Traits {
    pub table: &'static TraitsTable,
}

#[repr(C)]
pub struct TraitsTable {
    pub destructors: [unsafe extern "C" fn(*mut Traits); 2],
    pub work_size: unsafe extern "C" fn(*mut Traits, c_int, *const Tensor, *mut usize) -> bool,
    pub compute_forward: unsafe extern "C" fn(*mut Traits, *mut ComputeParams, *mut Tensor) -> bool,
}

/// A C++ object of class `ggml::cpu::extra_buffer_type`.
#[repr(C)]
pub struct ExtraBufferType {
    pub table: &'static ExtraBufferTypeTable,
}

#[repr(C)]
pub struct ExtraBufferTypeTable {
    pub destructors: [unsafe extern "C" fn(*mut ExtraBufferType); 2],
    pub supports_op: unsafe extern "C" fn(*mut ExtraBufferType, *mut c_void, *const Tensor) -> bool,
    pub get_tensor_traits: unsafe extern "C" fn(*mut ExtraBufferType, *const Tensor) -> *const Traits,
}

/// A `std::vector` of pointers: where it begins, ends, and where its room ends.
#[repr(C)]
pub struct Vector {
    pub begin: *mut *mut BufferType,
    pub end: *mut *mut BufferType,
    pub capacity: *mut *mut BufferType,
}

#[repr(C)]
pub struct InitParams {
    pub mem_size: usize,
    pub mem_buffer: *mut c_void,
    pub no_alloc: bool,
}

#[repr(C)]
pub struct CpuTypeTraits {
    pub from_float: Option<unsafe extern "C" fn(*const f32, *mut u8, i64)>,
    pub vec_dot: Option<unsafe extern "C" fn(c_int, *mut f32, usize, *const u8, usize, *const u8, usize, c_int)>,
    pub vec_dot_type: u32,
    pub n_rows: i64,
}

#[repr(C)]
pub struct TypeTraits {
    pub type_name: *const c_char,
    pub block_size: i64,
    pub block_size_interleave: i64,
    pub type_size: usize,
    pub is_quantized: bool,
    pub to_float: Option<unsafe extern "C" fn(*const u8, *mut f32, i64)>,
    pub from_float_reference: Option<unsafe extern "C" fn()>,
}
