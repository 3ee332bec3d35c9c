//! Counts which conclusion is drawn from which evidence.

#[rustfmt::skip]
#[path = "../../../src/queue/evidence.rs"]
mod product;

pub(crate) use product::{Conclusion, Evidence};

use crate::{backend::Predecessor, scheduler};

pub(crate) fn conclude(evidence: Evidence, predecessor: &Predecessor) -> Conclusion {
    let seen = match &evidence {
        Evidence::Looked { present, seen } => {
            format!("{:?} own {} seen {seen}", present.ahead, present.own)
        }
        Evidence::Withdrawn(_) => "withdrawn".to_owned(),
        Evidence::Inherited => "inherited".to_owned(),
        Evidence::Hint => "hint".to_owned(),
    };
    let first = predecessor.first;
    let conclusion = product::conclude(evidence, predecessor);
    let outcome = match &conclusion {
        Conclusion::Behind(_) => "Behind".to_owned(),
        other => format!("{other:?}"),
    };
    scheduler::with(|world| {
        world.history.coverage.count(format!("concluded {seen} first {first}: {outcome}"));
    });
    conclusion
}
