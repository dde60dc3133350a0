//! MUL_MAT and MUL_MAT_ID: by our kernels where weights are packed, else row by row with ggml's own product of two rows,
//! which is exact at every width, at its old cost.

use super::abi::{ComputeParams, Tensor};
use super::buffer::shape_of;
use super::install::seam;
use super::threads::Thread;
use crate::product::{Panel, Product};
use crate::weights::Shape;

const F32: u32 = 0;
/// Up to so many values every thread prepares the activations for itself, which is cheaper than to wait for one another.
const ALONE: usize = 8192;
/// Bytes of activations that stay in a core's cache while weights pass by.
const CACHED: usize = 192 << 10;

/// A row of activations and where its outputs go; the expert is 0 where there is one matrix.
#[derive(Clone, Copy)]
struct Row {
    expert: usize,
    from: *const u8,
    to: *mut f32,
}

fn is_float_op(op: &Tensor, x: &Tensor) -> bool {
    op.of == F32 && x.of == F32 && x.nb[0] == 4 && op.nb[0] == 4
}

/// Whether packed weights can be used as this operation wants.
pub fn takes_packed(op: &Tensor) -> bool {
    let (Some(w), Some(x)) = (op.source(0), op.source(1)) else {
        return false;
    };
    // A view would point into the middle of what is packed.
    if !w.view_src.is_null() || shape_of(w).is_none() || !is_float_op(op, x) {
        return false;
    }
    let ops = &seam().ops;
    if op.op == ops.mul_mat_id { w.size(3) == 1 } else { op.op == ops.mul_mat && w.size(2) * w.size(3) == 1 }
}

/// Whether weights as ggml stores them can be multiplied pair by pair.
pub fn takes_stored(op: &Tensor) -> bool {
    const IS_HADAMARD: i32 = 1; // GGML_HINT_SRC0_IS_HADAMARD: each row by itself in ggml already
    let (Some(w), Some(x)) = (op.source(0), op.source(1)) else {
        return false;
    };
    let symbols = &seam().symbols;
    let traits = unsafe { &*(symbols.cpu_type_traits)(w.of) };
    if op.op == seam().ops.mul_mat && op.op_params[1] == IS_HADAMARD {
        return false;
    }
    let in_order = w.nb[0] == unsafe { (*(symbols.type_traits)(w.of)).type_size };
    let converts = x.of == traits.vec_dot_type
        || unsafe { (*(symbols.cpu_type_traits)(traits.vec_dot_type)).from_float }.is_some();
    in_order && is_float_op(op, x) && traits.vec_dot.is_some() && converts
}

/// Every row of the operation.
unsafe fn rows_of(op: &Tensor) -> Vec<Row> {
    let Some(x) = op.source(1) else {
        return Vec::new();
    };
    if op.op != seam().ops.mul_mat_id {
        return (0..x.n_rows()).map(|i| Row { expert: 0, from: x.row(i), to: op.row(i).cast() }).collect();
    }
    let Some(ids) = op.source(2) else {
        return Vec::new();
    };
    let mut rows = Vec::with_capacity(ids.size(0) * ids.size(1));
    for token in 0..ids.size(1) {
        for slot in 0..ids.size(0) {
            let expert = ids.data.add(token * ids.nb[1] + slot * ids.nb[0]).cast::<i32>().read();
            rows.push(Row {
                expert: usize::try_from(expert).unwrap_or(0),
                from: x.data.add(slot % x.size(1) * x.nb[1] + token * x.nb[2]),
                to: op.data.add(slot * op.nb[1] + token * op.nb[2]).cast(),
            });
        }
    }
    // Of one expert side by side; in what company a row is computed changes nothing.
    rows.sort_by_key(|row| row.expert);
    rows
}

fn n_rows_of(op: &Tensor) -> usize {
    let of_ids = if op.op == seam().ops.mul_mat_id { op.source(2) } else { None };
    of_ids.map_or_else(|| op.source(1).map_or(0, Tensor::n_rows), |ids| ids.size(0) * ids.size(1))
}

/// Bytes of a row of activations in a panel.
fn row_bytes(shape: Shape) -> usize {
    shape.of.layout().map_or(4 * shape.n_columns, |layout| layout.row_bytes() * shape.n_columns / 32)
}

/// Bytes of all panels, and whether each thread has its own.
fn panel_bytes(shape: Shape, n_rows: usize) -> (usize, bool) {
    ((n_rows * row_bytes(shape)).next_multiple_of(64), n_rows * shape.n_columns <= ALONE)
}

pub fn packed_work_size(op: &Tensor, n_threads: usize) -> Option<usize> {
    let (bytes, alone) = panel_bytes(shape_of(op.source(0)?)?, n_rows_of(op));
    Some(bytes * if alone { n_threads } else { 1 })
}

pub unsafe fn compute_packed(params: &ComputeParams, op: &Tensor) -> bool {
    let (thread, seam) = (Thread::new(params), seam());
    let Some(w) = op.source(0) else { return false };
    let Some(shape) = shape_of(w) else {
        return false;
    };
    let rows = rows_of(op);
    let (bytes, alone) = panel_bytes(shape, rows.len());
    let scratch = thread.scratch().add(if alone { bytes * thread.index } else { 0 });

    // Panels: rows of one expert, as many as a kernel takes, and all about as many.
    let mut panels: Vec<Panel> = Vec::new();
    let mut experts: Vec<(usize, std::ops::Range<usize>)> = Vec::new();
    let mut at = 0;
    for of_expert in rows.chunk_by(|a, b| a.expert == b.expert) {
        let first_panel = panels.len();
        let n_panels = of_expert.len().div_ceil(seam.tier.tile);
        for i in 0..n_panels {
            let range = of_expert.len() * i / n_panels..of_expert.len() * (i + 1) / n_panels;
            let activations = scratch.add(at * row_bytes(shape));
            let n_rows = range.len();
            let mut outputs = [std::ptr::null_mut(); 8];
            let is_mine = alone || panels.len() % thread.count == thread.index;
            for (r, row) in of_expert[range].iter().enumerate() {
                outputs[r] = row.to;
                if is_mine {
                    let (from, n) = (row.from.cast(), shape.n_columns);
                    match shape.of.layout() {
                        Some(layout) => (seam.tier.quantize)(from, n, activations, r, n_rows, layout),
                        None => (seam.tier.interleave)(from, n, activations, r, n_rows),
                    }
                }
            }
            panels.push(Panel { activations, n_rows, outputs });
            at += n_rows;
        }
        experts.push((of_expert[0].expert, first_panel..panels.len()));
    }
    if !alone {
        thread.wait();
    }
    let groups = thread.share(shape.n_groups());
    let panels_at_once = (CACHED / (row_bytes(shape) * seam.tier.tile)).max(1);
    let multiply = seam.tier.multiply(shape.of);
    for (expert, range) in experts {
        for panels in panels[range].chunks(panels_at_once) {
            let product = Product {
                weights: w.data.add(expert * shape.packed_bytes()),
                n_columns: shape.n_columns,
                n_outputs: shape.n_rows,
                panels,
            };
            multiply(&product, groups.start, groups.end);
        }
    }
    true
}

/// The type in which ggml multiplies activations with weights of `w`'s type, and bytes of a row in it.
unsafe fn stored_row(op: &Tensor) -> Option<(u32, usize)> {
    let (w, x) = (op.source(0)?, op.source(1)?);
    let symbols = &seam().symbols;
    let of = (*(symbols.cpu_type_traits)(w.of)).vec_dot_type;
    Some((of, (symbols.row_size)(of, x.ne[0]).next_multiple_of(64)))
}

pub fn stored_work_size(op: &Tensor, _n_threads: usize) -> Option<usize> {
    let (of, bytes) = unsafe { stored_row(op) }?;
    Some(if of == F32 { 0 } else { n_rows_of(op) * bytes })
}

pub unsafe fn compute_stored(params: &ComputeParams, op: &Tensor) -> bool {
    let (thread, symbols) = (Thread::new(params), &seam().symbols);
    let (Some(w), Some(x)) = (op.source(0), op.source(1)) else {
        return false;
    };
    let Some((of, bytes)) = stored_row(op) else {
        return false;
    };
    let Some(vec_dot) = (*(symbols.cpu_type_traits)(w.of)).vec_dot else {
        return false;
    };
    let mut rows = rows_of(op);
    if of != F32 {
        let Some(convert) = (*(symbols.cpu_type_traits)(of)).from_float else {
            return false;
        };
        for (i, row) in rows.iter_mut().enumerate() {
            let to = thread.scratch().add(i * bytes);
            if i % thread.count == thread.index {
                convert(row.from.cast(), to, x.ne[0]);
            }
            row.from = to;
        }
        thread.wait();
    }
    let is_experts = op.op == seam().ops.mul_mat_id;
    let outputs = thread.share(w.size(1));
    let n = i32::try_from(x.ne[0]).unwrap_or(0);
    for (i, row) in rows.iter().enumerate() {
        let matrix = if is_experts {
            w.data.add(row.expert * w.nb[2])
        } else {
            // Matrices are shared by as many of x's as there are more of them.
            let (i2, i3) = (i / x.size(1) % x.size(2), i / (x.size(1) * x.size(2)));
            w.data.add(i2 / (x.size(2) / w.size(2)) * w.nb[2] + i3 / (x.size(3) / w.size(3)) * w.nb[3])
        };
        for o in outputs.clone() {
            vec_dot(n, row.to.add(o), 0, matrix.add(o * w.nb[1]), 0, row.from, 0, 1);
        }
    }
    true
}
