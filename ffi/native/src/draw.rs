//! Chooses the token: the best logit, or the best logit with noise (Gumbel-max). Reads a view and its block maxima.

use crate::noise::Noise;
use crate::truncate::Cut;
use crate::view::{BLOCK, View};

/// The chosen token and by how much it beat the runner-up, in logits; infinite without one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    pub token: u32,
    pub margin: f64,
}

/// The two best scores so far. Equal scores: the lower token id wins, in whatever order they come.
struct Podium {
    token: u32,
    best: f64,
    second: f64,
}

impl Podium {
    const EMPTY: Podium = Podium { token: u32::MAX, best: f64::NEG_INFINITY, second: f64::NEG_INFINITY };

    fn add(&mut self, score: f64, token: u32) {
        if score > self.best || (score == self.best && token < self.token) {
            self.second = self.best;
            self.best = score;
            self.token = token;
        } else if score > self.second {
            self.second = score;
        }
    }

    fn choice(&self) -> Choice {
        Choice { token: self.token, margin: self.best - self.second }
    }
}

/// The block that holds the largest logit (the first, if several do), or None when no token is possible.
pub fn best_block(maxima: &[f32]) -> Option<usize> {
    let mut found = 0;
    for (block, &best) in maxima.iter().enumerate() {
        if best > maxima[found] {
            found = block;
        }
    }
    (maxima[found] > f32::NEG_INFINITY).then_some(found)
}

/// The largest logit. `start` is the best block.
pub fn greedy(view: &View, maxima: &[f32], start: usize) -> Choice {
    let mut podium = Podium::EMPTY;
    for candidate in view.candidates(start) {
        podium.add(f64::from(candidate.logit), candidate.token);
    }
    for (block, &best) in maxima.iter().enumerate() {
        if block != start {
            podium.second = podium.second.max(f64::from(best));
        }
    }
    podium.choice()
}

/// One draw from softmax(logit / temperature) over what `cut` keeps: the largest of logit + temperature * noise.
///
/// Exact, though most blocks are passed over: `start`, the best block, gives two scores to beat, and a block is looked
/// into only if its best logit with its largest noise beats the second of them.
pub fn gumbel(view: &View, maxima: &[f32], start: usize, cut: Cut, temperature: f64, noise: &Noise) -> Choice {
    let mut podium = Podium::EMPTY;
    let look_into = |podium: &mut Podium, block: usize| {
        let of_block = noise.block(block);
        let most = temperature * of_block.gumbel_max();
        let least = needed(podium.second, most).max(cut.logit);
        for candidate in view.candidates_from(block, least) {
            let logit = f64::from(candidate.logit);
            if cut.keeps(logit, candidate.token) {
                podium.add(logit + temperature * noise.token(of_block, candidate.token), candidate.token);
            }
        }
    };
    look_into(&mut podium, start);
    for (block, &best) in maxima.iter().enumerate() {
        let best = f64::from(best);
        if block == start || best == f64::NEG_INFINITY || best < cut.logit {
            continue;
        }
        let of_block = noise.block(block);
        if best >= needed(podium.second, temperature * of_block.gumbel_bound())
            && best >= needed(podium.second, temperature * of_block.gumbel_max())
        {
            look_into(&mut podium, block);
        }
    }
    podium.choice()
}

/// The logit that reaches `score` with the noise `most`, less a slack for the rounding of the logarithms.
fn needed(score: f64, most: f64) -> f64 {
    let logit = score - most;
    logit - 1e-9 * (logit.abs() + most.abs())
}

const _: () = assert!(BLOCK <= 64); // candidates are taken from one 64-bit mask word
