//! The sampler of one lane: options, history and scratch space. Plain Rust; the caller has checked lengths and ids.

use crate::draw::{Choice, best_block, greedy, gumbel};
use crate::history::Overlay;
use crate::logprobs::{Logprobs, logprobs};
use crate::noise::Noise;
use crate::options::Options;
use crate::passes::block_maxima;
use crate::truncate::cut;
use crate::view::{BLOCK, View};

/// Everything a draw depends on besides the row, the mask and the position.
pub struct Sampler {
    n_vocab: usize,
    options: Options,
    seed: u64,
    overlay: Overlay,
    maxima: Vec<f32>,
}

/// One sampled token.
pub struct Sampled {
    pub choice: Choice,
    pub logprobs: Option<Logprobs>,
}

impl Sampler {
    pub fn new(n_vocab: usize, options: Options, biases: &[(u32, f64)], seed: u64) -> Self {
        let overlay = Overlay::new(n_vocab, biases);
        let maxima = vec![f32::NEG_INFINITY; n_vocab.div_ceil(BLOCK)];
        Self { n_vocab, options, seed, overlay, maxima }
    }

    pub fn n_vocab(&self) -> usize {
        self.n_vocab
    }

    /// Counts prompt tokens: they matter to the repetition penalty only.
    pub fn prime(&mut self, tokens: &[u32]) {
        if self.options.penalises_prompt() {
            tokens.iter().for_each(|&token| self.overlay.see_prompt(token));
        }
    }

    /// Counts a committed output token.
    pub fn accept(&mut self, token: u32) {
        if self.options.penalises_output() {
            self.overlay.see_output(token);
        }
    }

    /// Samples one row of `n_vocab` logits. None: no token is possible.
    pub fn sample(
        &mut self,
        row: &[f32],
        mask: Option<&[u32]>,
        position: u64,
        n_logprobs: Option<usize>,
    ) -> Option<Sampled> {
        if !self.overlay.is_empty() {
            self.overlay.refresh(row, &self.options);
        }
        let view = View { row, mask, overlay: (!self.overlay.is_empty()).then_some(&self.overlay) };
        block_maxima(&view, &mut self.maxima);
        let start = best_block(&self.maxima)?;
        let choice = if self.options.greedy() {
            greedy(&view, &self.maxima, start)
        } else {
            let cut = cut(&view, &self.maxima, self.maxima[start], &self.options);
            let noise = Noise::new(self.seed, position);
            gumbel(&view, &self.maxima, start, cut, self.options.temperature, &noise)
        };
        Some(Sampled { choice, logprobs: n_logprobs.map(|n| logprobs(row, choice.token, n)) })
    }
}
