//! ARM's NEON: 4 lanes. Sums of four products of bytes are one instruction where a processor has it for unsigned with
//! signed bytes (i8mm) or for signed ones (dotprod); without, they are made of products in 16 bits, whose sums fit as long
//! as `MAX` says.
//!
//! Rust has no stable intrinsics for those instructions, nor for half floats, so these are written as assembly.

use super::Simd;
use std::arch::aarch64::*;
use std::arch::asm;

/// How four products of bytes are added up in a lane.
pub trait Dot: Copy + 'static {
    unsafe fn start<const MAX: u32>(init: *const i32) -> int32x4_t;
    /// One row's sum.
    unsafe fn dot<const MAX: u32>(sum: int32x4_t, w: [int32x4_t; 4], x: *const i8) -> int32x4_t;
}

/// Needs neon, and what `D` needs.
#[derive(Clone, Copy)]
pub struct Neon<D>(std::marker::PhantomData<D>);

/// Needs nothing more.
#[derive(Clone, Copy)]
pub struct Plain;

/// Needs dotprod.
#[derive(Clone, Copy)]
pub struct Dotprod;

/// Needs i8mm.
#[derive(Clone, Copy)]
pub struct I8mm;

/// Weights as signed bytes: minus 128 with a `MAX` of 255, as they are with any other.
#[inline(always)]
unsafe fn signed<const MAX: u32>(w: int32x4_t) -> int8x16_t {
    let bytes = vreinterpretq_s8_s32(w);
    if MAX == 255 { veorq_s8(bytes, vdupq_n_s8(-128)) } else { bytes }
}

/// Where sums of signed products begin: at 0 where `signed` has taken 128 from the weights, which `init` stands for.
#[inline(always)]
unsafe fn start_signed<const MAX: u32>(init: *const i32) -> int32x4_t {
    vdupq_n_s32(if MAX == 255 { 0 } else { init.read_unaligned() })
}

impl Dot for Plain {
    #[inline(always)]
    unsafe fn start<const MAX: u32>(init: *const i32) -> int32x4_t {
        start_signed::<MAX>(init)
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32>(mut sum: int32x4_t, w: [int32x4_t; 4], x: *const i8) -> int32x4_t {
        let w = w.map(|w| unsafe { signed::<MAX>(w) });
        let x = vreinterpretq_s32_s8(vld1q_s8(x));
        let x = [
            vreinterpretq_s8_s32(vdupq_laneq_s32::<0>(x)),
            vreinterpretq_s8_s32(vdupq_laneq_s32::<1>(x)),
            vreinterpretq_s8_s32(vdupq_laneq_s32::<2>(x)),
            vreinterpretq_s8_s32(vdupq_laneq_s32::<3>(x)),
        ];
        // Steps whose products fit 16 bits, two of each in a lane: 8 * 31 * 127, 4 * 63 * 127 and 2 * 128 * 127 < 32767.
        let fit = if MAX <= 31 { 4 } else { 1 + (MAX <= 63) as usize };
        for first in (0..4).step_by(fit) {
            let mut low = vmull_s8(vget_low_s8(w[first]), vget_low_s8(x[first]));
            let mut high = vmull_high_s8(w[first], x[first]);
            for i in first + 1..first + fit {
                low = vmlal_s8(low, vget_low_s8(w[i]), vget_low_s8(x[i]));
                high = vmlal_high_s8(high, w[i], x[i]);
            }
            sum = vpadalq_s16(sum, vpaddq_s16(low, high));
        }
        sum
    }
}

/// `sum` plus the products of four bytes of `w` per lane with the four of `x` at `lane`.
macro_rules! dot_lane {
    ($instruction:literal, $sum:ident, $w:expr, $x:ident, $lane:literal) => {
        asm!(
            concat!($instruction, " {sum:v}.4s, {w:v}.16b, {x:v}.4b[", $lane, "]"),
            sum = inout(vreg) $sum,
            w = in(vreg) $w,
            x = in(vreg) $x,
            options(pure, nomem, nostack, preserves_flags)
        )
    };
}

impl Dot for Dotprod {
    #[inline(always)]
    unsafe fn start<const MAX: u32>(init: *const i32) -> int32x4_t {
        start_signed::<MAX>(init)
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32>(mut sum: int32x4_t, w: [int32x4_t; 4], x: *const i8) -> int32x4_t {
        let x = vld1q_s8(x);
        dot_lane!("sdot", sum, signed::<MAX>(w[0]), x, 0);
        dot_lane!("sdot", sum, signed::<MAX>(w[1]), x, 1);
        dot_lane!("sdot", sum, signed::<MAX>(w[2]), x, 2);
        dot_lane!("sdot", sum, signed::<MAX>(w[3]), x, 3);
        sum
    }
}

impl Dot for I8mm {
    #[inline(always)]
    unsafe fn start<const MAX: u32>(init: *const i32) -> int32x4_t {
        vdupq_n_s32(init.read_unaligned())
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32>(mut sum: int32x4_t, w: [int32x4_t; 4], x: *const i8) -> int32x4_t {
        let x = vld1q_s8(x);
        dot_lane!("usdot", sum, w[0], x, 0);
        dot_lane!("usdot", sum, w[1], x, 1);
        dot_lane!("usdot", sum, w[2], x, 2);
        dot_lane!("usdot", sum, w[3], x, 3);
        sum
    }
}

impl<D: Dot> Simd for Neon<D> {
    const W: usize = 4;
    const TILE: usize = 8;
    type F = float32x4_t;
    type I = int32x4_t;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        vdupq_n_f32(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        vld1q_f32(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: float32x4_t) {
        vst1q_f32(p, x)
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vaddq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vsubq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmulq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vdivq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_f32(c, a, b)
    }
    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // As x86 has it, `b` where one is no number or both are zeros; FMAX and FMAXNM differ there.
        vbslq_f32(vcgtq_f32(a, b), a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: float32x4_t) -> float32x4_t {
        vabsq_f32(a)
    }
    #[inline(always)]
    unsafe fn max_lane(a: float32x4_t) -> f32 {
        let a = Self::max(a, vextq_f32::<2>(a, a));
        vgetq_lane_f32::<0>(Self::max(a, vextq_f32::<1>(a, a)))
    }
    #[inline(always)]
    unsafe fn zero_below(key: float32x4_t, limit: f32, x: float32x4_t) -> float32x4_t {
        let stays = vcgeq_f32(key, vdupq_n_f32(limit));
        vreinterpretq_f32_u32(vandq_u32(stays, vreinterpretq_u32_f32(x)))
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> float32x4_t {
        let wide: float32x4_t;
        asm!(
            "fcvtl {wide:v}.4s, {half:v}.4h",
            wide = lateout(vreg) wide,
            half = in(vreg) vld1_u16(p),
            options(pure, nomem, nostack, preserves_flags)
        );
        wide
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> float32x4_t {
        vreinterpretq_f32_u32(vshlq_n_u32::<16>(vmovl_u16(vld1_u16(p))))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> float32x4_t {
        let bytes = vcreate_u8(u64::from(p.cast::<u32>().read_unaligned()));
        vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(bytes))))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> float32x4_t {
        let bytes = vcreate_s8(u64::from(p.cast::<u32>().read_unaligned()));
        vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))))
    }
    #[inline(always)]
    unsafe fn round(x: float32x4_t) -> int32x4_t {
        vcvtnq_s32_f32(x)
    }
    #[inline(always)]
    unsafe fn to_float(x: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(x)
    }
    #[inline(always)]
    unsafe fn exp2(x: int32x4_t) -> float32x4_t {
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(vaddq_s32(x, vdupq_n_s32(127))))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> int32x4_t {
        vdupq_n_s32(x)
    }
    #[inline(always)]
    unsafe fn add_i(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vaddq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn sum_i(a: int32x4_t) -> i32 {
        vaddvq_s32(a)
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, x: int32x4_t) {
        vst1q_s32(p, x)
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        let (a, b) = (vld1q_f32(from), vld1q_f32(from.add(from_stride)));
        let (c, d) = (vld1q_f32(from.add(2 * from_stride)), vld1q_f32(from.add(3 * from_stride)));
        let pairs =
            |a, b| unsafe { (vreinterpretq_f64_f32(vtrn1q_f32(a, b)), vreinterpretq_f64_f32(vtrn2q_f32(a, b))) };
        let ((ab_even, ab_odd), (cd_even, cd_odd)) = (pairs(a, b), pairs(c, d));
        vst1q_f64(to.cast(), vtrn1q_f64(ab_even, cd_even));
        vst1q_f64(to.add(to_stride).cast(), vtrn1q_f64(ab_odd, cd_odd));
        vst1q_f64(to.add(2 * to_stride).cast(), vtrn2q_f64(ab_even, cd_even));
        vst1q_f64(to.add(3 * to_stride).cast(), vtrn2q_f64(ab_odd, cd_odd));
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: int32x4_t) {
        let words = vqmovn_s32(x);
        let bytes = vreinterpret_s32_s8(vqmovn_s16(vcombine_s16(words, words)));
        p.cast::<i32>().write_unaligned(vget_lane_s32::<0>(bytes))
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> int32x4_t {
        vreinterpretq_s32_u8(vld1q_u8(p))
    }
    #[inline(always)]
    unsafe fn and(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vandq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn or(a: int32x4_t, b: int32x4_t) -> int32x4_t {
        vorrq_s32(a, b)
    }
    #[inline(always)]
    unsafe fn shr16(a: int32x4_t, n: u32) -> int32x4_t {
        // The instruction moves left, and so right by less than nothing.
        vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(a), vdupq_n_s16(-(n as i16))))
    }
    #[inline(always)]
    unsafe fn shl16(a: int32x4_t, n: u32) -> int32x4_t {
        vreinterpretq_s32_u16(vshlq_u16(vreinterpretq_u16_s32(a), vdupq_n_s16(n as i16)))
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u8, index: int32x4_t) -> int32x4_t {
        vreinterpretq_s32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_s32(index)))
    }
    #[inline(always)]
    unsafe fn dot_start<const MAX: u32>(init: *const i32) -> int32x4_t {
        D::start::<MAX>(init)
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [int32x4_t; R], w: [int32x4_t; 4], x: *const i8) {
        for (r, sum) in sums.iter_mut().enumerate() {
            *sum = D::dot::<MAX>(*sum, w, x.add(32 * r));
        }
    }
    #[inline(always)]
    unsafe fn dot_finish<const MAX: u32>(sum: int32x4_t, _init: *const i32) -> int32x4_t {
        sum
    }
}
