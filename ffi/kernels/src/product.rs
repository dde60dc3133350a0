//! A matrix product over packed weights. Every output has one order of operations, whatever the number of rows:
//!
//! ```text
//! for each block of 32 columns, for each scale of it (one or two):
//!     sum = fma(float(exact integer dot product), weight scale * activation scale, sum)
//!     sum = fma(weight minimum, activation scale * float(sum of quants), sum)      where the type has minimums
//! ```
//!
//! For weights in floats: of each 32 columns one sum by fused products, in order; these are added up in order.

use crate::activations::Layout;
use crate::formats::{Format, GROUP};
use crate::simd::Simd;

/// Rows of one matrix that some rows of activations meet.
#[derive(Clone, Copy)]
pub struct Product<'a> {
    /// Packed groups of 16 rows.
    pub weights: *const u8,
    pub n_columns: usize,
    /// Rows of weights, of which the last group may have fewer than 16.
    pub n_outputs: usize,
    /// Panels of activations, one after the other: `panels[i]` points to a panel of at most `TILE` rows.
    pub panels: &'a [Panel],
}

/// Some rows of activations, and where their outputs go.
#[derive(Clone, Copy)]
pub struct Panel {
    pub activations: *const u8,
    /// Index of the first row in `outputs`.
    pub n_rows: usize,
    /// For each row the address of its first output.
    pub outputs: [*mut f32; 8],
}

/// Computes groups `first..last` of `product`: the part of one thread.
///
/// # Safety
///
/// All pointers are valid for the sizes that `product` states, and no other thread writes to these outputs.
#[inline(always)]
pub unsafe fn quantized<S: Simd, F: Format>(product: &Product, first: usize, last: usize) {
    let n_blocks = product.n_columns / F::VALUES;
    for group in first..last {
        let weights = product.weights.add(group * n_blocks * F::BYTES);
        let n_outputs = (product.n_outputs - group * GROUP).min(GROUP);
        for panel in product.panels {
            match panel.n_rows {
                1 => tile::<S, F, 1>(weights, n_blocks, panel, group, n_outputs),
                2 => tile::<S, F, 2>(weights, n_blocks, panel, group, n_outputs),
                3 => tile::<S, F, 3>(weights, n_blocks, panel, group, n_outputs),
                4 => tile::<S, F, 4>(weights, n_blocks, panel, group, n_outputs),
                5 if S::TILE > 4 => tile::<S, F, 5>(weights, n_blocks, panel, group, n_outputs),
                6 if S::TILE > 4 => tile::<S, F, 6>(weights, n_blocks, panel, group, n_outputs),
                7 if S::TILE > 4 => tile::<S, F, 7>(weights, n_blocks, panel, group, n_outputs),
                8 if S::TILE > 4 => tile::<S, F, 8>(weights, n_blocks, panel, group, n_outputs),
                _ => {}
            }
        }
    }
}

#[inline(always)]
unsafe fn store<S: Simd>(sum: S::F, output: *mut f32, part: usize, n_outputs: usize) {
    let first = part * S::W;
    if first + S::W <= n_outputs {
        S::store(output.add(first), sum);
    } else if first < n_outputs {
        let mut lanes = [0.0_f32; GROUP];
        S::store(lanes.as_mut_ptr(), sum);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), output.add(first), n_outputs - first);
    }
}

/// `R` rows of activations times one group of weights.
#[inline(always)]
unsafe fn tile<S: Simd, F: Format, const R: usize>(
    weights: *const u8,
    n_blocks: usize,
    panel: &Panel,
    group: usize,
    n_outputs: usize,
) {
    let layout = Layout::of::<F>();
    let stride = layout.row_bytes() * R;
    for part in 0..GROUP / S::W {
        let mut sums = [S::splat(0.0); R];
        let (mut w, mut x) = (weights, panel.activations);
        for _ in 0..n_blocks {
            let head = F::head::<S>(w, part);
            for sub in 0..F::VALUES / 32 {
                let scales = x.add(32 * R).cast::<f32>();
                let offsets = x.add(36 * R).cast::<i32>();
                let mins = x.add(36 * R + 4 * R * layout.n_sums).cast::<f32>();
                if F::SUB == 32 {
                    let mut dots = [S::splat_i(0); R];
                    for (r, dot) in dots.iter_mut().enumerate() {
                        *dot = start::<S, F>(offsets.add(r));
                    }
                    for half in 0..2 {
                        let quants = F::quants::<S>(w, sub, half, part);
                        for (r, dot) in dots.iter_mut().enumerate() {
                            *dot = dot_of::<S, F>(*dot, quants, x.add(32 * r + 16 * half).cast());
                        }
                    }
                    let scale = F::scale::<S>(head, w, sub, 0, part);
                    let min = F::min::<S>(head, w, sub, 0, part);
                    for (r, sum) in sums.iter_mut().enumerate() {
                        let dot = S::to_float(finish::<S, F>(dots[r], offsets.add(r)));
                        let both = S::mul(scale, S::splat(scales.add(r).read_unaligned()));
                        *sum = S::fma(dot, both, *sum);
                        if F::MINS {
                            *sum = S::fma(min, S::splat(mins.add(r).read_unaligned()), *sum);
                        }
                    }
                } else {
                    for half in 0..2 {
                        let quants = F::quants::<S>(w, sub, half, part);
                        let scale = F::scale::<S>(head, w, sub, half, part);
                        let min = F::min::<S>(head, w, sub, half, part);
                        for (r, sum) in sums.iter_mut().enumerate() {
                            let offset = offsets.add(half * R + r);
                            let dot = start::<S, F>(offset);
                            let dot = dot_of::<S, F>(dot, quants, x.add(32 * r + 16 * half).cast());
                            let dot = S::to_float(finish::<S, F>(dot, offset));
                            let both = S::mul(scale, S::splat(scales.add(r).read_unaligned()));
                            *sum = S::fma(dot, both, *sum);
                            if F::MINS {
                                *sum = S::fma(min, S::splat(mins.add(half * R + r).read_unaligned()), *sum);
                            }
                        }
                    }
                }
                x = x.add(stride);
            }
            w = w.add(F::BYTES);
        }
        for (r, sum) in sums.into_iter().enumerate() {
            store::<S>(sum, panel.outputs[r].add(group * GROUP), part, n_outputs);
        }
    }
}

// A constant of a trait cannot yet be the argument of a constant parameter, so each of the few there are is named.
#[inline(always)]
unsafe fn start<S: Simd, F: Format>(init: *const i32) -> S::I {
    match F::MAX {
        15 => S::dot_start::<15>(init),
        31 => S::dot_start::<31>(init),
        63 => S::dot_start::<63>(init),
        _ => S::dot_start::<255>(init),
    }
}

#[inline(always)]
unsafe fn dot_of<S: Simd, F: Format>(sum: S::I, w: [S::I; 4], x: *const i8) -> S::I {
    match F::MAX {
        15 => S::dot::<15>(sum, w, x),
        31 => S::dot::<31>(sum, w, x),
        63 => S::dot::<63>(sum, w, x),
        _ => S::dot::<255>(sum, w, x),
    }
}

#[inline(always)]
unsafe fn finish<S: Simd, F: Format>(sum: S::I, init: *const i32) -> S::I {
    match F::MAX {
        15 => S::dot_finish::<15>(sum, init),
        31 => S::dot_finish::<31>(sum, init),
        63 => S::dot_finish::<63>(sum, init),
        _ => S::dot_finish::<255>(sum, init),
    }
}

/// A type of float weights.
///
/// # Safety
///
/// `at` points to `W` of them.
pub trait Float: 'static {
    const BYTES: usize;
    unsafe fn load<S: Simd>(at: *const u8) -> S::F;
}

macro_rules! float {
    ($name:ident, $bytes:literal, $load:ident, $element:ty) => {
        pub struct $name;

        impl Float for $name {
            const BYTES: usize = $bytes;
            #[inline(always)]
            unsafe fn load<S: Simd>(at: *const u8) -> S::F {
                S::$load(at.cast::<$element>())
            }
        }
    };
}
float!(F32, 4, load, f32);
float!(F16, 2, load_f16, u16);
float!(Bf16, 2, load_bf16, u16);

/// As `quantized`, for weights in floats.
///
/// # Safety
///
/// As `quantized`.
#[inline(always)]
pub unsafe fn floats<S: Simd, T: Float>(product: &Product, first: usize, last: usize) {
    for group in first..last {
        let weights = product.weights.add(group * product.n_columns * GROUP * T::BYTES);
        let n_outputs = (product.n_outputs - group * GROUP).min(GROUP);
        for panel in product.panels {
            match panel.n_rows {
                1 => float_tile::<S, T, 1>(weights, product.n_columns, panel, group, n_outputs),
                2 => float_tile::<S, T, 2>(weights, product.n_columns, panel, group, n_outputs),
                3 => float_tile::<S, T, 3>(weights, product.n_columns, panel, group, n_outputs),
                4 => float_tile::<S, T, 4>(weights, product.n_columns, panel, group, n_outputs),
                5 if S::TILE > 4 => float_tile::<S, T, 5>(weights, product.n_columns, panel, group, n_outputs),
                6 if S::TILE > 4 => float_tile::<S, T, 6>(weights, product.n_columns, panel, group, n_outputs),
                7 if S::TILE > 4 => float_tile::<S, T, 7>(weights, product.n_columns, panel, group, n_outputs),
                8 if S::TILE > 4 => float_tile::<S, T, 8>(weights, product.n_columns, panel, group, n_outputs),
                _ => {}
            }
        }
    }
}

#[inline(always)]
unsafe fn float_tile<S: Simd, T: Float, const R: usize>(
    weights: *const u8,
    n_columns: usize,
    panel: &Panel,
    group: usize,
    n_outputs: usize,
) {
    for part in 0..GROUP / S::W {
        let mut sums = [S::splat(0.0); R];
        let mut w = weights.add(part * S::W * T::BYTES);
        let mut x = panel.activations.cast::<f32>();
        for _ in 0..n_columns / 32 {
            let mut of_block = [S::splat(0.0); R];
            for _ in 0..32 {
                let column = T::load::<S>(w);
                for (r, sum) in of_block.iter_mut().enumerate() {
                    *sum = S::fma(column, S::splat(x.add(r).read_unaligned()), *sum);
                }
                w = w.add(GROUP * T::BYTES);
                x = x.add(R);
            }
            for (sum, of_block) in sums.iter_mut().zip(of_block) {
                *sum = S::add(*sum, of_block);
            }
        }
        for (r, sum) in sums.into_iter().enumerate() {
            store::<S>(sum, panel.outputs[r].add(group * GROUP), part, n_outputs);
        }
    }
}
