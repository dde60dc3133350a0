//! The noise of the Gumbel-max draw, as a function of (seed, position, token), and uniform numbers beside it. No state,
//! no logits.
//!
//! Every token of a block of [`BLOCK`] consecutive ids needs its own uniform number. They are made top down: first the
//! largest of the block, `V = U^(1/BLOCK)` (the distribution of the maximum of `BLOCK` uniforms), then the lane that
//! holds it, uniform over the block, then the others, uniform below `V`. That is exactly the joint distribution of
//! `BLOCK` independent uniforms, and it tells with one hash the most that any token of the block can gain, so a draw
//! hashes one number per block and looks inside only a handful of blocks.

use crate::view::BLOCK;
use std::f64::consts::LN_2;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
const LN_BLOCK: f64 = 6.0 * LN_2; // ln(BLOCK)
const _: () = assert!(BLOCK == 64);

/// The output function of splitmix64 (Steele, Lea, Flood 2014; constants of variant 13 by Stafford).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Number `index` of the splitmix64 stream that starts at `key`.
fn hash(key: u64, index: u64) -> u64 {
    mix(key.wrapping_add(GOLDEN.wrapping_mul(index.wrapping_add(1))))
}

/// A uniform number strictly between 0 and 1, from the upper 52 bits of a hash.
fn unit(hash: u64) -> f64 {
    ((hash >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

fn ln_unit(hash: u64) -> f64 {
    unit(hash).ln()
}

/// The noise of one position of one seed.
pub struct Noise {
    key: u64,
    block_key: u64,
    token_key: u64,
}

/// What is known of a block before its tokens are looked at.
#[derive(Clone, Copy)]
pub struct BlockNoise {
    hash: u64,
}

impl Noise {
    pub fn new(seed: u64, position: u64) -> Self {
        let key = hash(mix(seed.wrapping_add(GOLDEN)), position);
        Self { key, block_key: hash(key, 0), token_key: hash(key, 1) }
    }

    /// A uniform number strictly between 0 and 1 that no draw uses, one per purpose.
    pub fn uniform(&self, purpose: u64) -> f64 {
        unit(hash(hash(self.key, 2), purpose))
    }

    pub fn block(&self, block: usize) -> BlockNoise {
        BlockNoise { hash: hash(self.block_key, block as u64) }
    }

    /// Standard Gumbel noise of a token that lies in `block`.
    pub fn token(&self, block: BlockNoise, token: u32) -> f64 {
        let below = if token as usize % BLOCK == block.argmax() {
            0.0
        } else {
            ln_unit(hash(self.token_key, u64::from(token)))
        };
        -(-(block.ln_max() + below)).ln()
    }

    /// The same for a token on its own.
    pub fn gumbel(&self, token: u32) -> f64 {
        self.token(self.block(token as usize / BLOCK), token)
    }
}

impl BlockNoise {
    /// The lane with the largest noise. The lowest bits of the hash, which `ln_unit` does not use.
    fn argmax(self) -> usize {
        (self.hash % BLOCK as u64) as usize
    }

    /// ln of the largest uniform number of the block.
    fn ln_max(self) -> f64 {
        ln_unit(self.hash) / BLOCK as f64
    }

    /// The largest noise of the block.
    pub fn gumbel_max(self) -> f64 {
        -(-self.ln_max()).ln()
    }

    /// An upper bound of [`Self::gumbel_max`], at most 0.7 above it for large values, that needs no logarithm: with `k`
    /// leading ones `U < 1 - 2^-(k+1)`, hence `-ln U > 2^-(k+1)`.
    pub fn gumbel_bound(self) -> f64 {
        f64::from(self.hash.leading_ones() + 1) * LN_2 + LN_BLOCK
    }
}
