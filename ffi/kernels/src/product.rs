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
use crate::simd::{Simd, prefetch};

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

/// How far ahead memory is asked for weights that one panel meets, in bytes: what it takes some hundred cycles to use.
const AHEAD: usize = 6 << 10;

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
        for (i, panel) in product.panels.iter().enumerate() {
            let ahead = match product.panels.len() {
                1 if panel.n_rows > 4 || F::FETCHES => AHEAD,
                1 => 0,
                // The first panel finds in the cache what the last one of the group before has fetched.
                n if i + 1 == n => n_blocks * F::BYTES,
                _ => 0,
            };
            let tile = Tile { weights, n_blocks, panel, group, n_outputs, ahead };
            match panel.n_rows {
                1 if S::W < GROUP => tile.multiply::<S, F, 1, 2>(),
                2 if S::W < GROUP => tile.multiply::<S, F, 2, 2>(),
                1 => tile.multiply::<S, F, 1, 1>(),
                2 => tile.multiply::<S, F, 2, 1>(),
                3 => tile.multiply::<S, F, 3, 1>(),
                4 => tile.multiply::<S, F, 4, 1>(),
                5 if S::TILE > 4 => tile.multiply::<S, F, 5, 1>(),
                6 if S::TILE > 4 => tile.multiply::<S, F, 6, 1>(),
                7 if S::TILE > 4 => tile.multiply::<S, F, 7, 1>(),
                8 if S::TILE > 4 => tile.multiply::<S, F, 8, 1>(),
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

/// One panel times one group of weights.
struct Tile<'a> {
    weights: *const u8,
    n_blocks: usize,
    panel: &'a Panel,
    group: usize,
    n_outputs: usize,
    /// How far ahead weights are fetched; 0 for not at all.
    ahead: usize,
}

impl Tile<'_> {
    /// `R` rows of activations at a time, and `P` registers of weights.
    #[inline(always)]
    unsafe fn multiply<S: Simd, F: Format, const R: usize, const P: usize>(&self) {
        let mut part = 0;
        while part < GROUP / S::W {
            self.multiply_parts::<S, F, R, P>(part);
            part += P;
        }
    }

    #[inline(always)]
    unsafe fn multiply_parts<S: Simd, F: Format, const R: usize, const P: usize>(&self, first_part: usize) {
        let layout = Layout::of::<F>();
        let stride = layout.row_bytes() * R;
        let mut sums = [[S::splat(0.0); R]; P];
        let (mut w, mut x) = (self.weights, self.panel.activations);
        for _ in 0..self.n_blocks {
            let mut heads = [(S::splat(0.0), S::splat(0.0)); P];
            for (p, head) in heads.iter_mut().enumerate() {
                *head = F::head::<S>(w, first_part + p);
            }
            for sub in 0..F::VALUES / 32 {
                if self.ahead > 0 {
                    fetch::<S, F, P>(w.wrapping_add(self.ahead), sub, first_part);
                }
                let scales = x.add(32 * R).cast::<f32>();
                let offsets = x.add(36 * R).cast::<i32>();
                let mins = x.add(36 * R + 4 * R * layout.n_sums).cast::<f32>();
                // All 32 columns share a scale, or each half has its own.
                let n_sums = 32 / F::SUB;
                for s in 0..n_sums {
                    let mut dots = [[S::splat_i(0); R]; P];
                    for of_part in &mut dots {
                        for (r, dot) in of_part.iter_mut().enumerate() {
                            *dot = start::<S, F>(offsets.add(s * R + r));
                        }
                    }
                    for half in s..(s + 1).max(3 - n_sums) {
                        for (p, of_part) in dots.iter_mut().enumerate() {
                            let quants = F::quants::<S>(w, sub, half, first_part + p);
                            dot_of::<S, F, R>(of_part, quants, x.add(16 * half).cast());
                        }
                    }
                    for p in 0..P {
                        let scale = F::scale::<S>(heads[p], w, sub, s, first_part + p);
                        let min = F::min::<S>(heads[p], w, sub, s, first_part + p);
                        for (r, sum) in sums[p].iter_mut().enumerate() {
                            let dot = S::to_float(finish::<S, F>(dots[p][r], offsets.add(s * R + r)));
                            let both = S::mul(scale, S::splat(scales.add(r).read_unaligned()));
                            *sum = S::fma(dot, both, *sum);
                            if F::MINS {
                                *sum = S::fma(min, S::splat(mins.add(s * R + r).read_unaligned()), *sum);
                            }
                        }
                    }
                }
                x = x.add(stride);
            }
            w = w.add(F::BYTES);
        }
        for (p, of_part) in sums.into_iter().enumerate() {
            for (r, sum) in of_part.into_iter().enumerate() {
                store::<S>(sum, self.panel.outputs[r].add(self.group * GROUP), first_part + p, self.n_outputs);
            }
        }
    }
}

/// Fetches these parts' share of the lines that block of 32 number `sub` lies in.
#[inline(always)]
fn fetch<S: Simd, F: Format, const P: usize>(block: *const u8, sub: usize, first_part: usize) {
    let n_subs = F::VALUES / 32;
    let lines = F::BYTES.div_ceil(64);
    for line in lines * sub / n_subs..lines * (sub + 1) / n_subs {
        if line % (GROUP / S::W / P) == first_part / P {
            prefetch(block.wrapping_add(64 * line));
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
unsafe fn dot_of<S: Simd, F: Format, const R: usize>(sums: &mut [S::I; R], w: [S::I; 4], x: *const i8) {
    match F::MAX {
        15 => S::dot::<15, R>(sums, w, x),
        31 => S::dot::<31, R>(sums, w, x),
        63 => S::dot::<63, R>(sums, w, x),
        _ => S::dot::<255, R>(sums, w, x),
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
