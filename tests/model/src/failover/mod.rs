//! A primary with replicas and `?replicas=n`. A replica is promoted while the primary still runs.
//!
//! Initially one client holds the lock, another has a session, and all servers have replicated
//! this: how the state arises is part of the queue's model. Then clients send keepalives, the
//! second one joins, and servers fail.
//!
//! # Steps and their code
//!
//! | step | meaning |
//! |---|---|
//! | `Beat` | a keepalive, applied on its server; `WAIT` begins |
//! | `Replicate` | a replica catches up with its primary, and acknowledges that |
//! | `Proved` | `WAIT` has reported n replicas: at once, unless this rule is left out |
//! | `Join`, `Look` | `join.lua`, `standing.lua`; a look removes expired sessions |
//! | grant, in `Proved` | a keepalive that was sent after the granting look counts |
//! | `Open`, `Move` | a connection to another server: `open.lua`, `hello.lua` with `recognize` |
//! | `Promote` | `REPLICAOF NO ONE`; the old primary continues until it is reconfigured |
//! | `Follow` | `REPLICAOF host port`, a full resynchronization: its own data is deleted first |
//! | `Wipe`, `Forget` | a restart empty, or with the data from before the lock was acquired |
//!
//! # Simplifications
//!
//! - A replica catches up in one step; states in between were those of an earlier moment.
//! - n is the number of all other servers.
//! - A quarantined server grants to no client, whenever the client joined.
//! - Clocks are equal, and the deduction of `Timing::certain` for their difference is left out.
//! - Requests are applied when they are sent, and answered at once: other outcomes are part of the
//!   queue's model. A client that has lost its session starts again, at most once.
//! - A server's clock is above all tokens that were ever given.
//!
//! # What is left out
//!
//! Watches, notifications, guarded writes, and restarts without data loss (`Server::keeps`).

mod history;
mod model;
mod properties;
mod rules;
mod state;
mod steps;

pub(crate) use model::Failover;

#[cfg(test)]
mod tests {
    use super::{model::SMALL, rules::Rule, *};
    use crate::check::{
        Checked,
        tests::{documented, holds, needed},
    };

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        let beats = model::Bounds { beats: 2, ..SMALL };
        holds::<Failover>(beats, &[]);
        let follows = model::Bounds { follows: 1, ..beats };
        holds::<Failover>(follows, &["a holder continues on the promoted server"]);
        let forgets = model::Bounds { promotions: 0, forgets: 1, ..beats };
        holds::<Failover>(forgets, &["lost writes are noticed"]);
    }

    #[test]
    fn every_rule_is_needed() {
        let rules = [
            (Rule::AckedBeats, "exclusion"),
            (Rule::AllReplicas, "exclusion"),
            (Rule::SentSince, "exclusion"),
            (Rule::EachTime, "exclusion"),
            (Rule::Quarantine, "exclusion"),
            (Rule::WholeTtl, "exclusion"),
            (Rule::OneTtl, "exclusion"),
            (Rule::YoungEmpty, "exclusion"),
            (Rule::PromotedEmpty, "exclusion"),
            (Rule::LostWrites, "exclusion"),
            (Rule::ClockTokens, "tokens rise"),
        ];
        let within = |(rule, wanted)| (rule, Failover::bounds_without(rule), wanted);
        needed::<Failover>(&rules.map(within));
    }

    #[test]
    fn every_rule_has_its_row_in_the_documents() {
        documented::<Rule>();
    }
}
