//! A logits row as the sampler sees it: in blocks, through a mask, with a few blocks replaced. Reads only.

use crate::history::Overlay;

/// Tokens per block: two words of the mask.
pub const BLOCK: usize = 64;

/// The row of the model, never copied, plus what changes it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub row: &'a [f32],
    /// Bit i of the little-endian bitmap allows token i; None allows all.
    pub mask: Option<&'a [u32]>,
    /// Blocks that hold biased or penalised tokens.
    pub overlay: Option<&'a Overlay>,
}

/// A token and its logit, which is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    pub logit: f32,
    pub token: u32,
}

/// NaN counts as impossible, +inf as the largest number, so that differences of logits stay defined.
pub fn clean(logit: f32) -> f32 {
    if logit.is_nan() { f32::NEG_INFINITY } else { logit.min(f32::MAX) }
}

impl<'a> View<'a> {
    pub fn n_blocks(&self) -> usize {
        self.row.len().div_ceil(BLOCK)
    }

    /// Logits of a block, not cleaned, not masked; shorter than `BLOCK` at the end of the row.
    #[inline(always)]
    pub fn values(&self, block: usize) -> &'a [f32] {
        let start = block * BLOCK;
        let end = (start + BLOCK).min(self.row.len());
        match self.overlay.and_then(|overlay| overlay.block(block)) {
            Some(replaced) => &replaced[..end - start],
            None => &self.row[start..end],
        }
    }

    /// Bit j allows token j of the block. Bits beyond the end of the row are 0.
    #[inline(always)]
    pub fn allowed(&self, block: usize) -> u64 {
        let len = (self.row.len() - block * BLOCK).min(BLOCK);
        let inside = u64::MAX >> (BLOCK - len);
        let Some(mask) = self.mask else { return inside };
        let low = u64::from(mask[2 * block]);
        let high = mask.get(2 * block + 1).map_or(0, |&word| u64::from(word));
        (low | high << 32) & inside
    }

    /// The possible tokens of a block, in order of their ids.
    pub fn candidates(&self, block: usize) -> impl Iterator<Item = Candidate> + use<'a> {
        self.candidates_from(block, f64::NEG_INFINITY)
    }

    /// The possible tokens of a block whose logit is at least `least`.
    pub fn candidates_from(&self, block: usize, least: f64) -> impl Iterator<Item = Candidate> + use<'a> {
        let allowed = self.allowed(block);
        let possible = move |&(lane, &value): &(usize, &f32)| {
            // Few pass the first test, and NaN never does.
            f64::from(value) >= least && value > f32::NEG_INFINITY && allowed >> lane & 1 == 1
        };
        self.values(block)
            .iter()
            .enumerate()
            .filter(possible)
            .map(move |(lane, &value)| Candidate { logit: clean(value), token: (block * BLOCK + lane) as u32 })
    }
}
