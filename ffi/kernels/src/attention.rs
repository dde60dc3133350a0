//! Attention over the visible cells, in the order of their positions.
//!
//! Every output has one order of operations, whatever other rows, cells and threads there are:
//!
//! ```text
//! product of a cell = 16 sums, sum j by fma over the head's values j, j + 16, ... in order; then folded in halves
//! score of a cell  = product times scale, soft-capped, plus slope * mask
//! largest          = of all visible scores and the sink
//! weight of a cell = exp(score - largest)
//! sum of weights   = an integer in units of 2 ** -24, so exact in any order
//! output           = fma(weight, value) over the visible cells in order, times 1 / sum
//! ```
//!
//! A cell that a row does not see has weight 0, which changes nothing wherever it stands. So rows that see nearly the same
//! cells are computed together.

use crate::exponential::exp;
use crate::half;
use crate::product::{Bf16, F16, F32, Float};
use crate::simd::{Simd, prefetch};
use std::ops::Range;

/// Cells whose keys or values are widened together.
pub const BLOCK: usize = 16;
/// Heads times rows that are computed together at most.
pub const MAX_QUERIES: usize = 32;
/// Scores that are kept at once.
const SCORES: usize = 1 << 16;
/// Queries whose sums of a block are in registers together.
const TOGETHER: usize = 4;
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
    pub rows: Range<usize>,
    pub heads: Range<usize>,
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

/// Heads whose scores are kept at once, so that memory is read cell after cell for all of them: as many as a core's cache
/// has room for, at least those of one step.
fn heads_at_once(n_rows: usize, group: usize, n_cells: usize) -> usize {
    let fit = SCORES / (n_rows * padded(n_cells)).max(1);
    if fit < group { fit.max(heads_of_step(n_rows)).min(group) } else { fit / group * group }
}

/// Heads with the same keys that are computed together at most.
fn heads_of_step(n_rows: usize) -> usize {
    (MAX_QUERIES / n_rows.max(1)).max(1)
}

/// Floats of scratch memory that a thread needs for parts of up to `n_rows` rows, `n_heads` heads and `n_cells` cells.
#[must_use]
pub fn scratch_floats(
    n_rows: usize,
    n_heads: usize,
    group: usize,
    n_cells: usize,
    key_width: usize,
    value_width: usize,
) -> usize {
    let (dk, dv, cells) = (padded(key_width), padded(value_width), padded(n_cells));
    // With fewer rows more heads may be kept.
    let queries = (1..=n_rows).map(|rows| rows * heads_at_once(rows, group, n_cells).min(n_heads)).max().unwrap_or(0);
    queries * (cells + dk + dv + 1) + n_rows * cells + BLOCK * dk.max(dv) + TOGETHER * BLOCK * BLOCK
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
    let widened = take(BLOCK * dk.max(dv));
    let partial = take(TOGETHER * BLOCK * BLOCK);
    let rest = take(0);

    let at_once = heads_at_once(n_rows, op.group, n_cells);
    let mut head = part.heads.start;
    while head < part.heads.end {
        // Up to where the last group of heads ends that has room, or within the first one.
        let last = if at_once < op.group {
            (head + at_once).min((head / op.group + 1) * op.group)
        } else {
            (head / op.group + at_once / op.group) * op.group
        };
        let heads = head..last.min(part.heads.end);
        let n_queries = n_rows * heads.len();
        let queries = rest;
        let scores = queries.add(n_queries * dk);
        let sums = scores.add(n_queries * stride);
        let inverses = sums.add(n_queries * dv);
        // Queries of one head after those of the other, each head's in the order of rows.
        for q in 0..n_queries {
            let (row, h) = (part.rows.start + q % n_rows, head + q / n_rows);
            let from = op.queries.add(row * op.query_row_stride + h * op.query_head_stride);
            widen::<S>(CellType::F32, from, op.keys.width, queries.add(q * dk));
        }
        for first in (0..n_cells).step_by(BLOCK) {
            for step in steps(heads.clone(), n_rows, op.group) {
                let (kv_head, q, n) = (step.start / op.group, (step.start - head) * n_rows, step.len() * n_rows);
                let (queries, scores) = (queries.add(q * dk), scores.add(q * stride + first));
                let block = Block::new::<S>(&op.keys, kv_head, part.cells, first, widened);
                block.score::<S>(queries, n, partial, scores, stride);
            }
        }
        for q in 0..n_queries {
            let mask = masks.add(q % n_rows * stride);
            inverses.add(q).write(weigh::<S>(op, head + q / n_rows, scores.add(q * stride), mask, stride));
        }
        std::ptr::write_bytes(sums, 0, n_queries * dv);
        for first in (0..n_cells).step_by(BLOCK) {
            for step in steps(heads.clone(), n_rows, op.group) {
                let (kv_head, q, n) = (step.start / op.group, (step.start - head) * n_rows, step.len() * n_rows);
                let block = Block::new::<S>(&op.values, kv_head, part.cells, first, widened);
                block.add::<S>(scores.add(q * stride + first), stride, n, sums.add(q * dv));
            }
        }
        for q in 0..n_queries {
            let (row, h) = (part.rows.start + q % n_rows, head + q / n_rows);
            let output = op.output.add(row * op.output_row_stride + h * op.output_head_stride).cast::<f32>();
            let inverse = inverses.add(q).read();
            for d in 0..op.values.width {
                output.add(d).write(sums.add(q * dv + d).read() * inverse);
            }
        }
        head = heads.end;
    }
}

/// The heads of `heads` that are computed together: they share keys.
fn steps(heads: Range<usize>, n_rows: usize, group: usize) -> impl Iterator<Item = Range<usize>> {
    let mut first = heads.start;
    std::iter::from_fn(move || {
        let last = ((first / group + 1) * group).min(heads.end).min(first + heads_of_step(n_rows));
        let step = first..last;
        first = last;
        (!step.is_empty()).then_some(step)
    })
}

/// Up to 16 cells of one head: where each lies, in memory or widened.
struct Block {
    rows: [*const u8; BLOCK],
    /// The next block's, to be fetched meanwhile.
    ahead: [*const u8; BLOCK],
    n: usize,
    of: CellType,
    /// Values of a row, filled up to a multiple of 16.
    width: usize,
}

impl Block {
    /// The cells as they lie in memory, if they can be used so; else widened to `widened`.
    #[inline(always)]
    unsafe fn new<S: Simd>(of: &Cells, kv_head: usize, cells: &[u32], first: usize, widened: *mut f32) -> Self {
        let head = of.data.add(kv_head * of.head_stride);
        let place = |cell: u32| head.add(cell as usize * of.cell_stride);
        let n = BLOCK.min(cells.len() - first);
        let (mut rows, mut ahead) = ([head; BLOCK], [head; BLOCK]);
        for (row, &cell) in rows.iter_mut().zip(&cells[first..first + n]) {
            *row = place(cell);
        }
        for (row, &cell) in ahead.iter_mut().zip(&cells[first + n..]) {
            *row = place(cell);
        }
        let is_usable = matches!(of.of, CellType::F16 | CellType::Bf16 | CellType::F32);
        if is_usable && of.width.is_multiple_of(BLOCK) {
            return Self { rows, ahead, n, of: of.of, width: of.width };
        }
        let width = padded(of.width);
        for (c, row) in rows.iter_mut().enumerate() {
            let to = widened.add(c * width);
            if c < n {
                widen::<S>(of.of, *row, of.width, to);
            }
            *row = to.cast();
        }
        Self { rows, ahead: rows, n, of: CellType::F32, width }
    }

    /// Products of these cells with queries. `partial` has room for 16 sums of 16 cells and `TOGETHER` queries.
    #[inline(always)]
    unsafe fn score<S: Simd>(
        &self,
        queries: *const f32,
        n_queries: usize,
        partial: *mut f32,
        scores: *mut f32,
        stride: usize,
    ) {
        match self.of {
            CellType::F16 => self.score_tiles::<S, F16>(queries, n_queries, partial, scores, stride),
            CellType::Bf16 => self.score_tiles::<S, Bf16>(queries, n_queries, partial, scores, stride),
            _ => self.score_tiles::<S, F32>(queries, n_queries, partial, scores, stride),
        }
    }

    #[inline(always)]
    unsafe fn score_tiles<S: Simd, T: Float>(
        &self,
        queries: *const f32,
        n_queries: usize,
        partial: *mut f32,
        scores: *mut f32,
        stride: usize,
    ) {
        let mut q = 0;
        while q < n_queries {
            let (queries, scores) = (queries.add(q * self.width), scores.add(q * stride));
            match n_queries - q {
                1 => self.score_tile::<S, T, 1>(queries, partial, scores, stride),
                2 => self.score_tile::<S, T, 2>(queries, partial, scores, stride),
                3 => self.score_tile::<S, T, 3>(queries, partial, scores, stride),
                _ => self.score_tile::<S, T, 4>(queries, partial, scores, stride),
            }
            q += TOGETHER;
        }
    }

    #[inline(always)]
    unsafe fn score_tile<S: Simd, T: Float, const Q: usize>(
        &self,
        queries: *const f32,
        partial: *mut f32,
        scores: *mut f32,
        stride: usize,
    ) {
        // As many cells as there are registers for meet a register of queries.
        let mut c = 0;
        while c < self.n {
            if S::W == BLOCK {
                self.partial_sums::<S, T, Q, 4>(c, queries, partial);
                c += 4;
            } else {
                self.partial_sums::<S, T, Q, 2>(c, queries, partial);
                c += 2;
            }
        }
        for q in 0..Q {
            let partial = partial.add(q * BLOCK * BLOCK);
            std::ptr::write_bytes(partial.add(self.n * BLOCK), 0, (BLOCK - self.n) * BLOCK);
            S::fold(partial, scores.add(q * stride));
        }
    }

    /// The 16 sums of `C` cells and `Q` queries.
    #[inline(always)]
    unsafe fn partial_sums<S: Simd, T: Float, const Q: usize, const C: usize>(
        &self,
        first: usize,
        queries: *const f32,
        partial: *mut f32,
    ) {
        for part in (0..BLOCK).step_by(S::W) {
            let mut sums = [[S::splat(0.0); Q]; C];
            let mut d = part;
            while d < self.width {
                for (c, sums) in sums.iter_mut().enumerate() {
                    prefetch(self.ahead[first + c].wrapping_add(d * T::BYTES));
                    let key = T::load::<S>(self.rows[first + c].add(d * T::BYTES));
                    for (q, sum) in sums.iter_mut().enumerate() {
                        *sum = S::fma(S::load(queries.add(q * self.width + d)), key, *sum);
                    }
                }
                d += BLOCK;
            }
            for (c, sums) in sums.into_iter().enumerate() {
                for (q, sum) in sums.into_iter().enumerate() {
                    S::store(partial.add((q * BLOCK + first + c) * BLOCK + part), sum);
                }
            }
        }
    }

    /// Adds the weighted values of these cells to every query's sums.
    #[inline(always)]
    unsafe fn add<S: Simd>(&self, weights: *const f32, stride: usize, n_queries: usize, sums: *mut f32) {
        match self.of {
            CellType::F16 => self.add_tiles::<S, F16>(weights, stride, n_queries, sums),
            CellType::Bf16 => self.add_tiles::<S, Bf16>(weights, stride, n_queries, sums),
            _ => self.add_tiles::<S, F32>(weights, stride, n_queries, sums),
        }
    }

    #[inline(always)]
    unsafe fn add_tiles<S: Simd, T: Float>(
        &self,
        weights: *const f32,
        stride: usize,
        n_queries: usize,
        sums: *mut f32,
    ) {
        let mut q = 0;
        while q < n_queries {
            let (weights, sums) = (weights.add(q * stride), sums.add(q * self.width));
            match n_queries - q {
                1 => self.add_tile::<S, T, 1>(weights, stride, sums),
                2 => self.add_tile::<S, T, 2>(weights, stride, sums),
                3 => self.add_tile::<S, T, 3>(weights, stride, sums),
                _ => self.add_tile::<S, T, 4>(weights, stride, sums),
            }
            q += TOGETHER;
        }
    }

    #[inline(always)]
    unsafe fn add_tile<S: Simd, T: Float, const Q: usize>(&self, weights: *const f32, stride: usize, sums: *mut f32) {
        // As many sums as there are registers for: 32 of 16 lanes, 16 of others.
        let mut d = 0;
        while S::W == BLOCK && d + 4 * S::W <= self.width {
            self.add_values::<S, T, Q, 4>(weights, stride, d, sums);
            d += 4 * S::W;
        }
        while d + 2 * S::W <= self.width {
            self.add_values::<S, T, Q, 2>(weights, stride, d, sums);
            d += 2 * S::W;
        }
        while d < self.width {
            self.add_values::<S, T, Q, 1>(weights, stride, d, sums);
            d += S::W;
        }
    }

    #[inline(always)]
    unsafe fn add_values<S: Simd, T: Float, const Q: usize, const V: usize>(
        &self,
        weights: *const f32,
        stride: usize,
        d: usize,
        sums: *mut f32,
    ) {
        let mut total = [[S::splat(0.0); V]; Q];
        for (q, of_query) in total.iter_mut().enumerate() {
            for (v, sum) in of_query.iter_mut().enumerate() {
                *sum = S::load(sums.add(q * self.width + d + v * S::W));
            }
        }
        for (c, row) in self.rows.iter().enumerate().take(self.n) {
            let mut value = [S::splat(0.0); V];
            prefetch(self.ahead[c].wrapping_add(d * T::BYTES));
            prefetch(self.ahead[c].wrapping_add(d * T::BYTES + 64));
            for (v, value) in value.iter_mut().enumerate() {
                *value = T::load::<S>(row.add((d + v * S::W) * T::BYTES));
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
                S::store(sums.add(q * self.width + d + v * S::W), sum);
            }
        }
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
