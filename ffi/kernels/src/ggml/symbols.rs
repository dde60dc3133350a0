//! The functions of the ggml that llama.cpp has loaded, by name.

use super::abi::{Buffer, BufferInterface, BufferType, CpuTypeTraits, InitParams, Tensor, TypeTraits, Vector};
use std::ffi::{CStr, CString, c_char, c_int, c_void};

type Device = *mut c_void;
type Registry = *mut c_void;

macro_rules! functions {
    ($($library:ident: $field:ident = $symbol:literal $(($($argument:ty),*))? $(-> $result:ty)?;)+) => {
        /// Pointers to functions; valid as long as the libraries are loaded, which is for ever.
        pub struct Symbols {
            $(pub $field: unsafe extern "C" fn($($($argument),*)?) $(-> $result)?,)+
        }

        impl Symbols {
            fn find_all(base: Library, cpu: Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let library = functions!(@library $library base cpu);
                        let address = library.find($symbol)?;
                        unsafe {
                            std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($($argument),*)?) $(-> $result)?>(address)
                        }
                    },)+
                })
            }
        }
    };
    (@library base $base:ident $cpu:ident) => { $base };
    (@library cpu $base:ident $cpu:ident) => { $cpu };
}

functions! {
    base: op_name = "ggml_op_name" (c_int) -> *const c_char;
    base: type_traits = "ggml_get_type_traits" (u32) -> *const TypeTraits;
    base: nbytes = "ggml_nbytes" (*const Tensor) -> usize;
    base: row_size = "ggml_row_size" (u32, i64) -> usize;
    base: init = "ggml_init" (InitParams) -> *mut c_void;
    base: free = "ggml_free" (*mut c_void);
    base: new_tensor_3d = "ggml_new_tensor_3d" (*mut c_void, u32, i64, i64, i64) -> *mut Tensor;
    base: mul_mat = "ggml_mul_mat" (*mut c_void, *mut Tensor, *mut Tensor) -> *mut Tensor;
    base: buffer_init = "ggml_backend_buffer_init" (*mut BufferType, BufferInterface, *mut c_void, usize) -> *mut Buffer;
    base: cpu_buffer_type = "ggml_backend_cpu_buffer_type" () -> *mut BufferType;
    cpu: barrier = "ggml_barrier" (*mut c_void);
    cpu: cpu_type_traits = "ggml_get_type_traits_cpu" (u32) -> *const CpuTypeTraits;
    // ggml_backend_cpu_get_extra_buffer_types(), a C++ function that returns a reference.
    cpu: extra_buffer_types = "_Z39ggml_backend_cpu_get_extra_buffer_typesv" () -> *mut Vector;
}

/// A library that the process has loaded.
#[derive(Clone, Copy)]
struct Library(*mut c_void);

impl Library {
    fn find(self, symbol: &str) -> Result<*mut c_void, String> {
        let name = CString::new(symbol).map_err(|_| symbol.to_owned())?;
        let address = unsafe { system::dlsym(self.0, name.as_ptr()) };
        if address.is_null() { Err(format!("this build of llama.cpp does not show {symbol}")) } else { Ok(address) }
    }
}

/// What was found, and the CPU's device.
pub struct Found {
    pub symbols: Symbols,
    pub cpu_device: Device,
    pub version: String,
}

/// Looks everything up.
///
/// # Errors
///
/// What is missing, in words.
///
/// # Safety
///
/// `libllama` is a handle of the system's loader whose dependencies are ggml's libraries.
pub unsafe fn find(libllama: *mut c_void) -> Result<Found, String> {
    const CPU: c_int = 0; // GGML_BACKEND_DEVICE_TYPE_CPU
    let base = Library(libllama);
    let version =
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(base.find("ggml_version")?);
    let by_type = base.find("ggml_backend_dev_by_type")?;
    let by_type = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int) -> Device>(by_type);
    let registry_of = base.find("ggml_backend_dev_backend_reg")?;
    let registry_of = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Device) -> Registry>(registry_of);
    let address_of = base.find("ggml_backend_reg_get_proc_address")?;
    let address_of =
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(Registry, *const c_char) -> *mut c_void>(address_of);
    let cpu_device = by_type(CPU);
    if cpu_device.is_null() {
        return Err("llama.cpp has no CPU device".to_owned());
    }
    // The kernels may be in a library of their own that was loaded by name; a function of it leads there.
    let inside = address_of(registry_of(cpu_device), c"ggml_backend_dev_get_extra_bufts".as_ptr());
    if inside.is_null() {
        return Err("this build of llama.cpp has no extra buffer types".to_owned());
    }
    let cpu = Library(system::library_of(inside)?);
    let version = CStr::from_ptr(version()).to_string_lossy().into_owned();
    Ok(Found { symbols: Symbols::find_all(base, cpu)?, cpu_device, version })
}

#[cfg(unix)]
mod system {
    use std::ffi::{c_char, c_int, c_void};

    #[repr(C)]
    struct DlInfo {
        file: *const c_char,
        base: *mut c_void,
        symbol: *const c_char,
        address: *mut c_void,
    }

    unsafe extern "C" {
        pub fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
        fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void;
        fn dladdr(address: *const c_void, info: *mut DlInfo) -> c_int;
    }

    /// A handle of the loaded library that contains `address`.
    pub unsafe fn library_of(address: *mut c_void) -> Result<*mut c_void, String> {
        const RTLD_LAZY: c_int = 1;
        const RTLD_NOLOAD: c_int = if cfg!(target_os = "macos") { 16 } else { 4 };
        let mut info = DlInfo {
            file: std::ptr::null(),
            base: std::ptr::null_mut(),
            symbol: std::ptr::null(),
            address: std::ptr::null_mut(),
        };
        if dladdr(address, &raw mut info) == 0 || info.file.is_null() {
            return Err("the library of llama.cpp's CPU kernels cannot be found".to_owned());
        }
        let handle = dlopen(info.file, RTLD_LAZY | RTLD_NOLOAD);
        if handle.is_null() { Err("the library of llama.cpp's CPU kernels is not open".to_owned()) } else { Ok(handle) }
    }
}

#[cfg(not(unix))]
mod system {
    use std::ffi::{c_char, c_void};

    pub unsafe fn dlsym(_handle: *mut c_void, _symbol: *const c_char) -> *mut c_void {
        std::ptr::null_mut()
    }
    pub unsafe fn library_of(_address: *mut c_void) -> Result<*mut c_void, String> {
        Err("there are no kernels of our own for this system".to_owned())
    }
}
