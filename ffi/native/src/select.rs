//! Picks the best tokens of a view without sorting it. Knows nothing of probabilities.

use crate::view::{Candidate, View};
use std::cmp::Ordering;

/// Best first: higher logit, then lower token id. Logits are never NaN here.
pub fn best_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.token.cmp(&b.token))
}

/// All possible tokens with a logit of at least `floor`, in order of their ids.
pub fn gather(view: &View, maxima: &[f32], floor: f64) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (block, &best) in maxima.iter().enumerate() {
        if f64::from(best) >= floor {
            found.extend(view.candidates_from(block, floor));
        }
    }
    found
}

/// The `k` best possible tokens (all, if there are fewer), in no order. `k` is at least 1.
///
/// The k-th best block maximum bounds the k-th best logit from below, so only blocks that reach it are looked into.
pub fn top(view: &View, maxima: &[f32], k: usize) -> Vec<Candidate> {
    let mut floor = f32::NEG_INFINITY;
    if k < maxima.len() {
        let mut order = maxima.to_vec();
        floor = *order.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1;
    }
    let mut found = gather(view, maxima, f64::from(floor));
    if found.len() > k {
        found.select_nth_unstable_by(k - 1, best_first);
        found.truncate(k);
    }
    found
}
