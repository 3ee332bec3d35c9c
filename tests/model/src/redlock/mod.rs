//! Redlock: three independent nodes, and two clients.
//!
//! # Steps and their code
//!
//! | step | in `src/backend/redlock/` |
//! |---|---|
//! | `Begin`, `Take` | `store.rs::take`, `scripts/take.lua`; the replies determine the token |
//! | `TakeUnheard`, `RaiseUnheard`, `ExtendUnheard` | the node has done so, its reply is lost |
//! | `TakeLate`, `ExtendLate`, `ApplyLate`, `DropLate` | the request arrives later, or never |
//! | `Propose`, `Raise` | `token.rs::propose`, `store.rs::fence`, `scripts/confirm.lua` |
//! | `Grant` | `keys.rs::hold` |
//! | `GiveUp`, `Unlock`, `Release` | `release.rs`: each node is asked until it has replied |
//! | `Renew`, `Extend` | `store.rs::renew`, `scripts/renew.lua` |
//! | `End` | a key expires by its node's clock, which is up to a tick fast, or slow |
//! | `Restart` | a node restarts empty: `node_state.rs`, `Spoiled::Restarted` |
//! | `Jump` | a node's clock is set forward, so that all its keys expire: `Spoiled::ClockSet` |
//!
//! # Simplifications
//!
//! - Nodes are alike: their states are sorted, so histories do not distinguish them.
//! - A client that waits or stalls takes no step.
//! - A client has one lock, and starts again once no node has data of its last attempt.
//! - Nodes have clocks for tokens only in histories with a restart: otherwise the register must be
//!   sufficient. Then their clocks are above all tokens that were ever proposed.
//! - A token that was overtaken is not proposed again; the refused client gives up.
//!
//! # What is left out
//!
//! Asking the first node alone under contention; how a changed clock is detected; the TTLs of other
//! clients; several locks of one session.

mod history;
mod model;
mod properties;
mod rules;
mod state;
mod steps;

pub(crate) use model::Redlock;

#[cfg(test)]
mod tests {
    use super::{model::SMALL, rules::Rule, *};
    use crate::check::{
        Checked,
        tests::{documented, holds, needed},
    };

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        holds::<Redlock>(SMALL, &["the lock passes on", "a holder has a bare majority"]);
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
