//! Bias and penalties: which tokens they touch, how often those were seen, and what that makes of their logits.
//!
//! A row is never copied whole. Only the blocks that hold a touched token are, into a buffer kept from call to call.

use crate::options::Options;
use crate::view::{BLOCK, clean};
use std::collections::HashMap;

const NO_SLOT: u32 = u32::MAX;

/// A token with a bias or a history.
struct Touched {
    token: u32,
    slot: u32,
    bias: f64,
    /// In the prompt or in the output.
    seen: bool,
    n_output: u32,
}

/// The touched tokens and the adjusted copies of their blocks.
pub struct Overlay {
    touched: Vec<Touched>,
    index: HashMap<u32, usize>,
    slot_of_block: Vec<u32>,
    block_of_slot: Vec<u32>,
    data: Vec<[f32; BLOCK]>,
}

impl Overlay {
    pub fn new(n_vocab: usize, biases: &[(u32, f64)]) -> Self {
        let mut overlay = Self {
            touched: Vec::new(),
            index: HashMap::new(),
            slot_of_block: vec![NO_SLOT; n_vocab.div_ceil(BLOCK)],
            block_of_slot: Vec::new(),
            data: Vec::new(),
        };
        for &(token, bias) in biases {
            overlay.touch(token).bias = bias;
        }
        overlay
    }

    pub fn is_empty(&self) -> bool {
        self.touched.is_empty()
    }

    pub fn see_prompt(&mut self, token: u32) {
        self.touch(token).seen = true;
    }

    pub fn see_output(&mut self, token: u32) {
        let touched = self.touch(token);
        touched.seen = true;
        touched.n_output = touched.n_output.saturating_add(1);
    }

    /// The adjusted copy of a block, if it has one. Holds the row of the last `refresh`.
    #[inline(always)]
    pub fn block(&self, block: usize) -> Option<&[f32; BLOCK]> {
        match self.slot_of_block[block] {
            NO_SLOT => None,
            slot => Some(&self.data[slot as usize]),
        }
    }

    /// The blocks that have a copy.
    pub fn blocks(&self) -> &[u32] {
        &self.block_of_slot
    }

    /// Fills the adjusted copies from a row.
    pub fn refresh(&mut self, row: &[f32], options: &Options) {
        for (copy, &block) in self.data.iter_mut().zip(&self.block_of_slot) {
            let start = block as usize * BLOCK;
            let end = (start + BLOCK).min(row.len());
            copy[..end - start].copy_from_slice(&row[start..end]);
        }
        for touched in &self.touched {
            let raw = row[touched.token as usize];
            self.data[touched.slot as usize][touched.token as usize % BLOCK] = adjust(raw, touched, options);
        }
    }

    fn touch(&mut self, token: u32) -> &mut Touched {
        let position = *self.index.entry(token).or_insert_with(|| {
            let block = token as usize / BLOCK;
            if self.slot_of_block[block] == NO_SLOT {
                self.slot_of_block[block] = self.data.len() as u32;
                self.block_of_slot.push(block as u32);
                self.data.push([0.0; BLOCK]);
            }
            let slot = self.slot_of_block[block];
            self.touched.push(Touched { token, slot, bias: 0.0, seen: false, n_output: 0 });
            self.touched.len() - 1
        });
        &mut self.touched[position]
    }
}

/// Bias, then the repetition penalty (Keskar et al. 2019, CTRL; the sign rule as Hugging Face applies it), then
/// frequency and presence penalties as the OpenAI API defines them.
fn adjust(raw: f32, touched: &Touched, options: &Options) -> f32 {
    let mut logit = f64::from(clean(raw)) + touched.bias;
    if logit == f64::NEG_INFINITY {
        return f32::NEG_INFINITY;
    }
    if touched.seen {
        logit = if logit > 0.0 { logit / options.repetition_penalty } else { logit * options.repetition_penalty };
    }
    if touched.n_output > 0 {
        logit -= options.frequency_penalty * f64::from(touched.n_output) + options.presence_penalty;
    }
    logit.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
}
