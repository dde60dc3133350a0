//! The sampler of one lane: options, history and scratch space. Plain Rust; the caller has checked lengths and ids.

use crate::draw::{Choice, best_block, greedy, gumbel};
use crate::history::Overlay;
use crate::logprobs::{Logprobs, logprobs};
use crate::noise::Noise;
use crate::options::Options;
use crate::passes::{block_maxima, exp, scale};
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
        let (view, start) = look(row, mask, &mut self.overlay, &self.options, &mut self.maxima)?;
        let choice = if self.options.greedy() {
            greedy(&view, &self.maxima, start)
        } else {
            let cut = cut(&view, &self.maxima, self.maxima[start], &self.options);
            let noise = Noise::new(self.seed, position);
            gumbel(&view, &self.maxima, start, cut, self.options.temperature, &noise)
        };
        Some(Sampled { choice, logprobs: n_logprobs.map(|n| logprobs(row, choice.token, n)) })
    }

    /// Writes into `out` the distribution that `sample` draws from. None: no token is possible; `out` is then all 0.
    pub fn probabilities(&mut self, row: &[f32], mask: Option<&[u32]>, out: &mut [f64]) -> Option<()> {
        out.fill(0.0);
        let (view, start) = look(row, mask, &mut self.overlay, &self.options, &mut self.maxima)?;
        if self.options.greedy() {
            out[greedy(&view, &self.maxima, start).token as usize] = 1.0;
            return Some(());
        }
        let max = self.maxima[start];
        let cut = cut(&view, &self.maxima, max, &self.options);
        let scale = scale(self.options.temperature);
        let mut sum = 0.0;
        for (block, &best) in self.maxima.iter().enumerate() {
            if f64::from(best) < cut.logit {
                continue;
            }
            for candidate in view.candidates_from(block, cut.logit) {
                if cut.keeps(f64::from(candidate.logit), candidate.token) {
                    let weight = f64::from(exp((candidate.logit - max) * scale));
                    out[candidate.token as usize] = weight;
                    sum += weight;
                }
            }
        }
        for share in out {
            *share /= sum;
        }
        Some(())
    }

    /// A number strictly between 0 and 1 for a decision at `position` that is not the draw itself; each purpose has its
    /// own.
    pub fn uniform(&self, position: u64, purpose: u64) -> f64 {
        Noise::new(self.seed, position).uniform(purpose)
    }
}

/// A row as bias, penalties and mask leave it, and its best block; fills in the block maxima. None: no token is possible.
fn look<'a>(
    row: &'a [f32],
    mask: Option<&'a [u32]>,
    overlay: &'a mut Overlay,
    options: &Options,
    maxima: &mut [f32],
) -> Option<(View<'a>, usize)> {
    if !overlay.is_empty() {
        overlay.refresh(row, options);
    }
    let view = View { row, mask, overlay: (!overlay.is_empty()).then_some(&*overlay) };
    block_maxima(&view, maxima);
    Some((view, best_block(maxima)?))
}
