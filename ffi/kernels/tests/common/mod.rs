//! What both suites share; each uses a part.
#![allow(dead_code)]

pub mod reference;

use atelico_kernels::weights::{Shape, WeightType};

/// A small generator, so that every run tests the same numbers (SplitMix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// About normal, from -6 to 6.
    pub fn float(&mut self) -> f32 {
        (0..12).map(|_| (self.next() >> 40) as f32 / (1_u64 << 24) as f32).sum::<f32>() - 6.0
    }

    /// A half float of moderate size.
    pub fn half(&mut self) -> u16 {
        let exponent = 8 + self.below(8) as u16;
        (self.next() as u16 & 0x83FF) | exponent << 10
    }
}

/// A matrix in ggml's layout: random bytes, with scales that are numbers.
pub fn matrix(random: &mut Random, shape: Shape) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..shape.n_rows * shape.source_row_bytes()).map(|_| random.next() as u8).collect();
    let (_, size, _) = shape.of.block();
    for block in bytes.chunks_mut(size) {
        let halves: &[usize] = match shape.of {
            WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q4K | WeightType::Q5K => &[0, 2],
            WeightType::Q2K => &[80, 82],
            WeightType::Q3K => &[108],
            WeightType::Q6K => &[208],
            WeightType::Mxfp4 => &[],
            WeightType::F32 | WeightType::F16 | WeightType::Bf16 => {
                let step = size / 32;
                for value in block.chunks_mut(step) {
                    match shape.of {
                        WeightType::F32 => value.copy_from_slice(&random.float().to_le_bytes()),
                        WeightType::F16 => value.copy_from_slice(&random.half().to_le_bytes()),
                        _ => value.copy_from_slice(&random.float().to_le_bytes()[2..]),
                    }
                }
                &[]
            }
            _ => &[0],
        };
        for &at in halves {
            block[at..at + 2].copy_from_slice(&random.half().to_le_bytes());
        }
        if shape.of == WeightType::Mxfp4 && random.below(8) > 0 {
            block[0] = 120 + random.below(16) as u8; // now and then any exponent, the smallest included
        }
    }
    bytes
}
