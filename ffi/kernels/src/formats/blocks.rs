//! Blocks of 32 values with one scale: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.

use super::{Format, GROUP, STEP, halves, nibbles, pack_half, pack_step};
use crate::simd::Simd;

const HALVES: usize = 2 * GROUP;

macro_rules! four_bits {
    ($name:ident, offset $offset:literal, mins $mins:literal, source $source:literal) => {
        #[doc = concat!(stringify!($name), ": scale", " and quants of 4 bits.")]
        pub struct $name;

        impl Format for $name {
            const VALUES: usize = 32;
            const SUB: usize = 32;
            const MAX: u32 = 15;
            const OFFSET: i32 = $offset;
            const MINS: bool = $mins;
            const BYTES: usize = HALVES * (1 + $mins as usize) + 4 * STEP;
            const SOURCE: usize = $source;

            #[inline(always)]
            unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
                let min = if $mins { halves::<S>(block.add(HALVES), part) } else { S::splat(0.0) };
                (halves::<S>(block, part), min)
            }
            #[inline(always)]
            unsafe fn quants<S: Simd>(block: *const u8, _sub: usize, half: usize, part: usize) -> [S::I; 4] {
                nibbles::<S>(block.add(Self::BYTES - 4 * STEP), half == 1, part)
            }
            #[inline(always)]
            unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
                pack_half(rows, 0, block, 0);
                if $mins {
                    pack_half(rows, 2, block, HALVES);
                }
                for step in 0..4 {
                    pack_step(rows, $source - 16 + 4 * step, block, Self::BYTES - (4 - step) * STEP, 0);
                }
            }
        }
    };
}
four_bits!(Q4_0, offset -8, mins false, source 18);
four_bits!(Q4_1, offset 0, mins true, source 20);

macro_rules! five_bits {
    ($name:ident, offset $offset:literal, mins $mins:literal, source $source:literal) => {
        #[doc = concat!(stringify!($name), ": as four bits, and a plane of fifth bits: bit j of a byte belongs to step j.")]
        pub struct $name;

        impl Format for $name {
            const VALUES: usize = 32;
            const SUB: usize = 32;
            const MAX: u32 = 31;
            const OFFSET: i32 = $offset;
            const MINS: bool = $mins;
            const BYTES: usize = HALVES * (1 + $mins as usize) + 5 * STEP;
            const SOURCE: usize = $source;

            #[inline(always)]
            unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
                let min = if $mins { halves::<S>(block.add(HALVES), part) } else { S::splat(0.0) };
                (halves::<S>(block, part), min)
            }
            #[inline(always)]
            unsafe fn quants<S: Simd>(block: *const u8, _sub: usize, half: usize, part: usize) -> [S::I; 4] {
                let at = block.add(Self::BYTES - 5 * STEP);
                let mut out = nibbles::<S>(at, half == 1, part);
                let plane = S::load_bytes(at.add(4 * STEP + part * 4 * S::W));
                let fifth = S::splat_i(0x1010_1010);
                // Bits 0 to 3, or 4 to 7, to bit 4 of their byte.
                if half == 0 {
                    out[0] = S::or(out[0], S::and(S::shl16(plane, 4), fifth));
                    out[1] = S::or(out[1], S::and(S::shl16(plane, 3), fifth));
                    out[2] = S::or(out[2], S::and(S::shl16(plane, 2), fifth));
                    out[3] = S::or(out[3], S::and(S::shl16(plane, 1), fifth));
                } else {
                    out[0] = S::or(out[0], S::and(plane, fifth));
                    out[1] = S::or(out[1], S::and(S::shr16(plane, 1), fifth));
                    out[2] = S::or(out[2], S::and(S::shr16(plane, 2), fifth));
                    out[3] = S::or(out[3], S::and(S::shr16(plane, 3), fifth));
                }
                out
            }
            #[inline(always)]
            unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
                pack_half(rows, 0, block, 0);
                if $mins {
                    pack_half(rows, 2, block, HALVES);
                }
                let quants = Self::BYTES - 5 * STEP;
                for step in 0..4 {
                    pack_step(rows, $source - 16 + 4 * step, block, quants + step * STEP, 0);
                }
                let plane = block.add(quants + 4 * STEP).cast::<u32>();
                for (r, row) in rows.iter().enumerate() {
                    // ggml: bit k belongs to column k. Here: bit j of byte i belongs to column 4 * j + i.
                    let bits = row.add($source - 20).cast::<u32>().read_unaligned();
                    plane.add(r).write_unaligned(by_column(bits));
                }
            }
        }
    };
}
five_bits!(Q5_0, offset -16, mins false, source 22);
five_bits!(Q5_1, offset 0, mins true, source 24);

/// Bit `4 * j + i` to bit `8 * i + j`: the transpose of an 8 by 4 matrix of bits.
#[inline(always)]
fn by_column(bits: u32) -> u32 {
    let mut out = 0;
    for i in 0..4 {
        // Bits i, i + 4, ..., i + 28 gathered into a byte by one multiplication.
        let column = u64::from((bits >> i) & 0x1111_1111);
        // Step by step, pairs of 4-bit cells are folded into one another.
        let column = (column | (column >> 3)) & 0x0303_0303;
        let column = (column | (column >> 6)) & 0x000F_000F;
        let column = (column | (column >> 12)) & 0x0000_00FF;
        out |= (column as u32) << (8 * i);
    }
    out
}

/// Q8_0: scale and signed bytes.
pub struct Q8_0;

impl Format for Q8_0 {
    const VALUES: usize = 32;
    const SUB: usize = 32;
    const MAX: u32 = 255;
    const OFFSET: i32 = -128;
    const MINS: bool = false;
    const BYTES: usize = HALVES + 8 * STEP;
    const SOURCE: usize = 34;

    #[inline(always)]
    unsafe fn head<S: Simd>(block: *const u8, part: usize) -> (S::F, S::F) {
        (halves::<S>(block, part), S::splat(0.0))
    }
    #[inline(always)]
    unsafe fn quants<S: Simd>(block: *const u8, _sub: usize, half: usize, part: usize) -> [S::I; 4] {
        let at = block.add(HALVES + half * 4 * STEP + part * 4 * S::W);
        [
            S::load_bytes(at),
            S::load_bytes(at.add(STEP)),
            S::load_bytes(at.add(2 * STEP)),
            S::load_bytes(at.add(3 * STEP)),
        ]
    }
    #[inline(always)]
    unsafe fn pack(rows: &[*const u8; GROUP], block: *mut u8) {
        pack_half(rows, 0, block, 0);
        for step in 0..8 {
            pack_step(rows, 2 + 4 * step, block, HALVES + step * STEP, 0x8080_8080);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::by_column;

    #[test]
    fn every_bit_finds_its_place() {
        for k in 0..32 {
            assert_eq!(by_column(1 << k), 1 << (8 * (k % 4) + k / 4), "bit {k}");
        }
    }
}
