//! AVX2 with FMA and F16C: 8 lanes. With AVX-VNNI, sums of four products of bytes are one instruction; without, they are
//! made of products of unsigned with signed bytes, whose sums of two fit 16 bits as long as `MAX` says.

use super::Simd;
use std::arch::x86_64::*;

/// How four products of bytes are added up in a lane.
pub trait Dot: Copy + 'static {
    unsafe fn start<const MAX: u32>(init: *const i32) -> __m256i;
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m256i; R], w: [__m256i; 4], x: *const i8);
    unsafe fn finish<const MAX: u32>(sum: __m256i, init: *const i32) -> __m256i;
}

/// Needs avx2, fma, f16c, and what `D` needs.
#[derive(Clone, Copy)]
pub struct Avx2<D>(std::marker::PhantomData<D>);

/// Needs nothing more.
#[derive(Clone, Copy)]
pub struct Pairs;

/// Needs avxvnni.
#[derive(Clone, Copy)]
pub struct Vnni;

/// The same sums as `Vnni` in the encoding of AVX-512, to test it where a processor has only that one: needs avx512vnni,
/// avx512vl.
#[derive(Clone, Copy)]
pub struct VnniEvex;

#[inline(always)]
unsafe fn step(x: *const i8, r: usize, i: usize) -> __m256i {
    _mm256_set1_epi32(x.add(32 * r + 4 * i).cast::<i32>().read_unaligned())
}

impl Dot for Pairs {
    #[inline(always)]
    unsafe fn start<const MAX: u32>(_init: *const i32) -> __m256i {
        _mm256_setzero_si256()
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m256i; R], w: [__m256i; 4], x: *const i8) {
        let ones = _mm256_set1_epi16(1);
        if MAX > 63 {
            // Step after step, so that few registers hold what is made of weights.
            for (i, bytes) in w.into_iter().enumerate() {
                let signed = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
                let size = _mm256_abs_epi8(signed);
                for (r, sum) in sums.iter_mut().enumerate() {
                    let pairs = _mm256_maddubs_epi16(size, _mm256_sign_epi8(step(x, r, i), signed));
                    *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
                }
            }
            return;
        }
        for (r, sum) in sums.iter_mut().enumerate() {
            let pairs = |i: usize| _mm256_maddubs_epi16(w[i], step(x, r, i));
            let a = _mm256_add_epi16(pairs(0), pairs(1));
            let b = _mm256_add_epi16(pairs(2), pairs(3));
            if MAX <= 15 {
                // 16 bits hold the pairs of a whole block of 32: 16 * 15 * 127 < 32767.
                *sum = _mm256_add_epi16(*sum, _mm256_add_epi16(a, b));
            } else if MAX <= 31 {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_add_epi16(a, b), ones));
            } else {
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(a, ones));
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(b, ones));
            }
        }
    }
    #[inline(always)]
    unsafe fn finish<const MAX: u32>(sum: __m256i, init: *const i32) -> __m256i {
        if MAX == 255 {
            return sum;
        }
        let init = _mm256_set1_epi32(init.read_unaligned());
        if MAX <= 15 {
            _mm256_add_epi32(init, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)))
        } else {
            _mm256_add_epi32(init, sum)
        }
    }
}

macro_rules! vnni {
    ($name:ident, $dot:ident) => {
        impl Dot for $name {
            #[inline(always)]
            unsafe fn start<const MAX: u32>(init: *const i32) -> __m256i {
                _mm256_set1_epi32(init.read_unaligned())
            }
            #[inline(always)]
            unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m256i; R], w: [__m256i; 4], x: *const i8) {
                for (r, sum) in sums.iter_mut().enumerate() {
                    for (i, bytes) in w.into_iter().enumerate() {
                        *sum = $dot(*sum, bytes, step(x, r, i));
                    }
                }
            }
            #[inline(always)]
            unsafe fn finish<const MAX: u32>(sum: __m256i, _init: *const i32) -> __m256i {
                sum
            }
        }
    };
}
vnni!(Vnni, _mm256_dpbusd_avx_epi32);
vnni!(VnniEvex, _mm256_dpbusd_epi32);

impl<D: Dot> Simd for Avx2<D> {
    const W: usize = 8;
    const TILE: usize = 4;
    type F = __m256;
    type I = __m256i;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        _mm256_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        _mm256_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, x: __m256) {
        _mm256_storeu_ps(p, x)
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        _mm256_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        _mm256_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m256) -> __m256 {
        _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
    }
    #[inline(always)]
    unsafe fn max_lane(a: __m256) -> f32 {
        let half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
        super::sse::max_lane(half)
    }
    #[inline(always)]
    unsafe fn zero_below(key: __m256, limit: f32, x: __m256) -> __m256 {
        _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(key, _mm256_set1_ps(limit)), x)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
    }
    #[inline(always)]
    unsafe fn load_u8(p: *const u8) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const u8) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())))
    }
    #[inline(always)]
    unsafe fn round(x: __m256) -> __m256i {
        _mm256_cvtps_epi32(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x))
    }
    #[inline(always)]
    unsafe fn to_float(x: __m256i) -> __m256 {
        _mm256_cvtepi32_ps(x)
    }
    #[inline(always)]
    unsafe fn exp2(x: __m256i) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(x, _mm256_set1_epi32(127))))
    }
    #[inline(always)]
    unsafe fn splat_i(x: i32) -> __m256i {
        _mm256_set1_epi32(x)
    }
    #[inline(always)]
    unsafe fn add_i(a: __m256i, b: __m256i) -> __m256i {
        _mm256_add_epi32(a, b)
    }
    #[inline(always)]
    unsafe fn sum_i(a: __m256i) -> i32 {
        super::sse::sum_i(_mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256::<1>(a)))
    }
    #[inline(always)]
    unsafe fn store_i(p: *mut i32, x: __m256i) {
        _mm256_storeu_si256(p.cast(), x)
    }
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        let mut rows = [_mm256_setzero_ps(); 8];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = _mm256_loadu_ps(from.add(i * from_stride));
        }
        let mut pairs = [_mm256_setzero_ps(); 8];
        for i in 0..4 {
            pairs[2 * i] = _mm256_unpacklo_ps(rows[2 * i], rows[2 * i + 1]);
            pairs[2 * i + 1] = _mm256_unpackhi_ps(rows[2 * i], rows[2 * i + 1]);
        }
        let mut fours = [_mm256_setzero_ps(); 8];
        for i in 0..2 {
            fours[4 * i] = _mm256_shuffle_ps::<0x44>(pairs[4 * i], pairs[4 * i + 2]);
            fours[4 * i + 1] = _mm256_shuffle_ps::<0xEE>(pairs[4 * i], pairs[4 * i + 2]);
            fours[4 * i + 2] = _mm256_shuffle_ps::<0x44>(pairs[4 * i + 1], pairs[4 * i + 3]);
            fours[4 * i + 3] = _mm256_shuffle_ps::<0xEE>(pairs[4 * i + 1], pairs[4 * i + 3]);
        }
        for i in 0..4 {
            _mm256_storeu_ps(to.add(i * to_stride), _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]));
            _mm256_storeu_ps(to.add((i + 4) * to_stride), _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]));
        }
    }
    #[inline(always)]
    unsafe fn store_i8(p: *mut i8, x: __m256i) {
        let words = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
        _mm_storel_epi64(p.cast(), _mm_packs_epi16(words, words))
    }
    #[inline(always)]
    unsafe fn load_bytes(p: *const u8) -> __m256i {
        _mm256_loadu_si256(p.cast())
    }
    #[inline(always)]
    unsafe fn and(a: __m256i, b: __m256i) -> __m256i {
        _mm256_and_si256(a, b)
    }
    #[inline(always)]
    unsafe fn or(a: __m256i, b: __m256i) -> __m256i {
        _mm256_or_si256(a, b)
    }
    #[inline(always)]
    unsafe fn shr16(a: __m256i, n: u32) -> __m256i {
        _mm256_srl_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn shl16(a: __m256i, n: u32) -> __m256i {
        _mm256_sll_epi16(a, _mm_cvtsi32_si128(n as i32))
    }
    #[inline(always)]
    unsafe fn lookup(table: *const u8, index: __m256i) -> __m256i {
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast())), index)
    }
    #[inline(always)]
    unsafe fn dot_start<const MAX: u32>(init: *const i32) -> __m256i {
        D::start::<MAX>(init)
    }
    #[inline(always)]
    unsafe fn dot<const MAX: u32, const R: usize>(sums: &mut [__m256i; R], w: [__m256i; 4], x: *const i8) {
        D::dot::<MAX, R>(sums, w, x);
    }
    #[inline(always)]
    unsafe fn dot_finish<const MAX: u32>(sum: __m256i, init: *const i32) -> __m256i {
        D::finish::<MAX>(sum, init)
    }
}
