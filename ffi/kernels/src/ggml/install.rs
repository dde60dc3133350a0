//! Hooking in: everything is found and checked first, then the list of extra buffer types is ours.

use super::abi::{
    BufferType, ComputeParams, ExtraBufferType, ExtraBufferTypeTable, InitParams, Tensor, Traits, TraitsTable,
};
use super::symbols::{Found, Symbols, find};
use super::{attention, buffer, cells, mul_mat};
use crate::tier::{Tier, choose};
use crate::weights::WeightType;
use std::ffi::{CStr, c_int, c_void};
use std::sync::{Mutex, OnceLock};

/// The version whose internal structs `abi` mirrors.
const VERSION: &str = "0.25.3";
/// What ggml calls the types that have kernels, in the order of `WeightType::ALL`.
const TYPE_NAMES: [&str; WeightType::ALL.len()] = [
    "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl", "iq4_xs", "mxfp4", "f32",
    "f16", "bf16",
];

/// The numbers of ggml's operations that we look at.
pub struct Ops {
    pub mul_mat: u32,
    pub mul_mat_id: u32,
    pub flash_attn_ext: u32,
    pub set_rows: u32,
}

pub struct Seam {
    pub symbols: Symbols,
    pub tier: &'static Tier,
    pub ops: Ops,
    pub buffer_type: *mut BufferType,
}

// Pointers to functions and to objects that live for ever and never change.
unsafe impl Send for Seam {}
unsafe impl Sync for Seam {}

static SEAM: OnceLock<Seam> = OnceLock::new();
static INSTALLING: Mutex<()> = Mutex::new(());

/// Only for code that runs because `install` has hooked it in.
pub fn seam() -> &'static Seam {
    SEAM.get().expect("the kernels are installed")
}

/// The set of kernels that llama.cpp uses; None where it uses its own.
#[must_use]
pub fn installed() -> Option<&'static Tier> {
    SEAM.get().map(|seam| seam.tier)
}

/// Hooks the kernels into llama.cpp, before its first model is loaded. Again and again does no harm.
///
/// # Errors
///
/// Why llama.cpp goes on with its own kernels, in words.
///
/// # Safety
///
/// `libllama` is the loader's handle of libllama, whose backends are initialised.
pub unsafe fn install(libllama: *mut c_void, tier: Option<&str>) -> Result<&'static Tier, String> {
    let _guard = INSTALLING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(seam) = SEAM.get() {
        return Ok(seam.tier);
    }
    let tier = choose(tier).ok_or_else(|| match tier {
        Some(name) => format!("this processor has no kernels '{name}'"),
        None => "there are no kernels for this processor".to_owned(),
    })?;
    let Found { symbols, cpu_device, version } = find(libllama)?;
    if version != VERSION {
        return Err(format!("they are made for ggml {VERSION}, and {version} is loaded"));
    }
    let ops = Ops {
        mul_mat: number_of(&symbols, "MUL_MAT")?,
        mul_mat_id: number_of(&symbols, "MUL_MAT_ID")?,
        flash_attn_ext: number_of(&symbols, "FLASH_ATTN_EXT")?,
        set_rows: number_of(&symbols, "SET_ROWS")?,
    };
    check_layout(&symbols, &ops)?;
    let context: *mut ExtraBufferType = Box::leak(Box::new(ExtraBufferType { table: &EXTRA }));
    let buffer_type: *mut BufferType = Box::leak(Box::new(BufferType {
        interface: buffer::TYPE_INTERFACE,
        device: cpu_device,
        context: context.cast(),
    }));
    let list = (symbols.extra_buffer_types)();
    // Ours alone: llama.cpp's other packed types have kernels whose rows depend on their company.
    let entry = Box::leak(Box::new([buffer_type]));
    if (*list).begin.is_null() || (*list).begin == (*list).end {
        (*list).begin = entry.as_mut_ptr();
        (*list).capacity = entry.as_mut_ptr().add(1);
    } else {
        *(*list).begin = buffer_type;
    }
    (*list).end = (*list).begin.add(1);
    let _ = SEAM.set(Seam { symbols, tier, ops, buffer_type });
    cells::watch();
    Ok(tier)
}

fn number_of(symbols: &Symbols, name: &str) -> Result<u32, String> {
    const MOST: c_int = 96; // GGML_OP_COUNT is a few more than those we look for
    for i in 0..MOST {
        let found = unsafe { (symbols.op_name)(i) };
        if !found.is_null() && unsafe { CStr::from_ptr(found) }.to_bytes() == name.as_bytes() {
            return Ok(i.cast_unsigned());
        }
    }
    Err(format!("this build of llama.cpp has no operation {name}"))
}

/// Makes a tensor and looks whether its parts are where `abi` says.
unsafe fn check_layout(symbols: &Symbols, ops: &Ops) -> Result<(), String> {
    let wrong = |what: &str| Err(format!("{what} of this build of llama.cpp differs from what they are made for"));
    for (of, name) in WeightType::ALL.iter().zip(TYPE_NAMES) {
        let number = (0..64).find(|&number| WeightType::from_ggml(number) == Some(*of)).unwrap_or(64);
        let traits = (symbols.type_traits)(number);
        let (values, source, _) = of.block();
        let is_float = of.layout().is_none();
        let (values, source) = if is_float { (1, source / values) } else { (values, source) };
        if traits.is_null()
            || CStr::from_ptr((*traits).type_name).to_bytes() != name.as_bytes()
            || (*traits).block_size != values as i64
            || (*traits).type_size != source
        {
            return wrong(&format!("type {name}"));
        }
    }
    const F32: u32 = 0;
    let context = (symbols.init)(InitParams { mem_size: 1 << 16, mem_buffer: std::ptr::null_mut(), no_alloc: true });
    if context.is_null() {
        return Err("llama.cpp has no memory for a test".to_owned());
    }
    let a = (symbols.new_tensor_3d)(context, F32, 64, 5, 3);
    let b = (symbols.new_tensor_3d)(context, F32, 64, 7, 3);
    let product = (symbols.mul_mat)(context, a, b);
    let (matrix, made) = (&*a, &*product);
    let fits = matrix.ne == [64, 5, 3, 1]
        && matrix.nb == [4, 256, 1280, 3840]
        && matrix.buffer.is_null()
        && matrix.of == F32
        && made.op == ops.mul_mat
        && made.ne == [5, 7, 3, 1]
        && made.src[..3] == [a, b, std::ptr::null_mut()]
        && made.view_src.is_null()
        && made.data.is_null()
        && made.name[0] == 0
        && (symbols.nbytes)(a) == 3840;
    (symbols.free)(context);
    if fits { Ok(()) } else { wrong("the layout of tensors") }
}

// --- the two C++ objects that ggml calls ------------------------------------------------------------------------------

unsafe extern "C" fn never_destroyed<T>(_: *mut T) {}

static EXTRA: ExtraBufferTypeTable =
    ExtraBufferTypeTable { destructors: [never_destroyed::<ExtraBufferType>; 2], supports_op, get_tensor_traits };

/// Asked while weights are placed, and before a graph runs, about operations whose weights are packed.
unsafe extern "C" fn supports_op(_: *mut ExtraBufferType, _device: *mut c_void, op: *const Tensor) -> bool {
    mul_mat::takes_packed(&*op)
}

/// Asked about every operation of every pass, by every thread.
unsafe extern "C" fn get_tensor_traits(_: *mut ExtraBufferType, op: *const Tensor) -> *const Traits {
    let (op, ops) = (&*op, &seam().ops);
    if op.op == ops.mul_mat || op.op == ops.mul_mat_id {
        if op.source(0).is_some_and(buffer::is_packed) {
            return &raw const PACKED;
        }
        return if mul_mat::takes_stored(op) { &raw const STORED } else { std::ptr::null() };
    }
    if op.op == ops.flash_attn_ext && attention::takes(op) {
        return &raw const ATTENTION;
    }
    if op.op == ops.set_rows {
        return &raw const ROWS;
    }
    std::ptr::null()
}

macro_rules! traits {
    ($name:ident, $table:ident, $work_size:path, $compute:path) => {
        static $table: TraitsTable = TraitsTable {
            destructors: [never_destroyed::<Traits>; 2],
            work_size: {
                unsafe extern "C" fn work_size(_: *mut Traits, n: c_int, op: *const Tensor, size: *mut usize) -> bool {
                    match $work_size(&*op, usize::try_from(n).unwrap_or(1)) {
                        Some(bytes) => {
                            size.write(bytes + 64); // to be aligned
                            true
                        }
                        None => false,
                    }
                }
                work_size
            },
            compute_forward: {
                unsafe extern "C" fn compute(_: *mut Traits, params: *mut ComputeParams, op: *mut Tensor) -> bool {
                    $compute(&*params, &*op)
                }
                compute
            },
        };
        static $name: Traits = Traits { table: &$table };
    };
}
traits!(PACKED, PACKED_TABLE, mul_mat::packed_work_size, mul_mat::compute_packed);
traits!(STORED, STORED_TABLE, mul_mat::stored_work_size, mul_mat::compute_stored);
traits!(ATTENTION, ATTENTION_TABLE, attention::work_size, attention::compute);
traits!(ROWS, ROWS_TABLE, no_work, note_rows);

fn no_work(_op: &Tensor, _n_threads: usize) -> Option<usize> {
    None
}

/// Only looks on: ggml computes it.
unsafe fn note_rows(params: &ComputeParams, op: &Tensor) -> bool {
    if params.ith == 0 {
        cells::note_rows(op);
    }
    false
}
