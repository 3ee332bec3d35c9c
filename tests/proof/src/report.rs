//! Runs the proof and the searches, and prints the results.

use std::{rc::Rc, time::Instant};

use crate::{
    expression::call,
    induction::{Induction, Open},
    search::{History, Search},
    solver::{Solver, Verdict},
    system::{Clocks, DRIFT, EXACT, Sentence, System, named},
};

/// The rule that matters only for clocks that drift.
const ALLOWANCE: &str = "allowance";

/// The longest history that is searched for.
const LONGEST: usize = 14;

/// Prints each part of the proof, and returns `true` if all of them are proved.
pub(crate) fn prove(system: &System, clocks: Clocks) -> Result<bool, String> {
    println!("Proof for {}", clocks.name);
    let mut induction = Induction::new(system)?;
    let begun = Instant::now();
    let mut good = line("initially", begun, &induction.initiation()?);
    for step in &system.steps {
        let begun = Instant::now();
        good &= line(&step.name, begun, &induction.consecution(step, &system.invariants)?);
        if induction.possible(step)? != Verdict::Possible {
            println!("    it is not known that this step is possible");
            good = false;
        }
    }
    let begun = Instant::now();
    good &= line("the properties follow", begun, &induction.conclusion()?);
    Ok(good)
}

/// Prints the result of one part. Returns `true` if it is proved.
fn line(part: &str, begun: Instant, open: &[Open]) -> bool {
    let verdict = if open.is_empty() { "proved" } else { "NOT PROVED" };
    println!("  {part:22} {verdict:10} {:6.2} s", begun.elapsed().as_secs_f64());
    for Open { name, verdict } in open {
        let why = match verdict {
            Verdict::Possible => "is false in some next state",
            _ => "is unknown",
        };
        println!("    {name} {why}");
    }
    open.is_empty()
}

/// Prints what is not proved without a rule, and a history that breaks a property.
pub(crate) fn without(rule: &str) -> Result<bool, String> {
    let clocks = clocks(rule);
    let system = System::new(clocks, Some(rule))?;
    println!("Without {rule}");
    let proved = prove(&system, clocks)?;
    Ok(breaks(rule, Shown::Whole)? && !proved)
}

/// Prints the shortest history that breaks a property. Returns `false` if there is none.
pub(crate) fn shortest(rule: &str) -> Result<bool, String> {
    let clocks = clocks(rule);
    let system = System::new(clocks, Some(rule))?;
    let mut search = Search::new(&system, clocks, Solver::new()?)?;
    let found = search.shortest(&system.properties, LONGEST)?;
    let which = found.as_ref().map_or("no property".into(), |(broken, _)| broken.name.to_string());
    Ok(print(found, &format!("without {rule}, {which} breaks"), Shown::Whole))
}

/// How much of a history is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Length,
    Whole,
}

/// Prints which step fails without this rule, and a history that breaks a property. Returns `false`
/// if one of them does not.
pub(crate) fn breaks(rule: &str, shown: Shown) -> Result<bool, String> {
    let clocks = clocks(rule);
    let system = System::new(clocks, Some(rule))?;
    let example = system.breaks.iter().find(|example| &*example.rule == rule);
    let example = example.ok_or_else(|| format!("no example for {rule}"))?;
    let (step, invariant) = (&example.step, named(&system.invariants, &example.invariant)?);
    let open = Induction::new(&system)?.consecution(system.step(step)?, &[invariant])?;
    let fails = open.iter().any(|open| open.verdict == Verdict::Possible);
    let verb = if fails { "does not preserve" } else { "PRESERVES" };
    println!("  without {rule}, {step} {verb} {}", example.invariant);
    let property = [named(&system.properties, &example.property)?];
    let mut search = Search::new(&system, clocks, Solver::new()?)?;
    let found = search.along(&example.history, &property)?;
    let what = format!("without {rule}, {} breaks", example.property);
    Ok(print(found, &what, shown) && fails)
}

/// Prints a history to each situation. Returns `false` if one is not reached.
pub(crate) fn reach(system: &System, shown: Shown) -> Result<bool, String> {
    let mut good = true;
    for Sentence { name, text, formula } in &system.situations {
        let formula = call("not", [formula.clone()]);
        let never = [Sentence { name: Rc::clone(name), text: Rc::clone(text), formula }];
        let reached = system.reached.iter().find(|(situation, _)| situation == name);
        let (_, steps) = reached.ok_or_else(|| format!("no example for {name}"))?;
        let mut search = Search::new(system, EXACT, Solver::new()?)?;
        good &= print(search.along(steps, &never)?, &format!("{name} is reached"), shown);
    }
    Ok(good)
}

/// Prints a history that was found. Returns `false` if none was.
fn print(found: Option<History<'_>>, what: &str, shown: Shown) -> bool {
    let Some((_, history)) = found else {
        println!("  NO history: {what}");
        return false;
    };
    println!("  {what} after {} steps", history.len());
    for (n, taken) in (1..).zip(history.iter().filter(|_| shown == Shown::Whole)) {
        println!("  {n:2}. {}", taken.describe());
    }
    true
}

fn clocks(rule: &str) -> Clocks {
    if rule == ALLOWANCE { DRIFT } else { EXACT }
}

#[cfg(test)]
mod tests;
