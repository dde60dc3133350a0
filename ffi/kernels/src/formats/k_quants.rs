//! Blocks of 256 values with a scale, and a factor for each 32 or 16 of them: Q2_K to Q6_K.
//!
//! Scale times factor is exact in a float: 11 bits times 8.

use super::{Format, GROUP, STEP, halves, pack_half, pack_step};
use crate::simd::Simd;

const HALVES: usize = 2 * GROUP;

/// Factors and minimums of Q4_K and Q5_K: 12 bytes with 8 of each, 6 bits apiece.
#[inline(always)]
unsafe fn six_bits(scales: *const u8, sub: usize) -> (u8, u8) {
    let at = |i: usize| unsafe { scales.add(i).read() };
    if sub < 4 {
        (at(sub) & 63, at(sub + 4) & 63)
    } else {
        (at(sub + 4) & 15 | (at(sub - 4) >> 6) << 4, at(sub + 4) >> 4 | (at(sub) >> 6) << 4)
    }
}

/// Where the parts of a packed Q4_K or Q5_K block are: scale, minimum, 8 factors, 8 minimums, quants.
const FACTORS: usize = 2 * HALVES;
const MINIMUMS: usize = FACTORS + 8 * GROUP;
const QUANTS: usize = MINIMUMS + 8 * GROUP;

macro_rules! min_formats {
    ($name:ident, max $max:literal, source $source:literal, plane $plane:literal) => {
        #[doc = concat!(stringify!($name), ": 32 values share a factor and a minimum.")]
        pub struct $name;

        impl Format for $name {
            const VALUES: usize = 256;
            const SUB: usize = 32;
            const MAX: u32 = $max;
            const OFFSET: i32 = 0;
            const MINS: bool = true;
            const BYTES: usize = QUANTS + (32 + 8 * $plane as usize) * STEP;
            const SOURCE: usize = $source;
            const FETCHES: bool = $plane;

            #[inline(always)]
            unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
                let min = halves::<S>(block.add(HALVES), part);
                (halves::<S>(block, part), S::sub(S::splat(0.0), min))
            }
            #[inline(always)]
            unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
                // A byte has the four bits of column c of an even block of 32 and of column c of the next one.
                let at = block.add(QUANTS + (sub / 2 * 8 + 4 * half) * STEP + part * 4 * S::W);
                let plane = block.add(QUANTS + (32 + 4 * half) * STEP + part * 4 * S::W);
                let (low, fifth) = (S::splat_i(0x0F0F_0F0F), S::splat_i(0x0101_0101));
                let mut out = [low; 4];
                for (i, step) in out.iter_mut().enumerate() {
                    *step = S::and(S::shr16(S::load_bytes(at.add(i * STEP)), 4 * (sub as u32 & 1)), low);
                    if $plane {
                        let bit = S::and(S::shr16(S::load_bytes(plane.add(i * STEP)), sub as u32), fifth);
                        *step = S::or(*step, S::shl16(bit, 4));
                    }
                }
                out
            }
            #[inline(always)]
            unsafe fn scale<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, _: usize, part: usize) -> S::F {
                S::mul(head.0, S::load_u8(block.add(FACTORS + sub * GROUP + part * S::W)))
            }
            #[inline(always)]
            unsafe fn min<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, _: usize, part: usize) -> S::F {
                S::mul(head.1, S::load_u8(block.add(MINIMUMS + sub * GROUP + part * S::W)))
            }
            #[inline(always)]
            unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
                pack_half(rows, 0, block, 0);
                pack_half(rows, 2, block, HALVES);
                for (r, row) in rows.iter().enumerate() {
                    for sub in 0..8 {
                        let (factor, minimum) = six_bits(row.add(4), sub);
                        block.add(FACTORS + sub * GROUP + r).write(factor);
                        block.add(MINIMUMS + sub * GROUP + r).write(minimum);
                    }
                }
                for step in 0..32 {
                    pack_step(rows, $source - 128 + 4 * step, block, QUANTS + step * STEP, 0);
                }
                if $plane {
                    for step in 0..8 {
                        pack_step(rows, 16 + 4 * step, block, QUANTS + (32 + step) * STEP, 0);
                    }
                }
            }
        }
    };
}
min_formats!(Q4K, max 15, source 144, plane false);
min_formats!(Q5K, max 31, source 176, plane true);

/// Q6_K: 16 values share a factor from -128 to 127.
pub struct Q6K;

const Q6_FACTORS: usize = HALVES;
const Q6_LOW: usize = Q6_FACTORS + 16 * GROUP;
const Q6_HIGH: usize = Q6_LOW + 32 * STEP;

impl Format for Q6K {
    const VALUES: usize = 256;
    const SUB: usize = 16;
    const MAX: u32 = 63;
    const OFFSET: i32 = -32;
    const MINS: bool = false;
    const BYTES: usize = Q6_HIGH + 16 * STEP;
    const SOURCE: usize = 210;
    const FETCHES: bool = true;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (halves::<S>(block, part), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
        // ggml: of each 128 columns, the lower bits of blocks of 32 number 0 and 2 share bytes, and of 1 and 3; the upper
        // two bits of all four do.
        let (of_128, quarter) = (sub / 4, sub % 4);
        let low_at = block.add(Q6_LOW + (of_128 * 16 + (quarter & 1) * 8 + 4 * half) * STEP + part * 4 * S::W);
        let high_at = block.add(Q6_HIGH + (of_128 * 8 + 4 * half) * STEP + part * 4 * S::W);
        let (low, two) = (S::splat_i(0x0F0F_0F0F), S::splat_i(0x0303_0303));
        let mut out = [low; 4];
        for (i, step) in out.iter_mut().enumerate() {
            let lower = S::and(S::shr16(S::load_bytes(low_at.add(i * STEP)), 4 * (quarter as u32 >> 1)), low);
            let upper = S::and(S::shr16(S::load_bytes(high_at.add(i * STEP)), 2 * quarter as u32), two);
            *step = S::or(lower, S::shl16(upper, 4));
        }
        out
    }
    #[inline(always)]
    unsafe fn scale<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, half: usize, part: usize) -> S::F {
        S::mul(head.0, S::load_i8(block.add(Q6_FACTORS + (2 * sub + half) * GROUP + part * S::W)))
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 208, block, 0);
        for (r, row) in rows.iter().enumerate() {
            for i in 0..16 {
                block.add(Q6_FACTORS + i * GROUP + r).write(row.add(192 + i).read());
            }
        }
        for step in 0..32 {
            pack_step(rows, 4 * step, block, Q6_LOW + step * STEP, 0);
        }
        for step in 0..16 {
            pack_step(rows, 128 + 4 * step, block, Q6_HIGH + step * STEP, 0);
        }
    }
}

/// Two bits of four blocks of 32 share bytes, in Q2_K and Q3_K.
#[inline(always)]
unsafe fn two_bits<S: Simd>(at: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
    let (of_128, quarter) = (sub / 4, sub % 4);
    let at = at.add((of_128 * 8 + 4 * half) * STEP + part * 4 * S::W);
    let two = S::splat_i(0x0303_0303);
    let mut out = [two; 4];
    for (i, step) in out.iter_mut().enumerate() {
        *step = S::and(S::shr16(S::load_bytes(at.add(i * STEP)), 2 * quarter as u32), two);
    }
    out
}

/// Q3_K: 16 values share a factor from -32 to 31; the third bit has a plane.
pub struct Q3K;

const Q3_FACTORS: usize = HALVES;
const Q3_LOW: usize = Q3_FACTORS + 16 * GROUP;
const Q3_HIGH: usize = Q3_LOW + 16 * STEP;

impl Format for Q3K {
    const VALUES: usize = 256;
    const SUB: usize = 16;
    const MAX: u32 = 15;
    const OFFSET: i32 = -4;
    const MINS: bool = false;
    const BYTES: usize = Q3_HIGH + 8 * STEP;
    const SOURCE: usize = 110;
    const FETCHES: bool = true;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (halves::<S>(block, part), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
        let mut out = two_bits::<S>(block.add(Q3_LOW), sub, half, part);
        let plane = block.add(Q3_HIGH + 4 * half * STEP + part * 4 * S::W);
        let one = S::splat_i(0x0101_0101);
        for (i, step) in out.iter_mut().enumerate() {
            let bit = S::and(S::shr16(S::load_bytes(plane.add(i * STEP)), sub as u32), one);
            *step = S::or(*step, S::shl16(bit, 2));
        }
        out
    }
    #[inline(always)]
    unsafe fn scale<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, half: usize, part: usize) -> S::F {
        S::mul(head.0, S::load_i8(block.add(Q3_FACTORS + (2 * sub + half) * GROUP + part * S::W)))
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 108, block, 0);
        for (r, row) in rows.iter().enumerate() {
            let scales = row.add(96);
            for i in 0..16 {
                let low = (scales.add(i % 8).read() >> (4 * (i / 8))) & 15;
                let high = (scales.add(8 + i % 4).read() >> (2 * (i / 4))) & 3;
                block.add(Q3_FACTORS + i * GROUP + r).write((low | high << 4).wrapping_sub(32));
            }
        }
        for step in 0..16 {
            pack_step(rows, 32 + 4 * step, block, Q3_LOW + step * STEP, 0);
        }
        for step in 0..8 {
            pack_step(rows, 4 * step, block, Q3_HIGH + step * STEP, 0);
        }
    }
}

/// Q2_K: 16 values share a factor and a minimum of 4 bits each, in one byte.
pub struct Q2K;

const Q2_FACTORS: usize = 2 * HALVES;
const Q2_QUANTS: usize = Q2_FACTORS + 16 * GROUP;

impl Q2K {
    #[inline(always)]
    unsafe fn factors<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize, upper: bool) -> S::F {
        // Sixteen bytes of 4 + 4 bits; a register's worth is split outside of it, once per 16 columns.
        let at = block.add(Q2_FACTORS + (2 * sub + half) * GROUP + part * S::W);
        let mut bytes = [0_u8; GROUP];
        for (i, byte) in bytes.iter_mut().enumerate().take(S::W) {
            let both = at.add(i).read();
            *byte = if upper { both >> 4 } else { both & 15 };
        }
        S::load_u8(bytes.as_ptr())
    }
}

impl Format for Q2K {
    const VALUES: usize = 256;
    const SUB: usize = 16;
    const MAX: u32 = 15;
    const OFFSET: i32 = 0;
    const MINS: bool = true;
    const BYTES: usize = Q2_QUANTS + 16 * STEP;
    const SOURCE: usize = 84;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        let min = halves::<S>(block.add(HALVES), part);
        (halves::<S>(block, part), S::sub(S::splat(0.0), min))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, sub: usize, half: usize, part: usize) -> [S::I; 4] {
        two_bits::<S>(block.add(Q2_QUANTS), sub, half, part)
    }
    #[inline(always)]
    unsafe fn scale<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, half: usize, part: usize) -> S::F {
        S::mul(head.0, Self::factors::<S>(block, sub, half, part, false))
    }
    #[inline(always)]
    unsafe fn min<S: Simd>(head: (S::F, S::F), block: *const u8, sub: usize, half: usize, part: usize) -> S::F {
        S::mul(head.1, Self::factors::<S>(block, sub, half, part, true))
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 80, block, 0);
        pack_half(rows, 82, block, HALVES);
        for (r, row) in rows.iter().enumerate() {
            for i in 0..16 {
                block.add(Q2_FACTORS + i * GROUP + r).write(row.add(i).read());
            }
        }
        for step in 0..16 {
            pack_step(rows, 16 + 4 * step, block, Q2_QUANTS + step * STEP, 0);
        }
    }
}
