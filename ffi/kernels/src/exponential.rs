//! e to the power of x and the hyperbolic tangent, the same bits on every processor: the C library's are not.

use crate::simd::Simd;

/// Below this a power counts as zero, so that no result is smaller than the smallest normal float.
pub const LOWEST: f32 = -87.0;

/// e to the power of `x`, for `x` up to 88; 0 below `LOWEST`, so for minus infinity as well.
///
/// x = n ln 2 + r, with the polynomial of Cephes (expf) for e to the power of r. Largest relative error: 2e-7.
///
/// # Safety
///
/// As every method of `Simd`.
#[inline(always)]
pub unsafe fn exp<S: Simd>(x: S::F) -> S::F {
    let bounded = S::max(x, S::splat(LOWEST));
    let n = S::round(S::mul(bounded, S::splat(std::f32::consts::LOG2_E)));
    let whole = S::to_float(n);
    let r = S::fma(whole, S::splat(-0.693_359_4), bounded);
    let r = S::fma(whole, S::splat(2.121_944_4e-4), r);
    let mut p = S::splat(1.987_569_2e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5] {
        p = S::fma(p, r, S::splat(coefficient));
    }
    let p = S::fma(p, S::mul(r, r), S::add(r, S::splat(1.0)));
    S::zero_below(x, LOWEST, S::mul(p, S::exp2(n)))
}

/// The hyperbolic tangent of `x`, from (e - 1) / (e + 1) with e = exp(2 x). Largest error: 1e-7.
///
/// # Safety
///
/// As every method of `Simd`.
#[inline(always)]
pub unsafe fn tanh<S: Simd>(x: S::F) -> S::F {
    let zero = S::splat(0.0);
    let twice = S::max(S::add(x, x), S::splat(-20.0));
    let twice = S::sub(zero, S::max(S::sub(zero, twice), S::splat(-20.0)));
    let e = exp::<S>(twice);
    S::div(S::sub(e, S::splat(1.0)), S::add(e, S::splat(1.0)))
}
