//! FLASH_ATTN_EXT: attention over the KV cache.

use super::abi::{ComputeParams, Tensor};
use super::cells;
use super::install::seam;
use super::threads::Thread;
use crate::attention::{Attention, CellType, Cells, Part, rows_of_tile, scratch_floats};

const F32: u32 = 0;
const F16: u32 = 1;
const Q8_0: u32 = 8;
const BF16: u32 = 30;

/// How cells of this tensor are widened; None where nobody can.
fn cell_type(tensor: &Tensor) -> Option<CellType> {
    match tensor.of {
        F32 => Some(CellType::F32),
        F16 => Some(CellType::F16),
        BF16 => Some(CellType::Bf16),
        Q8_0 if tensor.size(0).is_multiple_of(32) => Some(CellType::Q8_0),
        of => unsafe { (*(seam().symbols.type_traits)(of)).to_float }.map(CellType::Other),
    }
}

pub fn takes(op: &Tensor) -> bool {
    let (Some(q), Some(k), Some(v)) = (op.source(0), op.source(1), op.source(2)) else {
        return false;
    };
    let in_order = |t: &Tensor| t.nb[0] == unsafe { (*(seam().symbols.type_traits)(t.of)).type_size };
    let mask_fits = op.source(3).is_none_or(|mask| mask.of == F16 && mask.size(2) == 1 && mask.nb[0] == 2);
    let sinks_fit = op.source(4).is_none_or(|sinks| sinks.of == F32);
    let heads_fit = k.size(2) > 0 && q.size(2).is_multiple_of(k.size(2)) && v.size(2) == k.size(2);
    let types_fit = q.of == F32 && op.of == F32 && cell_type(k).is_some() && cell_type(v).is_some();
    types_fit && in_order(q) && in_order(k) && in_order(v) && mask_fits && sinks_fit && heads_fit
}

/// Rows computed together, heads that share keys, cells.
fn sizes(op: &Tensor) -> Option<(usize, usize, usize)> {
    let (q, k) = (op.source(0)?, op.source(1)?);
    let group = q.size(2) / k.size(2);
    Some((rows_of_tile(group, k.size(1)).min(q.size(1).max(1)), group, k.size(1)))
}

fn floats_per_thread(op: &Tensor) -> Option<usize> {
    let (rows, group, n_cells) = sizes(op)?;
    Some(
        scratch_floats(rows, op.source(0)?.size(2), group, n_cells, op.source(1)?.size(0), op.source(2)?.size(0))
            .next_multiple_of(16),
    )
}

pub fn work_size(op: &Tensor, n_threads: usize) -> Option<usize> {
    Some(4 * n_threads * floats_per_thread(op)?)
}

/// ggml's slopes of ALiBi; 1 without.
fn slopes(n_heads: usize, max_bias: f32) -> Vec<f32> {
    if max_bias <= 0.0 {
        return vec![1.0; n_heads];
    }
    let below = f64::from(1_u32 << n_heads.max(1).ilog2());
    let max_bias = f64::from(max_bias);
    (0..n_heads)
        .map(|head| {
            let h = head as f64;
            let exponent = if h < below {
                -max_bias / below * (h + 1.0)
            } else {
                -max_bias / 2.0 / below * (2.0 * (h - below) + 1.0)
            };
            exponent.exp2() as f32
        })
        .collect()
}

fn cells_of(tensor: &Tensor, stream: usize) -> Option<Cells> {
    Some(Cells {
        data: unsafe { tensor.data.add(stream * tensor.nb[3]) },
        of: cell_type(tensor)?,
        cell_stride: tensor.nb[1],
        head_stride: tensor.nb[2],
        width: tensor.size(0),
    })
}

pub unsafe fn compute(params: &ComputeParams, op: &Tensor) -> bool {
    let thread = Thread::new(params);
    let (Some(q), Some(k), Some(v)) = (op.source(0), op.source(1), op.source(2)) else {
        return false;
    };
    let (Some((rows_at_once, group, n_cells)), Some(floats)) = (sizes(op), floats_per_thread(op)) else {
        return false;
    };
    let scratch = thread.scratch().cast::<f32>().add(floats * thread.index);
    let slopes = slopes(q.size(2), op.float_param(1));
    let mut visible = Vec::new();
    for stream in 0..q.size(3) {
        let shared_k = stream / (q.size(3) / k.size(3));
        let shared_v = stream / (q.size(3) / v.size(3));
        let (Some(keys), Some(values)) = (cells_of(k, shared_k), cells_of(v, shared_v)) else {
            return false;
        };
        let mask = op.source(3).map(|mask| (mask.data.add(stream % mask.size(3) * mask.nb[3]), mask.nb[1] / 2));
        let attention = Attention {
            queries: q.data.add(stream * q.nb[3]),
            query_row_stride: q.nb[1],
            query_head_stride: q.nb[2],
            keys,
            values,
            mask: mask.map_or(std::ptr::null(), |(data, _)| data.cast()),
            mask_stride: mask.map_or(0, |(_, stride)| stride),
            n_rows: q.size(1),
            n_heads: q.size(2),
            group,
            scale: op.float_param(0),
            softcap: op.float_param(2),
            slopes: &slopes,
            sinks: op.source(4).map_or(std::ptr::null(), |sinks| sinks.data.cast()),
            output: op.data.add(stream * op.nb[3]),
            output_row_stride: op.nb[2],
            output_head_stride: op.nb[1],
        };
        let n_tiles = attention.n_rows.div_ceil(rows_at_once);
        // Many tiles are dealt out whole; of few, every thread takes some heads.
        let by_tiles = n_tiles >= 4 * thread.count;
        for tile in 0..n_tiles {
            if by_tiles && tile % thread.count != thread.index {
                continue;
            }
            let rows = tile * rows_at_once..((tile + 1) * rows_at_once).min(attention.n_rows);
            let heads = if by_tiles { 0..attention.n_heads } else { thread.share(attention.n_heads) };
            if heads.is_empty() {
                continue;
            }
            cells::visible(keys.data, attention.mask, attention.mask_stride, rows.clone(), n_cells, &mut visible);
            (seam().tier.attend)(&attention, &Part { rows, heads, cells: &visible }, scratch);
        }
    }
    true
}
