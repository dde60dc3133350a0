//! The two loops that touch every logit: the best logit of each block, and the sum of exponentials. Nothing else.
//!
//! Each body is compiled once for the target's baseline and once for AVX2, chosen at run time. Neither fuses multiply
//! and add, so both give the same bits.

use crate::view::{BLOCK, View};

/// Writes the largest allowed logit of each block into `maxima`; -inf where nothing is possible.
pub fn block_maxima(view: &View, maxima: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was detected.
        return unsafe { block_maxima_avx2(view, maxima) };
    }
    block_maxima_any::<false>(view, maxima);
}

/// Sum over allowed logits of exp((logit - max) / temperature), relative error about 1e-6.
///
/// `maxima` are the view's block maxima and `max` the largest of them, finite. Blocks whose best term is below e^-28 are
/// left out: all tokens of a large vocabulary together are then less than 2e-7 of the sum.
pub fn mass(view: &View, maxima: &[f32], max: f32, temperature: f64) -> f64 {
    let scale = scale(temperature);
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was detected.
        return unsafe { mass_avx2(view, maxima, max, scale) };
    }
    mass_any(view, maxima, max, scale)
}

/// 1 / temperature, bounded so that 0 times it stays 0 at absurdly low temperatures.
pub fn scale(temperature: f64) -> f32 {
    (1.0 / temperature).min(1e30) as f32
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn block_maxima_avx2(view: &View, maxima: &mut [f32]) {
    block_maxima_any::<true>(view, maxima);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn mass_avx2(view: &View, maxima: &[f32], max: f32, scale: f32) -> f64 {
    mass_any(view, maxima, max, scale)
}

#[inline(always)]
fn block_maxima_any<const AVX2: bool>(view: &View, maxima: &mut [f32]) {
    let full = view.row.chunks_exact(BLOCK);
    let tail = full.remainder();
    match view.mask {
        None => {
            for (best, values) in maxima.iter_mut().zip(full) {
                *best = max_of_block::<AVX2>(values, u64::MAX);
            }
        }
        Some(mask) => {
            for ((best, values), words) in maxima.iter_mut().zip(full).zip(mask.chunks_exact(2)) {
                *best = match u64::from(words[0]) | u64::from(words[1]) << 32 {
                    0 => f32::NEG_INFINITY, // most blocks under a strict grammar: the row is not even read
                    allowed => max_of_block::<AVX2>(values, allowed),
                };
            }
        }
    }
    let last = maxima.len() - 1;
    if !tail.is_empty() {
        maxima[last] = max_of_few(tail, view.allowed(last));
    }
    for &block in view.overlay.map_or(&[][..], |overlay| overlay.blocks()) {
        let block = block as usize;
        maxima[block] = max_of_few(view.values(block), view.allowed(block));
    }
    for best in maxima {
        *best = if *best > f32::MAX { f32::MAX } else { *best }; // as view::clean does
    }
}

/// The larger of two; a NaN in `b` is ignored. Written as the comparison that vector units have.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

#[inline(always)]
fn lane_or(value: f32, allowed: u64, lane: usize) -> f32 {
    if allowed >> lane & 1 == 1 { value } else { f32::NEG_INFINITY }
}

#[inline(always)]
fn max_of_few(values: &[f32], allowed: u64) -> f32 {
    let lanes = values.iter().enumerate().map(|(lane, &value)| lane_or(value, allowed, lane));
    lanes.fold(f32::NEG_INFINITY, larger)
}

/// The largest allowed value of `BLOCK` values.
#[inline(always)]
fn max_of_block<const AVX2: bool>(values: &[f32], allowed: u64) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if AVX2 {
        assert_eq!(values.len(), BLOCK);
        // SAFETY: only the AVX2 variants of the passes ask for this, and there are BLOCK values.
        return unsafe { max_of_block_avx2(values.as_ptr(), allowed) };
    }
    let mut lanes = [f32::NEG_INFINITY; 8];
    for (part, values) in values.chunks_exact(8).enumerate() {
        let word = (allowed >> (8 * part)) as u32;
        for j in 0..8 {
            // A select by bits: a branch per token would not become vector code.
            let keep = 0u32.wrapping_sub(word >> j & 1);
            let bits = values[j].to_bits() & keep | f32::NEG_INFINITY.to_bits() & !keep;
            lanes[j] = larger(lanes[j], f32::from_bits(bits));
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

/// By hand, because the compiler's own vector code for the masked case is ten times slower.
///
/// SAFETY: the CPU has AVX2 and `values` points to `BLOCK` floats.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn max_of_block_avx2(values: *const f32, allowed: u64) -> f32 {
    use std::arch::x86_64::*;
    // SAFETY: as above.
    unsafe {
        let lowest = _mm256_set1_ps(f32::NEG_INFINITY);
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let mut best = [lowest; 2];
        for part in 0..BLOCK / 8 {
            let mut lanes = _mm256_loadu_ps(values.add(8 * part));
            if allowed != u64::MAX {
                let word = _mm256_set1_epi32((allowed >> (8 * part)) as i32);
                let keep = _mm256_cmpeq_epi32(_mm256_and_si256(word, bits), bits);
                lanes = _mm256_blendv_ps(lowest, lanes, _mm256_castsi256_ps(keep));
            }
            best[part % 2] = _mm256_max_ps(lanes, best[part % 2]); // the second operand where the first is NaN
        }
        let best = _mm256_max_ps(best[0], best[1]);
        let best = _mm_max_ps(_mm256_castps256_ps128(best), _mm256_extractf128_ps(best, 1));
        let best = _mm_max_ps(best, _mm_movehl_ps(best, best));
        _mm_cvtss_f32(_mm_max_ss(best, _mm_movehdup_ps(best)))
    }
}

#[inline(always)]
fn mass_any(view: &View, maxima: &[f32], max: f32, scale: f32) -> f64 {
    let mut sum = 0.0;
    for (block, &best) in maxima.iter().enumerate() {
        if (best - max) * scale < -28.0 {
            continue;
        }
        let allowed = view.allowed(block);
        let values = view.values(block);
        // Loops over whole arrays, in steps this simple, are what the compiler makes vector code of.
        let mut terms = [f32::NEG_INFINITY; BLOCK];
        terms[..values.len()].copy_from_slice(values);
        if allowed != u64::MAX {
            for (lane, term) in terms.iter_mut().enumerate() {
                *term = lane_or(*term, allowed, lane);
            }
        }
        for term in &mut terms {
            *term = exp((*term - max) * scale);
        }
        for width in [32, 16, 8, 4, 2, 1] {
            for j in 0..width {
                terms[j] += terms[j + width];
            }
        }
        sum += f64::from(terms[0]);
    }
    sum
}

/// e^x for x <= 0; below -87 (and for NaN) as good as 0, above 0 (+inf, where the largest logit was cut to f32::MAX) 1. Cody and Waite's reduction to |r| <= ln(2)/2, then the Taylor
/// series, whose next term is below 2e-7.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer, kept in the lowest bits
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 0.0 { x } else { 0.0 };
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let n = shifted - MAGIC;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let series = 1.0 / 120.0 + r * (1.0 / 720.0);
    let series = 1.0 / 6.0 + r * (1.0 / 24.0 + r * series);
    let series = 1.0 + r * (1.0 + r * (0.5 + r * series));
    let exponent = shifted.to_bits().wrapping_sub(MAGIC.to_bits()).wrapping_add(127);
    series * f32::from_bits(exponent << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row that ends inside a block, with NaN and infinities, and a mask with empty, full and mixed words.
    fn row_and_mask() -> (Vec<f32>, Vec<u32>) {
        let n = 1000u32;
        let scrambled = |i: u32| i.wrapping_mul(2_654_435_761) >> 8;
        let row = (0..n).map(|i| match i % 97 {
            5 => f32::NAN,
            6 => f32::NEG_INFINITY,
            _ => scrambled(i) as f32 / 1e6 - 8.0,
        });
        let mask = (0..n.div_ceil(32)).map(|i| match i % 6 {
            0 | 1 => 0,
            2 | 3 => u32::MAX,
            _ => scrambled(i),
        });
        (row.collect(), mask.collect())
    }

    #[test]
    fn baseline_and_dispatched_code_give_the_same_bits() {
        let (row, mask) = row_and_mask();
        for mask in [None, Some(&mask[..])] {
            let view = View { row: &row, mask, overlay: None };
            let mut baseline = vec![0.0; view.n_blocks()];
            let mut dispatched = baseline.clone();
            block_maxima_any::<false>(&view, &mut baseline);
            block_maxima(&view, &mut dispatched);
            assert_eq!(baseline, dispatched);
            let max = baseline.iter().copied().fold(f32::NEG_INFINITY, larger);
            assert_eq!(mass_any(&view, &baseline, max, scale(0.7)), mass(&view, &baseline, max, 0.7));
        }
    }

    #[test]
    fn exp_is_within_a_millionth() {
        for i in 0..8600 {
            let x = -f64::from(i) / 100.0;
            let relative = f64::from(exp(x as f32)) / f64::from(x as f32).exp() - 1.0;
            assert!(relative.abs() < 1e-6, "exp({x}) is off by {relative}");
        }
        assert!(exp(f32::NAN) < 1e-37);
        assert!(exp(f32::NEG_INFINITY) < 1e-37);
        assert_eq!(exp(f32::INFINITY), 1.0);
    }
}
