//! The scalar reference: what a product and an attention are, in the order of operations that the kernels promise, read
//! straight from ggml's blocks. It knows nothing of packing, tiles or registers.

use atelico_kernels::half::widened;
use atelico_kernels::weights::WeightType;

fn half(block: &[u8], at: usize) -> f32 {
    widened(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Weight `k` of a block as ggml describes it: (integer, scale, what is added).
pub fn weight(of: WeightType, b: &[u8], k: usize) -> (i32, f32, f32) {
    const NON_LINEAR: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    const E2M1: [i32; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    // Of a block of 32 whose first 16 values are lower and whose last 16 are upper halves of bytes.
    let nibble = |at: usize, k: usize| i32::from(if k < 16 { b[at + k] & 15 } else { b[at + k - 16] >> 4 });
    let fifth = |at: usize| i32::from(b[at + k / 8] >> (k % 8) & 1) << 4;
    let (sub, sub_16, in_128, half_128) = (k / 32, k / 16, k % 128, k / 128);
    let six_bits = |s: &[u8]| {
        let j = sub;
        if j < 4 {
            (s[j] & 63, s[j + 4] & 63)
        } else {
            (s[j + 4] & 15 | (s[j - 4] >> 6) << 4, s[j + 4] >> 4 | (s[j] >> 6) << 4)
        }
    };
    match of {
        WeightType::Q4_0 => (nibble(2, k) - 8, half(b, 0), 0.0),
        WeightType::Q4_1 => (nibble(4, k), half(b, 0), half(b, 2)),
        WeightType::Q5_0 => ((nibble(6, k) | fifth(2)) - 16, half(b, 0), 0.0),
        WeightType::Q5_1 => (nibble(8, k) | fifth(4), half(b, 0), half(b, 2)),
        WeightType::Q8_0 => (i32::from(b[2 + k] as i8), half(b, 0), 0.0),
        WeightType::Iq4Nl => (NON_LINEAR[nibble(2, k) as usize], half(b, 0), 0.0),
        WeightType::Mxfp4 => {
            let scale = 2.0_f64.powi(i32::from(b[0]) - 128) as f32;
            (E2M1[nibble(1, k) as usize], scale, 0.0)
        }
        WeightType::Iq4Xs => {
            let low = i32::from(b[4 + sub / 2] >> (4 * (sub % 2)) & 15);
            let high = i32::from(u16::from_le_bytes([b[2], b[3]]) >> (2 * sub) & 3);
            let scale = half(b, 0) * ((low | high << 4) - 32) as f32;
            (NON_LINEAR[nibble(8 + 16 * sub, k % 32) as usize], scale, 0.0)
        }
        WeightType::Q4K | WeightType::Q5K => {
            let five = of == WeightType::Q5K;
            let (factor, minimum) = six_bits(&b[4..16]);
            let byte = b[if five { 48 } else { 16 } + 32 * (sub / 2) + k % 32];
            let mut quant = i32::from(if sub % 2 == 0 { byte & 15 } else { byte >> 4 });
            if five {
                quant |= i32::from(b[16 + k % 32] >> sub & 1) << 4;
            }
            (quant, half(b, 0) * f32::from(factor), -half(b, 2) * f32::from(minimum))
        }
        WeightType::Q6K => {
            let (quarter, i) = (in_128 / 32, in_128 % 32);
            let byte = b[64 * half_128 + 32 * (quarter % 2) + i];
            let low = if quarter < 2 { byte & 15 } else { byte >> 4 };
            let high = b[128 + 32 * half_128 + i] >> (2 * quarter) & 3;
            let scale = half(b, 208) * f32::from(b[192 + sub_16] as i8);
            (i32::from(low | high << 4) - 32, scale, 0.0)
        }
        WeightType::Q3K => {
            let (quarter, i) = (in_128 / 32, in_128 % 32);
            let low = i32::from(b[32 + 32 * half_128 + i] >> (2 * quarter) & 3);
            let high = i32::from(b[i] >> sub & 1);
            let factor = i32::from(b[96 + sub_16 % 8] >> (4 * (sub_16 / 8)) & 15)
                | i32::from(b[104 + sub_16 % 4] >> (2 * (sub_16 / 4)) & 3) << 4;
            (low + 4 * high - 4, half(b, 108) * (factor - 32) as f32, 0.0)
        }
        WeightType::Q2K => {
            let (quarter, i) = (in_128 / 32, in_128 % 32);
            let quant = i32::from(b[16 + 32 * half_128 + i] >> (2 * quarter) & 3);
            (quant, half(b, 80) * f32::from(b[sub_16] & 15), -half(b, 82) * f32::from(b[sub_16] >> 4))
        }
        WeightType::F32 | WeightType::F16 | WeightType::Bf16 => unreachable!("no quants"),
    }
}

pub fn float_weight(of: WeightType, row: &[u8], k: usize) -> f32 {
    match of {
        WeightType::F32 => f32::from_le_bytes(row[4 * k..4 * k + 4].try_into().unwrap()),
        WeightType::F16 => half(row, 2 * k),
        _ => f32::from_bits(u32::from(u16::from_le_bytes([row[2 * k], row[2 * k + 1]])) << 16),
    }
}

/// One output: a row of weights times a row of activations.
pub fn product(of: WeightType, row: &[u8], x: &[f32]) -> f32 {
    let Some(layout) = of.layout() else {
        return x.chunks(32).enumerate().fold(0.0, |sum, (b, x)| {
            sum + x.iter().enumerate().fold(0.0, |s, (i, &x)| float_weight(of, row, 32 * b + i).mul_add(x, s))
        });
    };
    let (values, bytes, _) = of.block();
    let per_scale = 32 / layout.n_sums;
    let mut sum = 0.0_f32;
    for (b, x) in x.chunks(32).enumerate() {
        let largest = x.iter().fold(0.0_f32, |a, x| a.max(x.abs()));
        let is_zero = largest < 1e-30;
        let (scale, inverse) = if is_zero { (0.0, 0.0) } else { (largest / 127.0, 127.0 / largest) };
        let quants: Vec<i32> = x.iter().map(|x| (x * inverse).round_ties_even() as i32).collect();
        for first in (0..32).step_by(per_scale) {
            let block = &row[32 * b / values * bytes..][..bytes];
            let (mut dot, mut total, mut parts) = (0, 0, (0.0, 0.0));
            for (i, x) in quants.iter().enumerate().skip(first).take(per_scale) {
                let (quant, weight_scale, min) = weight(of, block, (32 * b + i) % values);
                dot += quant * x;
                total += x;
                parts = (weight_scale, min);
            }
            sum = (dot as f32).mul_add(parts.0 * scale, sum);
            if layout.mins {
                sum = parts.1.mul_add(scale * total as f32, sum);
            }
        }
    }
    sum
}

/// e to the power of x, as `exponential` says.
pub fn exp(x: f32) -> f32 {
    if x.is_nan() || x < -87.0 {
        return 0.0;
    }
    let n = (x * std::f32::consts::LOG2_E).round_ties_even();
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_65, 0.5]
        .iter()
        .fold(1.987_569_2e-4_f32, |p, c| p.mul_add(r, *c));
    p.mul_add(r * r, r + 1.0) * 2.0_f32.powi(n as i32)
}

fn tanh(x: f32) -> f32 {
    let e = exp((x + x).clamp(-20.0, 20.0));
    (e - 1.0) / (e + 1.0)
}

/// The product of two rows: 16 sums of every 16th value, then folded in halves.
fn folded(query: &[f32], key: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (d, (q, k)) in query.iter().zip(key).enumerate() {
        sums[d % 16] = q.mul_add(*k, sums[d % 16]);
    }
    for n in [8, 4, 2, 1] {
        for j in 0..n {
            sums[j] += sums[j + n];
        }
    }
    sums[0]
}

/// Attention of one query over the cells it sees, in the order of their positions: (keys, values, mask) of each.
pub fn attention(
    query: &[f32],
    cells: &[(Vec<f32>, Vec<f32>, f32)],
    scale: f32,
    softcap: f32,
    slope: f32,
    sink: Option<f32>,
) -> Vec<f32> {
    let scores: Vec<f32> = cells
        .iter()
        .map(|(key, _, mask)| {
            let score = folded(query, key);
            let score = if softcap == 0.0 { score * scale } else { tanh(score * (scale / softcap)) * softcap };
            slope.mul_add(*mask, score)
        })
        .collect();
    let largest = scores.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f32> = scores.iter().map(|s| exp(s - largest)).collect();
    let units = |w: f32| (w * 16_777_216.0).round_ties_even() as i64;
    let total: i64 = weights.iter().map(|&w| units(w)).sum::<i64>() + sink.map_or(0, |s| units(exp(s - largest)));
    let inverse = if total == 0 { 0.0 } else { (16_777_216.0 / total as f64) as f32 };
    let width = cells.first().map_or(0, |c| c.1.len());
    (0..width).map(|d| weights.iter().zip(cells).fold(0.0_f32, |s, (w, c)| w.mul_add(c.1[d], s)) * inverse).collect()
}
