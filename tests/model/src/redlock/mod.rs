//! Redlock: three nodes that know nothing of each other, and two clients.
//!
//! # Which step stands for what
//!
//! | step | in `src/backend/redlock/` |
//! |---|---|
//! | `Begin`, `Take` | `store.rs::take`, `scripts/take.lua`; what nodes answer makes a token |
//! | `TakeUnheard`, `RaiseUnheard`, `ExtendUnheard` | the node has done so, its answer is lost |
//! | `TakeLate`, `ExtendLate`, `ApplyLate`, `DropLate` | the request comes later, or never |
//! | `Propose`, `Raise` | `token.rs::propose`, `store.rs::fence`, `scripts/confirm.lua` |
//! | `Grant` | `keys.rs::hold` |
//! | `GiveUp`, `Unlock`, `Release` | `release.rs`: each node is asked until it has answered |
//! | `Renew`, `Extend` | `store.rs::renew`, `scripts/renew.lua` |
//! | `End` | a key's time is over by its node's clock, which runs a tick faster, or slower |
//! | `Restart` | a node is started again with nothing: `node_state.rs`, `Spoiled::Restarted` |
//! | `Jump` | a node's clock is set forward, so that all it has ends: `Spoiled::ClockSet` |
//!
//! # What makes it small
//!
//! - Nodes are alike: what there is of them is kept in order, so which one is which is not told.
//! - A client that waits or stands still is one that takes no step.
//! - A client has one lock, and begins again once all nodes have nothing of its last attempt.
//! - Nodes have no clocks for tokens unless one is started again: the register has to do without.
//!   Then their clocks are above all tokens that were ever proposed.
//! - A token that was overtaken is not proposed again; who is refused gives up.
//!
//! # What is left out
//!
//! The first node that is asked alone where several want a lock; how it is found out that a clock
//! was set; the TTLs of others; several locks of one session.

mod history;
mod model;
mod properties;
mod rules;
mod state;
mod steps;

pub(crate) use model::Redlock;

#[cfg(test)]
mod tests {
    use super::{model::FEW, rules::Rule, *};
    use crate::check::{
        Checked,
        tests::{documented, holds, needed},
    };

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        holds::<Redlock>(FEW, &["the lock passes on", "a holder has a bare majority"]);
    }

    #[test]
    fn every_rule_is_needed() {
        let rules = [
            (Rule::Majority, "exclusion"),
            (Rule::Raise, "tokens rise"),
            (Rule::ReadFirst, "tokens rise"),
            (Rule::InTime, "exclusion"),
            (Rule::SentSince, "exclusion"),
            (Rule::OneSending, "exclusion"),
            (Rule::Rates, "exclusion"),
            (Rule::Restarted, "exclusion"),
            (Rule::ClockSet, "exclusion"),
            (Rule::Clocks, "tokens rise"),
            (Rule::ReleaseAll, "no orphan"),
        ];
        let within = |(rule, wanted)| (rule, Redlock::bounds_without(rule), wanted);
        needed::<Redlock>(&rules.map(within));
    }

    #[test]
    fn every_rule_has_its_row_in_the_documents() {
        documented::<Rule>();
    }
}
