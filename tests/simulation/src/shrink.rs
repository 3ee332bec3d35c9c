//! Removes from a failing history what it does not need to fail.

use crate::{
    director::{self, Report},
    plan::Plan,
};

/// The maximum number of runs.
const RUNS: usize = 400;

/// Prints the smallest failing plan found, and its events.
pub(crate) fn report(plan: &Plan) {
    let (mut plan, mut runs) = (plan.clone(), 0);
    loop {
        let smaller = candidates(&plan).find(|smaller| {
            runs += 1;
            runs <= RUNS && !director::run(smaller, Report::Nothing).0.violations.is_empty()
        });
        match smaller {
            Some(smaller) => plan = smaller,
            None => break,
        }
    }
    let (history, _, _) = director::run(&plan, Report::All);
    print!("{}", history.text());
    let steps: usize = plan.callers.iter().map(|caller| caller.steps.len()).sum();
    println!(
        "after {runs} runs: {} callers, {steps} calls, {} strikes, {} of 1,000 requests fail",
        plan.callers.len(),
        plan.strikes.len(),
        plan.faults,
    );
    for violation in &history.violations {
        println!("violation: {violation}");
    }
}

/// Returns plans with one caller, one fault or half of a caller's calls fewer, or without random
/// faults.
fn candidates(plan: &Plan) -> impl Iterator<Item = Plan> {
    let callers = (0..plan.callers.len()).map(|index| {
        let mut plan = plan.clone();
        plan.callers.remove(index);
        plan
    });
    let strikes = (0..plan.strikes.len()).map(|index| {
        let mut plan = plan.clone();
        plan.strikes.remove(index);
        plan
    });
    let halves = (0..plan.callers.len() * 2).filter_map(|index| {
        let mut plan = plan.clone();
        let steps = &mut plan.callers[index / 2].steps;
        let half = steps.len().div_ceil(2);
        if half == steps.len() {
            return None;
        }
        let rest = steps.split_off(half);
        if index % 2 == 1 {
            *steps = rest;
        }
        Some(plan)
    });
    let open = plan.closing.is_some().then(|| Plan { closing: None, ..plan.clone() });
    let calm = (plan.faults > 0).then(|| Plan { faults: 0, ..plan.clone() });
    let all: Vec<_> = callers.chain(strikes).chain(open).chain(calm).chain(halves).collect();
    all.into_iter()
}
