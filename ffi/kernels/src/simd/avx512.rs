//! AVX-512 with VNNI: 16 lanes, and sums of four products of bytes in one instruction.

use super::Simd;
use std::arch::x86_64::*;

/// Needs avx512f, avx512bw, avx512dq, avx512vl, avx512vnni.
#[derive(Clone, Copy)]
pub struct Avx512;

impl Simd for Avx512 {
    const W: usize = 16;
    const TILE: usize = 8;
    type F = __m512;
    type I = __m512i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        _mm512_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        _mm512_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m512) {
        _mm512_storeu_ps(p, x)
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        _mm512_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m512) -> __m512 {
        _mm512_abs_ps(a)
    }
    #[inline(always)]
    unsafe fn max_lane(a: __m512) -> f32 {
        _mm512_reduce_max_ps(a)
    }
    #[inline(always)]
    unsafe fn zero_below(key: __m512, limit: f32, x: __m512) -> __m512 {
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(key, _mm512_set1_ps(limit)), x)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())))
    }
    #[inline(always)]
    unsafe fn round(x: __m512) -> __m512i {
        _mm512_cvt_roundps_epi32::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x)
    }
    #[inline(always)]
    unsafe fn to_float(x: __m512i) -> __m512 {
        _mm512_cvtepi32_ps(x)
    }
    #[inline(always)]
    unsafe fn exp2(x: __m512i) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<23>(_mm512_add_epi32(x, _mm512_set1_epi32(127))))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m512i {
        _mm512_set1_epi32(x)
    }
    #[inline(always)]
    unsafe fn add_i(a: __m512i, b: __m512i) -> __m512i {
        _mm512_add_epi32(a, b)
    }
    #[inline(always)]
    unsafe fn sum_i(a: __m512i) -> i32 {
        _mm512_reduce_add_epi32(a)
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, x: __m512i) {
        _mm512_storeu_si512(p.cast(), x)
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        let mut rows = [_mm512_setzero_ps(); 16];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = _mm512_loadu_ps(from.add(i * from_stride));
        }
        let mut pairs = rows;
        for i in 0..8 {
            pairs[2 * i] = _mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
        }
        let mut fours = pairs;
        for i in 0..4 {
            fours[4 * i] = _mm512_shuffle_ps::<0x44>(pairs[4 * i], pairs[4 * i + 2]);
            fours[4 * i + 1] = _mm512_shuffle_ps::<0xEE>(pairs[4 * i], pairs[4 * i + 2]);
            fours[4 * i + 2] = _mm512_shuffle_ps::<0x44>(pairs[4 * i + 1], pairs[4 * i + 3]);
            fours[4 * i + 3] = _mm512_shuffle_ps::<0xEE>(pairs[4 * i + 1], pairs[4 * i + 3]);
        }
        // Quarters: fours[4 * i + j] has, of rows 4 * i to 4 * i + 3, columns j, j + 4, j + 8 and j + 12.
        for j in 0..4 {
            let low = _mm512_shuffle_f32x4::<0x88>(fours[j], fours[4 + j]);
            let high = _mm512_shuffle_f32x4::<0xDD>(fours[j], fours[4 + j]);
            let low_2 = _mm512_shuffle_f32x4::<0x88>(fours[8 + j], fours[12 + j]);
            let high_2 = _mm512_shuffle_f32x4::<0xDD>(fours[8 + j], fours[12 + j]);
            _mm512_storeu_ps(to.add(j * to_stride), _mm512_shuffle_f32x4::<0x88>(low, low_2));
            _mm512_storeu_ps(to.add((j + 8) * to_stride), _mm512_shuffle_f32x4::<0xDD>(low, low_2));
            _mm512_storeu_ps(to.add((j + 4) * to_stride), _mm512_shuffle_f32x4::<0x88>(high, high_2));
            _mm512_storeu_ps(to.add((j + 12) * to_stride), _mm512_shuffle_f32x4::<0xDD>(high, high_2));
        }
    }
    #[inline(always)]
    unsafe fn fold(rows: *const f32, sums: *mut f32) {
        let row = |r: usize| _mm512_loadu_ps(rows.add(16 * r));
        // Quarters: fours[e] has four sums of each of rows e, 4 + e, 8 + e and 12 + e.
        let mut fours = [_mm512_setzero_ps(); 4];
        for (e, four) in fours.iter_mut().enumerate() {
            let halves = |a: __m512, b: __m512| {
                _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b))
            };
            let (low, high) = (halves(row(e), row(4 + e)), halves(row(8 + e), row(12 + e)));
            *four = _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(low, high), _mm512_shuffle_f32x4::<0xDD>(low, high));
        }
        let twos =
            |a: __m512, b: __m512| _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xEE>(a, b));
        let (low, high) = (twos(fours[0], fours[1]), twos(fours[2], fours[3]));
        let sum = _mm512_add_ps(_mm512_shuffle_ps::<0x88>(low, high), _mm512_shuffle_ps::<0xDD>(low, high));
        _mm512_storeu_ps(sums, sum);
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: __m512i) {
        _mm_storeu_si128(p.cast(), _mm512_cvtepi32_epi8(x))
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> __m512i {
        _mm512_loadu_si512(p.cast())
    }
    #[inline(always)]
    unsafe fn and(a: __m512i, b: __m512i) -> __m512i {
        _mm512_and_si512(a, b)
    }
    #[inline(always)]
    unsafe fn or(a: __m512i, b: __m512i) -> __m512i {
        _mm512_or_si512(a, b)
    }
    #[inline(always)]
    unsafe fn shr16(a: __m512i, n: u32) -> __m512i {
        _mm512_srl_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn shl16(a: __m512i, n: u32) -> __m512i {
        _mm512_sll_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u8, index: __m512i) -> __m512i {
        _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(table.cast())), index)
    }
    #[inline(always)]
    unsafe fn dot_start<const MAX: u32>(init: *const i32) -> __m512i {
        _mm512_set1_epi32(init.read_unaligned())
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m512i; R], w: [__m512i; 4], x: *const i8) {
        for (r, sum) in sums.iter_mut().enumerate() {
            for (i, step) in w.into_iter().enumerate() {
                let x = x.add(32 * r + 4 * i).cast::<i32>().read_unaligned();
                *sum = _mm512_dpbusd_epi32(*sum, step, _mm512_set1_epi32(x));
            }
        }
    }
    #[inline(always)]
    unsafe fn dot_finish<const MAX: u32>(sum: __m512i, _init: *const i32) -> __m512i {
        sum
    }
}
