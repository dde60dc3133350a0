//! Attention over the visible cells, in the order of their positions.
//!
//! Every output has one order of operations, whatever other rows, cells and threads there are:
//!
//! ```text
//! score of a cell  = fma over the head's values in order, times scale, soft-capped, plus slope * mask
//! largest          = of all visible scores and the sink
//! weight of a cell = exp(score - largest)
//! sum of weights   = an integer in units of 2 ** -24, so exact in any order
//! output           = fma(weight, value) over the visible cells in order, times 1 / sum
//! ```
//!
//! A cell that a row does not see has weight 0, which changes nothing wherever it stands. So rows that see nearly the same
//! cells are computed together, and a block of keys or values is widened once for all of them.

use crate::exponential::exp;
use crate::half;
use crate::simd::{Simd, prefetch};

/// Cells whose keys or values are widened together.
pub const BLOCK: usize = 16;
/// Heads times rows that are computed together at most.
pub const MAX_QUERIES: usize = 32;
/// A 16-bit minus infinity: the mask of a cell that is not seen.
pub const HIDDEN: u16 = 0xFC00;

const WEIGHT_UNIT: f32 = 16_777_216.0; // 2 ** 24
/// Registers of weights that are added up in 32 bits before they might overflow: 64 * 2 ** 24 < 2 ** 31.
const MAX_ADDED: usize = 64;

/// The type of keys or values in memory.
#[derive(Clone, Copy, Debug)]
pub enum CellType {
    F32,
    F16,
    Bf16,
    Q8_0,
    /// Any other type of ggml, with its own function that widens a row.
    Other(unsafe extern "C" fn(*const u8, *mut f32, i64)),
}

/// A tensor of keys or values.
#[derive(Clone, Copy)]
pub struct Cells {
    pub data: *const u8,
    pub of: CellType,
    /// Bytes from a cell to the next, and from a head to the next.
    pub cell_stride: usize,
    pub head_stride: usize,
    /// Values of a head.
    pub width: usize,
}

/// One operation: `n_rows` rows of queries over one memory.
pub struct Attention<'a> {
    pub queries: *const u8,
    pub query_row_stride: usize,
    pub query_head_stride: usize,
    pub keys: Cells,
    pub values: Cells,
    /// 16-bit floats, a row of cells per row of queries; null where every row sees all.
    pub mask: *const u16,
    /// Elements from a mask's row to the next.
    pub mask_stride: usize,
    pub n_rows: usize,
    pub n_heads: usize,
    /// Heads of queries that share keys and values.
    pub group: usize,
    pub scale: f32,
    /// 0 without.
    pub softcap: f32,
    /// What the mask is multiplied with, per head (ALiBi).
    pub slopes: &'a [f32],
    /// A logit per head that takes part in the softmax and has no value; null without.
    pub sinks: *const f32,
    pub output: *mut u8,
    pub output_row_stride: usize,
    pub output_head_stride: usize,
}

/// The part of one thread: some heads of some rows, over the cells that any of these rows sees.
pub struct Part<'a> {
    pub rows: std::ops::Range<usize>,
    pub heads: std::ops::Range<usize>,
    /// In the order of positions.
    pub cells: &'a [u32],
}

/// Rows that are computed together: as many as fit `MAX_QUERIES`, fewer where the memory is long.
#[must_use]
pub fn rows_of_tile(group: usize, n_cells: usize) -> usize {
    let fit = MAX_QUERIES / group.clamp(1, MAX_QUERIES);
    let short = (1 << 20) / (4 * group * n_cells.max(1));
    fit.min(short).clamp(1, 8)
}

const fn padded(n: usize) -> usize {
    n.next_multiple_of(BLOCK)
}

/// Floats of scratch memory that a thread needs for parts of up to `n_rows` rows and `n_cells` cells.
#[must_use]
pub fn scratch_floats(n_rows: usize, group: usize, n_cells: usize, key_width: usize, value_width: usize) -> usize {
    let (dk, dv, n_queries) = (padded(key_width), padded(value_width), n_rows * group);
    let cells = padded(n_cells);
    n_queries * (cells + dk + dv) + n_rows * cells + 2 * BLOCK * dk + BLOCK * dv + 4 * BLOCK
}

/// Widens `n` values of one head of one cell.
#[inline(always)]
unsafe fn widen<S: Simd>(of: CellType, from: *const u8, n: usize, to: *mut f32) {
    let whole = n / BLOCK * BLOCK;
    let mut i = 0;
    match of {
        CellType::F16 => {
            while i < whole {
                S::store(to.add(i), S::load_f16(from.cast::<u16>().add(i)));
                i += S::W;
            }
            for i in whole..n {
                to.add(i).write(half::widened(from.cast::<u16>().add(i).read_unaligned()));
            }
        }
        CellType::Bf16 => {
            while i < whole {
                S::store(to.add(i), S::load_bf16(from.cast::<u16>().add(i)));
                i += S::W;
            }
            for i in whole..n {
                to.add(i).write(f32::from_bits(u32::from(from.cast::<u16>().add(i).read_unaligned()) << 16));
            }
        }
        CellType::F32 => std::ptr::copy_nonoverlapping(from, to.cast::<u8>(), 4 * n),
        CellType::Q8_0 => {
            // Heads are a multiple of 32 values wide, or llama.cpp makes no such memory.
            while i < n {
                let block = from.add(i / 32 * 34);
                let scale = S::splat(half::widened(block.cast::<u16>().read_unaligned()));
                S::store(to.add(i), S::mul(scale, S::load_i8(block.add(2 + i % 32))));
                i += S::W;
            }
        }
        CellType::Other(function) => function(from, to, n as i64),
    }
    for i in n..padded(n) {
        to.add(i).write(0.0);
    }
}

/// Computes one part.
///
/// # Safety
///
/// All pointers are valid for the sizes stated; `scratch` has `scratch_floats` floats; nobody else writes these outputs.
#[inline(always)]
pub unsafe fn attend<S: Simd>(op: &Attention, part: &Part, scratch: *mut f32) {
    let (dk, dv) = (padded(op.keys.width), padded(op.values.width));
    let n_rows = part.rows.len();
    let n_cells = part.cells.len();
    let stride = padded(n_cells);
    let masks = scratch;
    let mut free = masks.add(n_rows * stride);
    visible_masks::<S>(op, part, masks, stride);
    let mut take = |n: usize| {
        let at = free;
        free = free.add(n);
        at
    };
    let rows_of_keys = take(BLOCK * dk);
    let keys = take(BLOCK * dk);
    let values = take(BLOCK * dv);
    let rest = take(0);

    let mut head = part.heads.start;
    while head < part.heads.end {
        // The heads of this part that share keys and values.
        let kv_head = head / op.group;
        let last = ((kv_head + 1) * op.group).min(part.heads.end).min(head + (MAX_QUERIES / n_rows).max(1));
        let n_heads = last - head;
        let n_queries = n_rows * n_heads;
        let queries = rest;
        let scores = queries.add(n_queries * dk);
        let sums = scores.add(n_queries * stride);
        for q in 0..n_queries {
            let (row, h) = (part.rows.start + q / n_heads, head + q % n_heads);
            let from = op.queries.add(row * op.query_row_stride + h * op.query_head_stride);
            widen::<S>(CellType::F32, from, op.keys.width, queries.add(q * dk));
        }
        let key_head = op.keys.data.add(kv_head * op.keys.head_stride);
        let value_head = op.values.data.add(kv_head * op.values.head_stride);
        let mut first = 0;
        while first < n_cells {
            let n = BLOCK.min(n_cells - first);
            for c in 0..n {
                if first + BLOCK + c < n_cells {
                    let ahead = key_head.add(part.cells[first + BLOCK + c] as usize * op.keys.cell_stride);
                    prefetch(ahead);
                    prefetch(ahead.add(64));
                }
                let cell = key_head.add(part.cells[first + c] as usize * op.keys.cell_stride);
                widen::<S>(op.keys.of, cell, op.keys.width, rows_of_keys.add(c * dk));
            }
            for c in n..BLOCK {
                std::ptr::write_bytes(rows_of_keys.add(c * dk), 0, dk);
            }
            transpose::<S>(rows_of_keys, dk, keys);
            score_block::<S>(queries, n_queries, dk, keys, scores.add(first), stride);
            first += BLOCK;
        }
        for q in 0..n_queries {
            let h = head + q % n_heads;
            let mask = masks.add(q / n_heads * stride);
            let inverse = weigh::<S>(op, h, scores.add(q * stride), mask, stride);
            sums.add(q * dv).write(inverse); // kept in the first value's place until the sums begin
        }
        let mut inverses = [0.0_f32; MAX_QUERIES];
        for (q, inverse) in inverses.iter_mut().enumerate().take(n_queries) {
            *inverse = sums.add(q * dv).read();
        }
        std::ptr::write_bytes(sums, 0, n_queries * dv);
        let mut first = 0;
        while first < n_cells {
            let n = BLOCK.min(n_cells - first);
            for c in 0..n {
                if first + BLOCK + c < n_cells {
                    let ahead = value_head.add(part.cells[first + BLOCK + c] as usize * op.values.cell_stride);
                    prefetch(ahead);
                    prefetch(ahead.add(64));
                }
                let cell = value_head.add(part.cells[first + c] as usize * op.values.cell_stride);
                widen::<S>(op.values.of, cell, op.values.width, values.add(c * dv));
            }
            add_block::<S>(scores.add(first), stride, n, n_queries, values, dv, sums);
            first += BLOCK;
        }
        for (q, inverse) in inverses.iter().enumerate().take(n_queries) {
            let (row, h) = (part.rows.start + q / n_heads, head + q % n_heads);
            let output = op.output.add(row * op.output_row_stride + h * op.output_head_stride).cast::<f32>();
            for d in 0..op.values.width {
                output.add(d).write(sums.add(q * dv + d).read() * inverse);
            }
        }
        head = last;
    }
}

/// The mask of each row over the part's cells as floats; minus infinity beyond the last one.
#[inline(always)]
unsafe fn visible_masks<S: Simd>(op: &Attention, part: &Part, masks: *mut f32, stride: usize) {
    let n = part.cells.len();
    let first = part.cells.first().map_or(0, |&cell| cell as usize);
    let is_run = n > 0 && part.cells[n - 1] as usize == first + n - 1 && part.cells.is_sorted();
    for (i, row) in part.rows.clone().enumerate() {
        let to = masks.add(i * stride);
        if op.mask.is_null() {
            for c in 0..n {
                to.add(c).write(0.0);
            }
        } else {
            let from = op.mask.add(row * op.mask_stride);
            let mut c = 0;
            while is_run && c + S::W <= n {
                S::store(to.add(c), S::load_f16(from.add(first + c)));
                c += S::W;
            }
            while c < n {
                to.add(c).write(half::widened(from.add(part.cells[c] as usize).read()));
                c += 1;
            }
        }
        for c in n..stride {
            to.add(c).write(f32::NEG_INFINITY);
        }
    }
}

/// `from`: 16 rows of `width` floats; `to`: for each of `width` values, that of all 16 rows.
#[inline(always)]
unsafe fn transpose<S: Simd>(from: *const f32, width: usize, to: *mut f32) {
    let mut d = 0;
    while d < width {
        let mut c = 0;
        while c < BLOCK {
            S::transpose(from.add(c * width + d), width, to.add(d * BLOCK + c), BLOCK);
            c += S::W;
        }
        d += S::W;
    }
}

/// Scores of 16 cells for every query, four queries at a time.
#[inline(always)]
unsafe fn score_block<S: Simd>(
    queries: *const f32,
    n: usize,
    width: usize,
    keys: *const f32,
    scores: *mut f32,
    stride: usize,
) {
    let mut q = 0;
    while q + 4 <= n {
        score_tile::<S, 4>(queries.add(q * width), width, keys, scores.add(q * stride), stride);
        q += 4;
    }
    match n - q {
        3 => score_tile::<S, 3>(queries.add(q * width), width, keys, scores.add(q * stride), stride),
        2 => score_tile::<S, 2>(queries.add(q * width), width, keys, scores.add(q * stride), stride),
        1 => score_tile::<S, 1>(queries.add(q * width), width, keys, scores.add(q * stride), stride),
        _ => {}
    }
}

#[inline(always)]
unsafe fn score_tile<S: Simd, const Q: usize>(
    queries: *const f32,
    width: usize,
    keys: *const f32,
    scores: *mut f32,
    stride: usize,
) {
    let mut part = 0;
    while part < BLOCK {
        let mut sums = [S::splat(0.0); Q];
        for d in 0..width {
            let key = S::load(keys.add(d * BLOCK + part));
            for (q, sum) in sums.iter_mut().enumerate() {
                *sum = S::fma(S::splat(queries.add(q * width + d).read()), key, *sum);
            }
        }
        for (q, sum) in sums.into_iter().enumerate() {
            S::store(scores.add(q * stride + part), sum);
        }
        part += S::W;
    }
}

/// Turns the products of one query into weights, and returns 1 / their sum; 0 where it sees nothing.
#[inline(always)]
unsafe fn weigh<S: Simd>(op: &Attention, head: usize, scores: *mut f32, mask: *const f32, n: usize) -> f32 {
    let slope = S::splat(op.slopes[head]);
    let sink = if op.sinks.is_null() { f32::NEG_INFINITY } else { op.sinks.add(head).read() };
    let mut largest = S::splat(sink);
    let mut c = 0;
    while c < n {
        let score = S::load(scores.add(c));
        let score = if op.softcap == 0.0 {
            S::mul(score, S::splat(op.scale))
        } else {
            let capped = crate::exponential::tanh::<S>(S::mul(score, S::splat(op.scale / op.softcap)));
            S::mul(capped, S::splat(op.softcap))
        };
        let score = S::fma(slope, S::load(mask.add(c)), score);
        S::store(scores.add(c), score);
        largest = S::max(largest, score);
        c += S::W;
    }
    let largest = S::max_lane(largest);
    if largest == f32::NEG_INFINITY {
        std::ptr::write_bytes(scores, 0, n);
        return 0.0;
    }
    let mut total = 0_i64;
    if !op.sinks.is_null() {
        // One lane's worth of the sink's own weight.
        let mut lanes = [0.0_f32; BLOCK];
        S::store(lanes.as_mut_ptr(), exp::<S>(S::splat(sink - largest)));
        total = (lanes[0] * WEIGHT_UNIT).round_ties_even() as i64;
    }
    let unit = S::splat(WEIGHT_UNIT);
    let shift = S::splat(largest);
    let mut c = 0;
    while c < n {
        let end = (c + MAX_ADDED * S::W).min(n);
        let mut sum = S::splat_i(0);
        while c < end {
            let weight = exp::<S>(S::sub(S::load(scores.add(c)), shift));
            S::store(scores.add(c), weight);
            sum = S::add_i(sum, S::round(S::mul(weight, unit)));
            c += S::W;
        }
        let mut lanes = [0_i32; BLOCK];
        S::store_i(lanes.as_mut_ptr(), sum);
        for lane in lanes.iter().take(S::W) {
            total += i64::from(*lane);
        }
    }
    (f64::from(WEIGHT_UNIT) / total as f64) as f32
}

/// Adds weighted values of `n` cells to every query's sums.
#[inline(always)]
unsafe fn add_block<S: Simd>(
    weights: *const f32,
    stride: usize,
    n: usize,
    n_queries: usize,
    values: *const f32,
    width: usize,
    sums: *mut f32,
) {
    let mut q = 0;
    while q + 2 <= n_queries {
        add_tile::<S, 2>(weights.add(q * stride), stride, n, values, width, sums.add(q * width));
        q += 2;
    }
    if q < n_queries {
        add_tile::<S, 1>(weights.add(q * stride), stride, n, values, width, sums.add(q * width));
    }
}

#[inline(always)]
unsafe fn add_tile<S: Simd, const Q: usize>(
    weights: *const f32,
    stride: usize,
    n: usize,
    values: *const f32,
    width: usize,
    sums: *mut f32,
) {
    let mut d = 0;
    while d + 4 * S::W <= width {
        add_values::<S, Q, 4>(weights, stride, n, values.add(d), width, sums.add(d));
        d += 4 * S::W;
    }
    while d < width {
        add_values::<S, Q, 1>(weights, stride, n, values.add(d), width, sums.add(d));
        d += S::W;
    }
}

#[inline(always)]
unsafe fn add_values<S: Simd, const Q: usize, const V: usize>(
    weights: *const f32,
    stride: usize,
    n: usize,
    values: *const f32,
    width: usize,
    sums: *mut f32,
) {
    let mut total = [[S::splat(0.0); V]; Q];
    for (q, of_query) in total.iter_mut().enumerate() {
        for (v, sum) in of_query.iter_mut().enumerate() {
            *sum = S::load(sums.add(q * width + v * S::W));
        }
    }
    for c in 0..n {
        let mut value = [S::splat(0.0); V];
        for (v, value) in value.iter_mut().enumerate() {
            *value = S::load(values.add(c * width + v * S::W));
        }
        for (q, of_query) in total.iter_mut().enumerate() {
            let weight = S::splat(weights.add(q * stride + c).read());
            for (v, sum) in of_query.iter_mut().enumerate() {
                *sum = S::fma(weight, value[v], *sum);
            }
        }
    }
    for (q, of_query) in total.into_iter().enumerate() {
        for (v, sum) in of_query.into_iter().enumerate() {
            S::store(sums.add(q * width + v * S::W), sum);
        }
    }
}
