//! In which order the cells of a memory were written, which for every sequence is the order of its positions.
//!
//! llama.cpp puts a token into any free cell, and its masks say which cells a row sees, not which position each has. So
//! each cell is stamped when it is written: by a pass (SET_ROWS into a tensor of keys), or when a saved state is restored
//! (its buffer's `set_tensor`).

use super::abi::{Buffer, BufferType, FreeBuffer, SetTensor, Tensor};
use super::install::seam;
use crate::attention::HIDDEN;
use std::collections::HashMap;
use std::sync::{OnceLock, RwLock};

#[derive(Default)]
struct Stamps {
    of_cell: Vec<u32>,
    last: u32,
}

impl Stamps {
    fn write(&mut self, cell: usize) {
        if cell >= self.of_cell.len() {
            self.of_cell.resize(cell + 1, 0);
        }
        self.last += 1;
        self.of_cell[cell] = self.last;
    }
}

/// By the address of a tensor of keys.
static MEMORIES: RwLock<Option<HashMap<usize, Stamps>>> = RwLock::new(None);

fn with_memories<R>(change: impl FnOnce(&mut HashMap<usize, Stamps>) -> R) -> R {
    let mut memories = MEMORIES.write().unwrap_or_else(std::sync::PoisonError::into_inner);
    change(memories.get_or_insert_default())
}

fn holds_keys(tensor: &Tensor) -> bool {
    tensor.name.starts_with(b"cache_k")
}

/// Notes a SET_ROWS that is about to be computed.
pub fn note_rows(op: &Tensor) {
    let (Some(cells), Some(memory)) = (op.source(1), unsafe { op.view_src.as_ref() }) else {
        return;
    };
    if !holds_keys(memory) || cells.size(1) != 1 {
        return;
    }
    let is_wide = cells.nb[0] == 8;
    with_memories(|memories| {
        let stamps = memories.entry(op.data.addr()).or_default();
        for i in 0..cells.size(0) {
            let at = unsafe { cells.data.add(i * cells.nb[0]) };
            let cell = unsafe { if is_wide { at.cast::<i64>().read() } else { i64::from(at.cast::<i32>().read()) } };
            stamps.write(usize::try_from(cell).unwrap_or(0));
        }
    });
}

/// Cells that some of `rows` see, in the order in which they were written.
///
/// `mask`: 16-bit floats, `stride` of them per row; null where every row sees all `n_cells`.
pub unsafe fn visible(
    keys: *const u8,
    mask: *const u16,
    stride: usize,
    rows: std::ops::Range<usize>,
    n_cells: usize,
    cells: &mut Vec<u32>,
) {
    cells.clear();
    if mask.is_null() {
        cells.extend(0..n_cells as u32);
    } else {
        const ALL_HIDDEN: u64 = HIDDEN as u64 * 0x0001_0001_0001_0001;
        let mut c = 0;
        while c < n_cells {
            // Four cells at a time: most are hidden from all rows, or seen.
            let n = 4.min(n_cells - c);
            let mut seen = [false; 4];
            for row in rows.clone() {
                let at = mask.add(row * stride + c);
                if n == 4 {
                    let four = at.cast::<u64>().read_unaligned();
                    if four == ALL_HIDDEN {
                        continue;
                    }
                    if four == 0 {
                        seen = [true; 4];
                        break;
                    }
                }
                for (i, seen) in seen.iter_mut().enumerate().take(n) {
                    *seen |= at.add(i).read() != HIDDEN;
                }
            }
            for (i, seen) in seen.into_iter().enumerate() {
                if seen {
                    cells.push((c + i) as u32);
                }
            }
            c += n;
        }
    }
    let memories = MEMORIES.read().unwrap_or_else(std::sync::PoisonError::into_inner);
    let Some(stamps) = memories.as_ref().and_then(|memories| memories.get(&keys.addr())) else {
        return;
    };
    let stamp = |cell: &u32| stamps.of_cell.get(*cell as usize).copied().unwrap_or(0);
    if !cells.is_sorted_by_key(stamp) {
        cells.sort_by_key(stamp);
    }
}

/// What ggml's own buffers of the CPU did before they were watched.
struct Watched {
    alloc_buffer: unsafe extern "C" fn(*mut BufferType, usize) -> *mut Buffer,
    set_tensor: OnceLock<SetTensor>,
    free_buffer: OnceLock<FreeBuffer>,
}

static WATCHED: OnceLock<Watched> = OnceLock::new();

/// From now on, buffers on the CPU tell when keys are restored into them, and when they end.
pub unsafe fn watch() {
    let of = (seam().symbols.cpu_buffer_type)();
    let interface = &raw mut (*of).interface;
    let Some(alloc_buffer) = (*interface).alloc_buffer else {
        return;
    };
    let watched = Watched { alloc_buffer, set_tensor: OnceLock::new(), free_buffer: OnceLock::new() };
    if WATCHED.set(watched).is_ok() {
        (*interface).alloc_buffer = Some(watched_alloc);
    }
}

unsafe extern "C" fn watched_alloc(of: *mut BufferType, size: usize) -> *mut Buffer {
    let Some(watched) = WATCHED.get() else {
        return std::ptr::null_mut();
    };
    let buffer = (watched.alloc_buffer)(of, size);
    if let Some(buffer) = buffer.as_mut()
        && let (Some(set_tensor), Some(free_buffer)) = (buffer.interface.set_tensor, buffer.interface.free_buffer)
    {
        watched.set_tensor.get_or_init(|| set_tensor);
        watched.free_buffer.get_or_init(|| free_buffer);
        buffer.interface.set_tensor = Some(watched_set);
        buffer.interface.free_buffer = Some(watched_free);
    }
    buffer
}

unsafe extern "C" fn watched_set(
    buffer: *mut Buffer,
    tensor: *mut Tensor,
    data: *const u8,
    offset: usize,
    size: usize,
) {
    let keys = &*tensor;
    if holds_keys(keys) && keys.nb[1] > 0 {
        let first = offset / keys.nb[1];
        with_memories(|memories| {
            let stamps = memories.entry(keys.data.addr()).or_default();
            for cell in first..(offset + size).div_ceil(keys.nb[1]) {
                stamps.write(cell);
            }
        });
    }
    if let Some(set_tensor) = WATCHED.get().and_then(|watched| watched.set_tensor.get()) {
        set_tensor(buffer, tensor, data, offset, size);
    }
}

unsafe extern "C" fn watched_free(buffer: *mut Buffer) {
    if let Some(get_base) = (*buffer).interface.get_base {
        let base = get_base(buffer).addr();
        let range = base..base + (*buffer).size;
        with_memories(|memories| memories.retain(|address, _| !range.contains(address)));
    }
    if let Some(free_buffer) = WATCHED.get().and_then(|watched| watched.free_buffer.get()) {
        free_buffer(buffer);
    }
}
