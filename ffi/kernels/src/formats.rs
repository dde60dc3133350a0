//! Packed weights: 16 rows of a matrix side by side, so that a register's lanes are rows and nothing is ever summed across
//! one. A format says how a block of 16 rows lies in memory and how to unpack four steps of it.
//!
//! A block holds `VALUES` columns of 16 rows; a step is 4 columns, 64 bytes: 4 bytes of row 0, 4 of row 1, and so on. Four
//! bits stay four bits, and further bits lie in planes of their own. ggml's own blocks have the same structure per row,
//! so packing mostly moves 4 bytes at a time.

mod blocks;
mod k_quants;
mod tables;

pub use blocks::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub use k_quants::{Q2K, Q3K, Q4K, Q5K, Q6K};
pub use tables::{Iq4Nl, Iq4Xs, Mxfp4};

use crate::simd::Simd;

/// Rows of weights side by side.
pub const GROUP: usize = 16;

/// One type of quantised weights. A weight is `scale * (quant + OFFSET)`, plus a minimum where it has `MINS`.
///
/// # Safety
///
/// `block` points to a packed block, `part` is the register's share of the 16 rows (from 0 to `16 / W - 1`), `sub` counts
/// blocks of 32 columns, `half` is 0 or 1 and counts its halves of 16.
pub trait Format: 'static {
    /// Columns of a block: 32 or 256.
    const VALUES: usize;
    /// Columns that share a scale: 32 or 16.
    const SUB: usize;
    /// The largest quant; 255 for signed bytes, which are stored plus 128.
    const MAX: u32;
    const OFFSET: i32;
    const MINS: bool;
    /// Bytes of a packed block of 16 rows.
    const BYTES: usize;
    /// Bytes of ggml's block of one row.
    const SOURCE: usize;

    /// Whether blocks are read from several places at once, which processors do not foresee by themselves.
    const FETCHES: bool = false;

    /// Scale and minimum of the whole block, where it has any.
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F);
    /// Four steps of quants.
    unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4];
    /// The scales, the block's own where it has no others; `half` is 0 where all 32 columns share one.
    #[inline(always)]
    unsafe fn scale<S: Simd>(head: (S::F, S::F), _block: *const u8, _sub: usize, _half: usize, _part: usize) -> S::F {
        head.0
    }
    /// The minimums, as what is added.
    #[inline(always)]
    unsafe fn min<S: Simd>(head: (S::F, S::F), _block: *const u8, _sub: usize, _half: usize, _part: usize) -> S::F {
        head.1
    }
    /// Packs ggml's blocks of 16 rows into `block`.
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8);
}

/// Bytes of one step of 16 rows.
pub(crate) const STEP: usize = 4 * GROUP;

/// Moves 4 bytes per row into step `step`.
#[inline(always)]
pub(crate) unsafe fn pack_step(rows: &[*const u8; GROUP], from: usize, block: *mut u8, to: usize, flip: u32) {
    let to = block.add(to).cast::<u32>();
    for (r, row) in rows.iter().enumerate() {
        to.add(r).write_unaligned(row.add(from).cast::<u32>().read_unaligned() ^ flip);
    }
}

/// Moves 2 bytes per row: a half float.
#[inline(always)]
pub(crate) unsafe fn pack_half(rows: &[*const u8; GROUP], from: usize, block: *mut u8, to: usize) {
    let to = block.add(to).cast::<u16>();
    for (r, row) in rows.iter().enumerate() {
        to.add(r).write_unaligned(row.add(from).cast::<u16>().read_unaligned());
    }
}

/// Four steps from `at` on: their lower or upper four bits.
#[inline(always)]
pub(crate) unsafe fn nibbles<S: Simd>(at: *const u8, upper: bool, part: usize) -> [S::I; 4] {
    let low = S::splat_i(0x0F0F_0F0F);
    let mut out = [low; 4];
    for (i, step) in out.iter_mut().enumerate() {
        let bytes = S::load_bytes(at.add(i * STEP + part * 4 * S::W));
        *step = S::and(if upper { S::shr16(bytes, 4) } else { bytes }, low);
    }
    out
}

/// Half floats of this part's rows.
#[inline(always)]
pub(crate) unsafe fn halves<S: Simd>(at: *const u8, part: usize) -> S::F {
    S::load_f16(at.cast::<u16>().add(part * S::W))
}
