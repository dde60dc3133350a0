//! Every product of every set of kernels that this processor has, against the scalar reference, to the bit.

mod common;

use atelico_kernels::formats::GROUP;
use atelico_kernels::product::{Panel, Product};
use atelico_kernels::tier::{self, Tier};
use atelico_kernels::weights::{Shape, WeightType};
use common::{Random, matrix, reference};

/// All outputs of `rows` in panels of at most `panel_rows`, groups computed in `n_parts` parts.
fn multiply(
    tier: &Tier,
    shape: Shape,
    packed: &[u8],
    rows: &[Vec<f32>],
    panel_rows: usize,
    n_parts: usize,
) -> Vec<f32> {
    let mut outputs = vec![f32::NAN; rows.len() * shape.n_rows];
    let row_bytes = shape.of.layout().map_or(4 * shape.n_columns, |l| l.row_bytes() * shape.n_columns / 32);
    let mut storage: Vec<Vec<u8>> = Vec::new();
    let mut panels = Vec::new();
    for (p, chunk) in rows.chunks(panel_rows).enumerate() {
        let mut panel = vec![0_u8; row_bytes * chunk.len()];
        let mut addresses = [std::ptr::null_mut(); 8];
        for (r, row) in chunk.iter().enumerate() {
            unsafe {
                match shape.of.layout() {
                    Some(layout) => {
                        (tier.quantize)(row.as_ptr(), shape.n_columns, panel.as_mut_ptr(), r, chunk.len(), layout);
                    }
                    None => (tier.interleave)(row.as_ptr(), shape.n_columns, panel.as_mut_ptr(), r, chunk.len()),
                }
                addresses[r] = outputs.as_mut_ptr().add((p * panel_rows + r) * shape.n_rows);
            }
        }
        panels.push(Panel { activations: panel.as_ptr(), n_rows: chunk.len(), outputs: addresses });
        storage.push(panel);
    }
    let product =
        Product { weights: packed.as_ptr(), n_columns: shape.n_columns, n_outputs: shape.n_rows, panels: &panels };
    let per_part = shape.n_groups().div_ceil(n_parts);
    for first in (0..shape.n_groups()).step_by(per_part) {
        unsafe { tier.multiply(shape.of)(&product, first, (first + per_part).min(shape.n_groups())) };
    }
    outputs
}

fn activations(random: &mut Random, n_columns: usize) -> Vec<f32> {
    let mut row: Vec<f32> = (0..n_columns).map(|_| random.float()).collect();
    let (at, size) = (32 * random.below(n_columns / 32), random.below(4));
    match size {
        0 => row[at..at + 32].fill(0.0),
        1 => row[at..at + 32].iter_mut().for_each(|x| *x *= 1e-33),
        2 => row[at..at + 32].iter_mut().for_each(|x| *x *= 1e6),
        _ => row[at] = -0.0,
    }
    row
}

#[test]
fn every_type_and_tier_and_width_has_the_reference_s_bits() {
    let mut random = Random(1);
    for &of in WeightType::ALL {
        let n_columns = of.block().0 * (1 + random.below(3));
        for n_rows in [1, GROUP - 1, 2 * GROUP, 2 * GROUP + 5] {
            let shape = Shape::new(of, n_columns, n_rows).unwrap();
            let source = matrix(&mut random, shape);
            let mut packed = vec![0_u8; shape.packed_bytes()];
            unsafe { shape.pack_all(source.as_ptr(), packed.as_mut_ptr()) };
            let rows: Vec<Vec<f32>> = (0..9).map(|_| activations(&mut random, n_columns)).collect();
            let expected: Vec<u32> = rows
                .iter()
                .flat_map(|x| source.chunks(shape.source_row_bytes()).map(|w| reference::product(of, w, x).to_bits()))
                .collect();
            for tier in tier::supported() {
                for panel_rows in 1..=tier.tile {
                    let outputs = multiply(tier, shape, &packed, &rows, panel_rows, 1 + panel_rows % 3);
                    let bits: Vec<u32> = outputs.iter().map(|x| x.to_bits()).collect();
                    assert_eq!(bits, expected, "{of:?}, {n_rows} outputs, {}, {panel_rows} rows", tier.name);
                }
            }
        }
    }
}

#[test]
fn the_reference_is_what_the_weights_mean() {
    // Against sums in 64 bits over the dequantised weights: only the rounding of activations may differ.
    let mut random = Random(2);
    for &of in WeightType::ALL {
        let shape = Shape::new(of, 512, 8).unwrap();
        let source = matrix(&mut random, shape);
        let x: Vec<f32> = (0..512).map(|_| random.float()).collect();
        for row in source.chunks(shape.source_row_bytes()) {
            let (values, bytes, _) = of.block();
            let terms: Vec<f64> = (0..512)
                .map(|k| {
                    let weight = if of.layout().is_some() {
                        let (quant, scale, min) =
                            reference::weight(of, &row[k / values * bytes..][..bytes], k % values);
                        f64::from(quant) * f64::from(scale) + f64::from(min)
                    } else {
                        f64::from(reference::float_weight(of, row, k))
                    };
                    weight * f64::from(x[k])
                })
                .collect();
            let (exact, size) = (terms.iter().sum::<f64>(), terms.iter().map(|t| t * t).sum::<f64>().sqrt());
            let error = (f64::from(reference::product(of, row, &x)) - exact).abs();
            let allowed = if of.layout().is_some() { 0.03 } else { 1e-5 };
            assert!(error <= allowed * size, "{of:?}: {error} of {size}");
        }
    }
}
