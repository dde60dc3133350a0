//! Attention of every set of kernels against the scalar reference, to the bit, and against itself in other company.

mod common;

use atelico_kernels::attention::{Attention, CellType, Cells, Part, scratch_floats};
use atelico_kernels::half::widened;
use atelico_kernels::tier;
use common::{Random, reference};

struct Case {
    heads: usize,
    group: usize,
    key_width: usize,
    value_width: usize,
    softcap: f32,
    with_sinks: bool,
    slope: f32,
    of: CellType,
    n_cells: usize,
    n_rows: usize,
}

fn size(of: CellType, width: usize) -> usize {
    match of {
        CellType::F32 => 4 * width,
        CellType::F16 | CellType::Bf16 => 2 * width,
        CellType::Q8_0 => width / 32 * 34,
        CellType::Other(_) => unreachable!(),
    }
}

/// Random memory of cells, and what each head of each cell means.
fn memory(random: &mut Random, of: CellType, n_cells: usize, heads: usize, width: usize) -> (Vec<u8>, Vec<Vec<f32>>) {
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    for _ in 0..n_cells * heads {
        let mut row = Vec::new();
        match of {
            CellType::F32 => {
                for _ in 0..width {
                    let x = random.float();
                    bytes.extend(x.to_le_bytes());
                    row.push(x);
                }
            }
            CellType::F16 => {
                for _ in 0..width {
                    let x = random.half();
                    bytes.extend(x.to_le_bytes());
                    row.push(widened(x));
                }
            }
            CellType::Bf16 => {
                for _ in 0..width {
                    let x = random.float().to_bits() >> 16;
                    bytes.extend((x as u16).to_le_bytes());
                    row.push(f32::from_bits(x << 16));
                }
            }
            _ => {
                for _ in 0..width / 32 {
                    let scale = random.half();
                    bytes.extend(scale.to_le_bytes());
                    for _ in 0..32 {
                        let q = random.next() as i8;
                        bytes.push(q as u8);
                        row.push(widened(scale) * f32::from(q));
                    }
                }
            }
        }
        values.push(row);
    }
    (bytes, values)
}

fn check(random: &mut Random, case: &Case) {
    let kv_heads = case.heads / case.group;
    let (keys, key_values) = memory(random, case.of, case.n_cells, kv_heads, case.key_width);
    let (values, value_values) = memory(random, case.of, case.n_cells, kv_heads, case.value_width);
    let queries: Vec<f32> = (0..case.n_rows * case.heads * case.key_width).map(|_| random.float()).collect();
    // Positions are anywhere: cells in a random order.
    let mut order: Vec<u32> = (0..case.n_cells as u32).collect();
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i + 1));
    }
    let is_run = random.below(2) == 0;
    if is_run {
        order.sort_unstable();
    }
    let mask: Vec<u16> = (0..case.n_rows * case.n_cells)
        .map(|_| match random.below(4) {
            0 => 0xFC00,
            1 if case.slope != 1.0 => random.half() | 0x8000,
            _ => 0,
        })
        .collect();
    let sinks: Vec<f32> = (0..case.heads).map(|_| random.float()).collect();
    let slopes = vec![case.slope; case.heads];
    let scale = 1.0 / (case.key_width as f32).sqrt();
    let cells = |bytes: &Vec<u8>, width: usize| Cells {
        data: bytes.as_ptr(),
        of: case.of,
        cell_stride: kv_heads * size(case.of, width),
        head_stride: size(case.of, width),
        width,
    };
    let mut expected = Vec::new();
    for row in 0..case.n_rows {
        for (head, sink) in sinks.iter().enumerate() {
            let kv_head = head / case.group;
            let visible: Vec<_> = order
                .iter()
                .filter(|&&c| mask[row * case.n_cells + c as usize] != 0xFC00)
                .map(|&c| {
                    let at = c as usize * kv_heads + kv_head;
                    let weight = widened(mask[row * case.n_cells + c as usize]);
                    (key_values[at].clone(), value_values[at].clone(), weight)
                })
                .collect();
            let at = (row * case.heads + head) * case.key_width;
            let sink = case.with_sinks.then_some(*sink);
            let query = &queries[at..at + case.key_width];
            let mut output = reference::attention(query, &visible, scale, case.softcap, case.slope, sink);
            output.resize(case.value_width, 0.0);
            expected.extend(output.into_iter().map(f32::to_bits));
        }
    }
    for tier in tier::supported() {
        for rows_at_once in [1, 3, case.n_rows] {
            let mut output = vec![f32::NAN; case.n_rows * case.heads * case.value_width];
            let op = Attention {
                queries: queries.as_ptr().cast(),
                query_row_stride: 4 * case.heads * case.key_width,
                query_head_stride: 4 * case.key_width,
                keys: cells(&keys, case.key_width),
                values: cells(&values, case.value_width),
                mask: mask.as_ptr(),
                mask_stride: case.n_cells,
                n_rows: case.n_rows,
                n_heads: case.heads,
                group: case.group,
                scale,
                softcap: case.softcap,
                slopes: &slopes,
                sinks: if case.with_sinks { sinks.as_ptr() } else { std::ptr::null() },
                output: output.as_mut_ptr().cast(),
                output_row_stride: 4 * case.heads * case.value_width,
                output_head_stride: 4 * case.value_width,
            };
            let n =
                scratch_floats(rows_at_once, case.heads, case.group, case.n_cells, case.key_width, case.value_width);
            let mut scratch = vec![f32::NAN; n];
            for first in (0..case.n_rows).step_by(rows_at_once) {
                let cut = case.heads / 2; // heads are split in the middle of a group, as threads may do
                for heads in [0..cut, cut..case.heads] {
                    let rows = first..(first + rows_at_once).min(case.n_rows);
                    let part = Part { rows, heads, cells: &order };
                    unsafe { (tier.attend)(&op, &part, scratch.as_mut_ptr()) };
                }
            }
            let bits: Vec<u32> = output.iter().map(|x| x.to_bits()).collect();
            assert_eq!(bits, expected, "{}, {rows_at_once} rows at once, {:?}", tier.name, case.of);
        }
    }
}

#[test]
fn every_tier_has_the_reference_s_bits() {
    let mut random = Random(3);
    for of in [CellType::F16, CellType::Bf16, CellType::F32, CellType::Q8_0] {
        for (heads, group, key_width, value_width) in
            [(9, 3, 64, 64), (4, 4, 256, 256), (2, 1, 32, 96), (8, 8, 96, 64), (40, 40, 32, 32)]
        {
            for n_cells in [1, 15, 16, 45] {
                let variant = random.below(4);
                let case = Case {
                    heads,
                    group,
                    key_width,
                    value_width,
                    softcap: if variant == 1 { 50.0 } else { 0.0 },
                    with_sinks: variant == 2,
                    slope: if variant == 3 { 0.25 } else { 1.0 },
                    of,
                    n_cells,
                    n_rows: 1 + random.below(6),
                };
                check(&mut random, &case);
            }
        }
    }
}

#[test]
fn odd_heads_have_the_reference_s_bits() {
    let mut random = Random(4);
    for (key_width, value_width) in [(80, 80), (20, 12), (8, 8), (1, 3)] {
        let case = Case {
            heads: 4,
            group: 2,
            key_width,
            value_width,
            softcap: 0.0,
            with_sinks: false,
            slope: 1.0,
            of: CellType::F16,
            n_cells: 33,
            n_rows: 4,
        };
        check(&mut random, &case);
    }
}
