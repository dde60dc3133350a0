//! Rows of activations made ready for products: in 8 bits with a scale per 32 values, and several rows side by side.
//!
//! A panel is up to `TILE` rows, block of 32 columns after block. A block of a panel of R rows has R times 32 bytes, R
//! scales, R (or 2 R) sums for the weights' offset, and R (or 2 R) sums for their minimum where they have one: what a
//! kernel reads per step lies at constant distances from one pointer.

use crate::formats::Format;
use crate::simd::Simd;

/// Below this largest value a block counts as zeros, so that no scale becomes infinite.
pub const SMALLEST: f32 = 1e-30;

/// What a panel must hold for a format of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    /// Sums per 32 values: 1 or 2.
    pub n_sums: usize,
    pub mins: bool,
    pub offset: i32,
}

impl Layout {
    #[must_use]
    pub const fn of<F: Format>() -> Self {
        Self { n_sums: 32 / F::SUB, mins: F::MINS, offset: F::OFFSET }
    }

    /// Bytes of one row's share of a block of 32 columns.
    #[must_use]
    pub const fn row_bytes(self) -> usize {
        32 + 4 + 4 * self.n_sums * (1 + self.mins as usize)
    }
}

/// Writes row `row` of `n_rows` into `panel`.
///
/// Per block: scale = largest magnitude / 127; each value is rounded to the nearest multiple of it, ties to even.
///
/// # Safety
///
/// `x` has `n_columns` floats, a multiple of 32; `panel` has room for all of its rows.
#[inline(always)]
pub unsafe fn quantize<S: Simd>(
    x: *const f32,
    n_columns: usize,
    panel: *mut u8,
    row: usize,
    n_rows: usize,
    layout: Layout,
) {
    let stride = layout.row_bytes() * n_rows;
    for b in 0..n_columns / 32 {
        let x = x.add(32 * b);
        let block = panel.add(b * stride);
        let mut largest = S::splat(0.0);
        let mut i = 0;
        while i < 32 {
            largest = S::max(largest, S::abs(S::load(x.add(i))));
            i += S::W;
        }
        let largest = S::max_lane(largest);
        let is_zero = largest < SMALLEST;
        let scale = if is_zero { 0.0 } else { largest / 127.0 };
        let inverse = S::splat(if is_zero { 0.0 } else { 127.0 / largest });
        let quants = block.add(32 * row).cast::<i8>();
        let mut sums = [0_i32; 2];
        for (half, sum) in sums.iter_mut().enumerate() {
            let mut total = S::splat_i(0);
            let mut i = 16 * half;
            while i < 16 * half + 16 {
                let rounded = S::round(S::mul(S::load(x.add(i)), inverse));
                total = S::add_i(total, rounded);
                S::store_i8(quants.add(i), rounded);
                i += S::W;
            }
            *sum = S::sum_i(total);
        }
        let words = block.add(32 * n_rows);
        words.cast::<f32>().add(row).write_unaligned(scale);
        let (first, second) = if layout.n_sums == 1 { (sums[0] + sums[1], 0) } else { (sums[0], sums[1]) };
        let offsets = words.add(4 * n_rows).cast::<i32>();
        let mins = words.add(4 * n_rows * (1 + layout.n_sums)).cast::<f32>();
        for (i, sum) in [first, second].into_iter().enumerate().take(layout.n_sums) {
            offsets.add(i * n_rows + row).write_unaligned(layout.offset * sum);
            if layout.mins {
                mins.add(i * n_rows + row).write_unaligned(scale * sum as f32);
            }
        }
    }
}

/// Writes row `row` of `n_rows` into a panel of floats, for weights in floats: column after column, the rows side by side.
///
/// # Safety
///
/// As `quantize`.
#[inline(always)]
pub unsafe fn interleave(x: *const f32, n_columns: usize, panel: *mut u8, row: usize, n_rows: usize) {
    let panel = panel.cast::<f32>();
    for k in 0..n_columns {
        panel.add(k * n_rows + row).write_unaligned(x.add(k).read_unaligned());
    }
}
