//! top_k, top_p and min_p, in this order, as one cut through the order "higher logit, then lower token id".

use crate::options::Options;
use crate::passes::{exp, mass, scale};
use crate::select::{best_first, gather, top};
use crate::view::{Candidate, View};

/// The last token that survives: everything before it in the order survives too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    pub logit: f64,
    pub token: u32,
}

impl Cut {
    pub const NONE: Cut = Cut { logit: f64::NEG_INFINITY, token: u32::MAX };

    pub fn keeps(&self, logit: f64, token: u32) -> bool {
        logit > self.logit || (logit == self.logit && token <= self.token)
    }

    fn stricter(self, other: Cut) -> Cut {
        if self.keeps(other.logit, other.token) { other } else { self }
    }
}

impl From<Candidate> for Cut {
    fn from(last: Candidate) -> Cut {
        Cut { logit: f64::from(last.logit), token: last.token }
    }
}

/// The weight exp((logit - max) / temperature) of tokens.
#[derive(Clone, Copy)]
struct Weights {
    max: f32,
    scale: f32,
}

impl Weights {
    fn of(self, candidate: &Candidate) -> f64 {
        f64::from(exp((candidate.logit - self.max) * self.scale))
    }

    fn sum(self, candidates: &[Candidate]) -> f64 {
        candidates.iter().map(|candidate| self.of(candidate)).sum()
    }

    /// Sorts tokens into classes by weight, four to a factor of e, the heaviest first.
    fn class(self, candidate: &Candidate) -> usize {
        ((self.max - candidate.logit) * self.scale * 4.0) as usize
    }
}

/// The cut that the options make in a view. `max` is its largest logit, finite; the temperature is above 0.
///
/// top_p is taken of the probabilities that remain after top_k, renormalised, and keeps the shortest run of best tokens
/// that reaches it (Holtzman et al. 2020); min_p compares with the best token's probability (Nguyen et al. 2024), so it
/// is a threshold on the logit and needs no sum.
pub fn cut(view: &View, maxima: &[f32], max: f32, options: &Options) -> Cut {
    let floor = f64::from(max) + options.temperature * options.min_p.ln(); // -inf when min_p is 0
    let by_min_p = Cut { logit: floor, token: u32::MAX };
    let weights = Weights { max, scale: scale(options.temperature) };
    let mut by_rank = Cut::NONE;
    if options.top_k > 0 && options.top_k < view.row.len() {
        let mut kept = top(view, maxima, options.top_k);
        if options.top_p < 1.0 {
            let target = options.top_p * weights.sum(&kept);
            by_rank = nucleus(&mut kept, weights, target);
        } else if let Some(&last) = kept.iter().max_by(|a, b| best_first(a, b)) {
            by_rank = last.into();
        }
    } else if options.top_p < 1.0 {
        by_rank = nucleus_of_all(view, maxima, weights, floor, options);
    }
    by_rank.stricter(by_min_p)
}

/// top_p over the whole view. Tokens below `floor` will be cut anyway, so they are not looked for.
fn nucleus_of_all(view: &View, maxima: &[f32], weights: Weights, floor: f64, options: &Options) -> Cut {
    let target = options.top_p * mass(view, maxima, weights.max, options.temperature);
    // Mostly the tokens within a factor of e^4 of the best weigh enough, and they are few.
    let threshold = (f64::from(weights.max) - 4.0 * options.temperature).max(floor);
    let mut kept = gather(view, maxima, threshold);
    if threshold == floor || weights.sum(&kept) >= target {
        return nucleus(&mut kept, weights, target);
    }
    // A flat row: weigh the tokens by class, then look only into the class where the target is reached.
    kept = gather(view, maxima, floor);
    let mut classes = [0.0; 128];
    let last = classes.len() - 1;
    for candidate in &kept {
        classes[weights.class(candidate).min(last)] += weights.of(candidate);
    }
    let mut reached = 0.0;
    for (class, weight) in classes.into_iter().enumerate() {
        if reached + weight >= target {
            kept.retain(|candidate| weights.class(candidate).min(last) == class);
            return nucleus(&mut kept, weights, target - reached);
        }
        reached += weight;
    }
    Cut::NONE
}

/// The last of the shortest run of best candidates that weighs `target`: quickselect by weight. The last of all
/// candidates if they weigh less.
fn nucleus(candidates: &mut [Candidate], weights: Weights, target: f64) -> Cut {
    let mut rest = candidates;
    let mut reached = 0.0;
    while rest.len() > 32 {
        let middle = rest.len() / 2;
        rest.select_nth_unstable_by(middle - 1, best_first);
        let (better, worse) = rest.split_at_mut(middle);
        let weight = weights.sum(better);
        if reached + weight >= target {
            rest = better;
        } else {
            reached += weight;
            rest = worse;
        }
    }
    rest.sort_unstable_by(best_first);
    let last = rest.iter().find(|candidate| {
        reached += weights.of(candidate);
        reached >= target
    });
    last.or(rest.last()).map_or(Cut::NONE, |&last| last.into())
}
