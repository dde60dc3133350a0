//! x86-64-v2 (SSE4.2): 4 lanes, no fused products, no half floats. Both are made here, to the bit.

use super::Simd;
use std::arch::x86_64::*;

/// Needs sse4.2, ssse3.
#[derive(Clone, Copy)]
pub struct Sse;

/// The largest of four floats.
#[inline(always)]
pub unsafe fn max_lane(a: __m128) -> f32 {
    let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps::<1>(a, a)))
}

/// The sum of four integers.
#[inline(always)]
pub unsafe fn sum_i(a: __m128i) -> i32 {
    let a = _mm_add_epi32(a, _mm_shuffle_epi32::<0b01_00_11_10>(a));
    _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32::<0b10_11_00_01>(a)))
}

/// Two fused products in 64 bits, rounded to odd, from where rounding to 32 bits gives what one rounding would (Boldo and
/// Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008).
#[inline(always)]
unsafe fn fma_odd(a: __m128, b: __m128, c: __m128) -> __m128d {
    let product = _mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)); // exact: 24 + 24 bits
    let c = _mm_cvtps_pd(c);
    let sum = _mm_add_pd(product, c);
    // What the sum lost, exactly (Knuth's two-sum).
    let from_c = _mm_sub_pd(sum, product);
    let lost = _mm_add_pd(_mm_sub_pd(product, _mm_sub_pd(sum, from_c)), _mm_sub_pd(c, from_c));
    let is_even = _mm_cmpeq_epi64(_mm_and_si128(_mm_castpd_si128(sum), _mm_set1_epi64x(1)), _mm_setzero_si128());
    let is_inexact = _mm_cmpneq_pd(lost, _mm_setzero_pd());
    let is_finite = _mm_cmplt_pd(_mm_andnot_pd(_mm_set1_pd(-0.0), sum), _mm_set1_pd(f64::INFINITY));
    let moves = _mm_and_pd(_mm_and_pd(is_inexact, is_finite), _mm_castsi128_pd(is_even));
    // Towards what was lost: one up in magnitude where it has the sum's sign, else one down.
    let differs = _mm_xor_si128(_mm_castpd_si128(sum), _mm_castpd_si128(lost));
    let is_down = _mm_cmpgt_epi64(_mm_setzero_si128(), differs);
    let by = _mm_or_si128(is_down, _mm_set1_epi64x(1)); // -1 or 1
    let moved = _mm_add_epi64(_mm_castpd_si128(sum), _mm_and_si128(by, _mm_castpd_si128(moves)));
    _mm_castsi128_pd(moved)
}

impl Simd for Sse {
    const W: usize = 4;
    const TILE: usize = 4;
    type F = __m128;
    type I = __m128i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m128 {
        _mm_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m128 {
        _mm_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m128) {
        _mm_storeu_ps(p, x)
    }
    #[inline(always)]
    unsafe fn add(a: __m128, b: __m128) -> __m128 {
        _mm_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m128, b: __m128) -> __m128 {
        _mm_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m128, b: __m128) -> __m128 {
        _mm_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m128, b: __m128) -> __m128 {
        _mm_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m128, b: __m128, c: __m128) -> __m128 {
        let low = _mm_cvtpd_ps(fma_odd(a, b, c));
        let high = _mm_cvtpd_ps(fma_odd(_mm_movehl_ps(a, a), _mm_movehl_ps(b, b), _mm_movehl_ps(c, c)));
        _mm_movelh_ps(low, high)
    }
    #[inline(always)]
    unsafe fn max(a: __m128, b: __m128) -> __m128 {
        _mm_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m128) -> __m128 {
        _mm_andnot_ps(_mm_set1_ps(-0.0), a)
    }
    #[inline(always)]
    unsafe fn max_lane(a: __m128) -> f32 {
        max_lane(a)
    }
    #[inline(always)]
    unsafe fn zero_below(key: __m128, limit: f32, x: __m128) -> __m128 {
        _mm_and_ps(_mm_cmpge_ps(key, _mm_set1_ps(limit)), x)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m128 {
        let half = _mm_cvtepu16_epi32(_mm_loadl_epi64(p.cast()));
        let magnitude = _mm_slli_epi32::<13>(_mm_and_si128(half, _mm_set1_epi32(0x7FFF)));
        // A power of two moves the exponent, and gives numbers below the smallest normal one their true value.
        let value = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(f32::from_bits(0x7780_0000)));
        let is_special = _mm_cmpgt_epi32(magnitude, _mm_set1_epi32(0x0F7F_FFFF));
        let special = _mm_and_si128(is_special, _mm_set1_epi32(0x7F80_0000));
        let sign = _mm_slli_epi32::<16>(_mm_and_si128(half, _mm_set1_epi32(0x8000)));
        _mm_or_ps(value, _mm_castsi128_ps(_mm_or_si128(special, sign)))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m128 {
        _mm_castsi128_ps(_mm_slli_epi32::<16>(_mm_cvtepu16_epi32(_mm_loadl_epi64(p.cast()))))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m128 {
        _mm_cvtepi32_ps(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(p.cast::<i32>().read_unaligned())))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> __m128 {
        _mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(p.cast::<i32>().read_unaligned())))
    }
    #[inline(always)]
    unsafe fn round(x: __m128) -> __m128i {
        _mm_cvtps_epi32(_mm_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x))
    }
    #[inline(always)]
    unsafe fn to_float(x: __m128i) -> __m128 {
        _mm_cvtepi32_ps(x)
    }
    #[inline(always)]
    unsafe fn exp2(x: __m128i) -> __m128 {
        _mm_castsi128_ps(_mm_slli_epi32::<23>(_mm_add_epi32(x, _mm_set1_epi32(127))))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m128i {
        _mm_set1_epi32(x)
    }
    #[inline(always)]
    unsafe fn add_i(a: __m128i, b: __m128i) -> __m128i {
        _mm_add_epi32(a, b)
    }
    #[inline(always)]
    unsafe fn sum_i(a: __m128i) -> i32 {
        sum_i(a)
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, x: __m128i) {
        _mm_storeu_si128(p.cast(), x)
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        let (a, b) = (_mm_loadu_ps(from), _mm_loadu_ps(from.add(from_stride)));
        let (c, d) = (_mm_loadu_ps(from.add(2 * from_stride)), _mm_loadu_ps(from.add(3 * from_stride)));
        let (ab_low, ab_high) = (_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(to, _mm_movelh_ps(ab_low, cd_low));
        _mm_storeu_ps(to.add(to_stride), _mm_movehl_ps(cd_low, ab_low));
        _mm_storeu_ps(to.add(2 * to_stride), _mm_movelh_ps(ab_high, cd_high));
        _mm_storeu_ps(to.add(3 * to_stride), _mm_movehl_ps(cd_high, ab_high));
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: __m128i) {
        let words = _mm_packs_epi32(x, x);
        p.cast::<i32>().write_unaligned(_mm_cvtsi128_si32(_mm_packs_epi16(words, words)))
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> __m128i {
        _mm_loadu_si128(p.cast())
    }
    #[inline(always)]
    unsafe fn and(a: __m128i, b: __m128i) -> __m128i {
        _mm_and_si128(a, b)
    }
    #[inline(always)]
    unsafe fn or(a: __m128i, b: __m128i) -> __m128i {
        _mm_or_si128(a, b)
    }
    #[inline(always)]
    unsafe fn shr16(a: __m128i, n: u32) -> __m128i {
        _mm_srl_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn shl16(a: __m128i, n: u32) -> __m128i {
        _mm_sll_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u8, index: __m128i) -> __m128i {
        _mm_shuffle_epi8(_mm_loadu_si128(table.cast()), index)
    }
    #[inline(always)]
    unsafe fn dot_start<const MAX: u32>(_init: *const i32) -> __m128i {
        _mm_setzero_si128()
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m128i; R], w: [__m128i; 4], x: *const i8) {
        let ones = _mm_set1_epi16(1);
        for (i, bytes) in w.into_iter().enumerate() {
            let signed = _mm_xor_si128(bytes, _mm_set1_epi8(-128));
            let size = _mm_abs_epi8(signed);
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = _mm_set1_epi32(x.add(32 * r + 4 * i).cast::<i32>().read_unaligned());
                let pairs = if MAX == 255 {
                    _mm_maddubs_epi16(size, _mm_sign_epi8(x, signed))
                } else {
                    _mm_maddubs_epi16(bytes, x)
                };
                *sum = _mm_add_epi32(*sum, _mm_madd_epi16(pairs, ones));
            }
        }
    }
    #[inline(always)]
    unsafe fn dot_finish<const MAX: u32>(sum: __m128i, init: *const i32) -> __m128i {
        if MAX == 255 {
            return sum;
        }
        _mm_add_epi32(sum, _mm_set1_epi32(init.read_unaligned()))
    }
}
