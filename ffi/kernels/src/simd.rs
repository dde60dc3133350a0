//! What the kernels need of a processor: one trait, and a file for each set of instructions that has it.
//!
//! A kernel is written once over this trait. Lanes never meet each other in floats (a lane is an output, a cell or a
//! value of a head), so how many lanes a register has changes nothing about the order in which an output is computed.
//! Every method gives the same bits on every processor: products are fused with sums, rounding is to nearest even.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "aarch64")]
pub mod neon;
#[cfg(target_arch = "x86_64")]
pub mod sse;

/// Registers of `W` floats, or of `W` 32-bit integers, or of `4 * W` bytes.
///
/// # Safety
///
/// Every method needs the instructions of its processor, and pointers to as many values as it reads or writes. None
/// needs them aligned.
pub trait Simd: Copy + 'static {
    /// Floats in a register: 4, 8 or 16.
    const W: usize;
    /// Rows of activations that a product keeps in registers at once.
    const TILE: usize;
    type F: Copy;
    type I: Copy;

    unsafe fn splat(x: f32) -> Self::F;
    unsafe fn load(p: *const f32) -> Self::F;
    unsafe fn store(p: *mut f32, x: Self::F);
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn abs(a: Self::F) -> Self::F;
    /// The largest lane.
    unsafe fn max_lane(a: Self::F) -> f32;
    /// `x` where `key >= limit`, else 0.
    unsafe fn zero_below(key: Self::F, limit: f32, x: Self::F) -> Self::F;
    /// `W` half floats, widened.
    unsafe fn load_f16(p: *const u16) -> Self::F;
    /// `W` bfloats, widened.
    unsafe fn load_bf16(p: *const u16) -> Self::F;
    /// `W` bytes from 0 to 255 as floats.
    unsafe fn load_u8(p: *const u8) -> Self::F;
    /// `W` bytes from -128 to 127 as floats.
    unsafe fn load_i8(p: *const u8) -> Self::F;

    /// The nearest integers, ties to even.
    unsafe fn round(x: Self::F) -> Self::I;
    unsafe fn to_float(x: Self::I) -> Self::F;
    /// 2 to the power of each lane, which is from -126 to 127.
    unsafe fn exp2(x: Self::I) -> Self::F;
    unsafe fn splat_i(x: i32) -> Self::I;
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I;
    /// The sum of all lanes, which must fit.
    unsafe fn sum_i(a: Self::I) -> i32;
    unsafe fn store_i(p: *mut i32, x: Self::I);
    /// A square of `W` by `W` floats, whose rows are `from_stride` apart, with rows and columns exchanged.
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize);
    /// The sum of each of 16 rows of 16 floats, folded in halves: 0 to 7 plus 8 to 15, of these 0 to 3 plus 4 to 7, ...
    #[inline(always)]
    unsafe fn fold(rows: *const f32, sums: *mut f32) {
        let mut narrow = [0.0_f32; 256]; // rows of W
        for r in 0..16 {
            let mut parts = [Self::splat(0.0); 4];
            let mut n = 16 / Self::W;
            for (i, part) in parts.iter_mut().enumerate().take(n) {
                *part = Self::load(rows.add(16 * r + i * Self::W));
            }
            while n > 1 {
                n /= 2;
                for i in 0..n {
                    parts[i] = Self::add(parts[i], parts[i + n]);
                }
            }
            Self::store(narrow.as_mut_ptr().add(r * Self::W), parts[0]);
        }
        let mut square = [0.0_f32; 256];
        let mut at = |j: usize| square.as_mut_ptr().wrapping_add(j * Self::W);
        for first in (0..16).step_by(Self::W) {
            Self::transpose(narrow.as_ptr().add(first * Self::W), Self::W, at(0), Self::W);
            let mut n = Self::W;
            while n > 1 {
                n /= 2;
                for j in 0..n {
                    Self::store(at(j), Self::add(Self::load(at(j)), Self::load(at(j + n))));
                }
            }
            Self::store(sums.add(first), Self::load(at(0)));
        }
    }
    /// `W` lanes from -128 to 127 as bytes.
    unsafe fn store_i8(p: *mut i8, x: Self::I);

    /// `4 * W` bytes.
    unsafe fn load_bytes(p: *const u8) -> Self::I;
    unsafe fn and(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn or(a: Self::I, b: Self::I) -> Self::I;
    /// Every 16 bits moved right, so the upper byte's lowest bits enter the lower byte: mask them away.
    unsafe fn shr16(a: Self::I, n: u32) -> Self::I;
    /// Every 16 bits moved left.
    unsafe fn shl16(a: Self::I, n: u32) -> Self::I;
    /// Every byte, from 0 to 15, replaced by that entry of `table`.
    unsafe fn lookup(table: *const u8, index: Self::I) -> Self::I;

    /// A sum of products to begin with; see `dot`.
    unsafe fn dot_start<const MAX: u32>(init: *const i32) -> Self::I;
    /// Adds four steps of 4 products to each lane of `R` sums: `w[step]` holds 4 unsigned bytes of at most `MAX` per lane;
    /// sum `r` meets the 16 signed bytes, from -127 to 127, at `x + 32 * r`, which all its lanes share.
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [Self::I; R], w: [Self::I; 4], x: *const i8);
    /// The exact sum of all products plus `init`. With a `MAX` of 255 the bytes of weights stand for themselves minus
    /// 128, `init` is -128 times the sum of `x`, and a processor that can multiply signed bytes may ignore it.
    unsafe fn dot_finish<const MAX: u32>(sum: Self::I, init: *const i32) -> Self::I;
}

/// Lets the processor fetch what is needed soon.
#[inline(always)]
pub fn prefetch(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{p}]", p = in(reg) p, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}
