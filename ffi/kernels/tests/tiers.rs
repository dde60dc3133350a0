//! The choice among sets of kernels.

use atelico_kernels::tier::{choose, supported};

#[test]
fn a_tier_is_found_by_its_name_and_the_best_without() {
    assert_eq!(choose(None).map(|tier| tier.name), supported().next().map(|tier| tier.name));
    for tier in supported() {
        assert_eq!(choose(Some(tier.name)).map(|tier| tier.name), Some(tier.name));
    }
    assert!(choose(Some("no such tier")).is_none());
}

/// Whoever emulates a processor says with ATELICO_EXPECTED_TIERS what it has, the best first.
#[test]
fn this_processor_has_the_tiers_that_are_expected_of_it() {
    let names: Vec<_> = supported().map(|tier| tier.name).collect();
    match std::env::var("ATELICO_EXPECTED_TIERS") {
        Ok(expected) => assert_eq!(names.join(" "), expected),
        Err(_) => println!("not told what to expect: {names:?}"),
    }
}
