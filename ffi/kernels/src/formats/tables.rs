//! Four bits that stand for the entries of a table: IQ4_NL, IQ4_XS, MXFP4. The tables are ggml's, plus 128.

use super::{Format, GROUP, STEP, halves, nibbles, pack_half, pack_step};
use crate::simd::Simd;

/// kvalues_iq4nl: -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113.
const NON_LINEAR: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
/// kvalues_mxfp4, twice the values of E2M1: 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
const E2M1: [u8; 16] = [128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116];

#[inline(always)]
unsafe fn looked_up<S: Simd>(table: &[u8; 16], at: *const u8, upper: bool, part: usize) -> [S::I; 4] {
    let mut out = nibbles::<S>(at, upper, part);
    for step in &mut out {
        *step = S::lookup(table.as_ptr(), *step);
    }
    out
}

/// IQ4_NL: a scale for 32 values.
pub struct Iq4Nl;

impl Format for Iq4Nl {
    const VALUES: usize = 32;
    const SUB: usize = 32;
    const MAX: u32 = 255;
    const OFFSET: i32 = -128;
    const MINS: bool = false;
    const BYTES: usize = 2 * GROUP + 4 * STEP;
    const SOURCE: usize = 18;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (halves::<S>(block, part), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, _sub: usize, half: usize, part: usize) -> [S::I; 4] {
        looked_up::<S>(&NON_LINEAR, block.add(2 * GROUP), half == 1, part)
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 0, block, 0);
        for step in 0..4 {
            pack_step(rows, 2 + 4 * step, block, 2 * GROUP + step * STEP, 0);
        }
    }
}

/// MXFP4: a power of two for 32 values, kept as a bfloat, which holds each of them.
pub struct Mxfp4;

impl Format for Mxfp4 {
    const VALUES: usize = 32;
    const SUB: usize = 32;
    const MAX: u32 = 255;
    const OFFSET: i32 = -128;
    const MINS: bool = false;
    const BYTES: usize = 2 * GROUP + 4 * STEP;
    const SOURCE: usize = 17;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (S::load_bf16(block.cast::<u16>().add(part * S::W)), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, _sub: usize, half: usize, part: usize) -> [S::I; 4] {
        looked_up::<S>(&E2M1, block.add(2 * GROUP), half == 1, part)
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        for (r, row) in rows.iter().enumerate() {
            // Half of 2 to the power of e - 127, since the table has twice the values.
            let e = u16::from(row.read());
            let half = if e < 2 { 0x0020 << e } else { (e - 1) << 7 };
            block.cast::<u16>().add(r).write_unaligned(half);
        }
        for step in 0..4 {
            pack_step(rows, 1 + 4 * step, block, 2 * GROUP + step * STEP, 0);
        }
    }
}

/// IQ4_XS: a scale for 256 values, and of each 32 a factor from -32 to 31.
pub struct Iq4Xs;

const FACTORS: usize = 2 * GROUP;
const XS_QUANTS: usize = FACTORS + 8 * GROUP;

impl Format for Iq4Xs {
    const VALUES: usize = 256;
    const SUB: usize = 32;
    const MAX: u32 = 255;
    const OFFSET: i32 = -128;
    const MINS: bool = false;
    const BYTES: usize = XS_QUANTS + 32 * STEP;
    const SOURCE: usize = 136;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (halves::<S>(block, part), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
        looked_up::<S>(&NON_LINEAR, block.add(XS_QUANTS + sub * 4 * STEP), half == 1, part)
    }
    #[inline(always)]
    unsafe fn scale<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, _: usize, part: usize) -> S::F {
        S::mul(head.0, S::load_i8(block.add(FACTORS + sub * GROUP + part * S::W)))
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 0, block, 0);
        for (r, row) in rows.iter().enumerate() {
            let high = row.add(2).cast::<u16>().read_unaligned();
            for sub in 0..8 {
                let low = (row.add(4 + sub / 2).read() >> (4 * (sub % 2))) & 15;
                let factor = i32::from(low) | i32::from((high >> (2 * sub)) & 3) << 4;
                block.add(FACTORS + sub * GROUP + r).write((factor - 32) as u8);
            }
        }
        for step in 0..32 {
            pack_step(rows, 8 + 4 * step, block, XS_QUANTS + step * STEP, 0);
        }
    }
}
