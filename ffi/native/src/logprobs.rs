//! Log-probabilities of the model itself: log-softmax of the raw row, before mask, bias, penalties and temperature.

use crate::draw::best_block;
use crate::passes::{block_maxima, mass};
use crate::select::{best_first, top};
use crate::view::{View, clean};

/// What stands for "impossible", as OpenAI's API has it; JSON knows no infinity.
const LOWEST: f64 = -9999.0;

/// The chosen token's log-probability and the best tokens with theirs, best first.
pub type Logprobs = (f64, Vec<(u32, f64)>);

/// Log-probabilities of `token` and of the `n` best tokens (fewer, if fewer are possible at all).
pub fn logprobs(row: &[f32], token: u32, n: usize) -> Logprobs {
    let view = View { row, mask: None, overlay: None };
    let mut maxima = vec![f32::NEG_INFINITY; view.n_blocks()];
    block_maxima(&view, &mut maxima);
    let Some(start) = best_block(&maxima) else {
        return (LOWEST, Vec::new());
    };
    let max = maxima[start];
    let ln_mass = mass(&view, &maxima, max, 1.0).ln();
    let of = |logit: f32| (f64::from(logit) - f64::from(max) - ln_mass).max(LOWEST);
    let mut best = if n == 0 { Vec::new() } else { top(&view, &maxima, n) };
    best.sort_unstable_by(best_first);
    let best = best.iter().map(|candidate| (candidate.token, of(candidate.logit))).collect();
    (of(clean(row[token as usize])), best)
}
