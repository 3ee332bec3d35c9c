//! A primary with replicas, one of which is promoted beside it, with `?replicas=n`.
//!
//! At first one client holds the lock, another one has a session, and all servers have all of that:
//! how they came there is the queue's model. Then keepalives are sent, the other one joins, and
//! servers fail.
//!
//! # Which step stands for what
//!
//! | step | is |
//! |---|---|
//! | `Beat` | a keepalive, applied on its server; `WAIT` begins |
//! | `Replicate` | a replica has all that its primary has now, and acknowledges it |
//! | `Proved` | `WAIT` has told of n replicas: at once, unless that is what is tried |
//! | `Join`, `Look` | `join.lua`, `standing.lua`; sessions that are over are put away by looks |
//! | grant, in `Proved` | a keepalive counts that was sent after the look that said so |
//! | `Open`, `Move` | a connection to another server: `open.lua`, `hello.lua` with `recognize` |
//! | `Promote` | `REPLICAOF NO ONE`; the old primary goes on, if it is not told |
//! | `Follow` | `REPLICAOF host port`, a full resynchronization: first all data is thrown away |
//! | `Wipe`, `Forget` | a restart with nothing, or with what there was before the lock was taken |
//!
//! # What makes it small
//!
//! - A replica catches up with all at once; what it had between two writes, it had at that moment.
//! - n is the number of all other servers.
//! - Nobody is let in while a server is quarantined, whenever it joined.
//! - Clocks are equal, and what `Timing::certain` takes off for their difference is left out.
//! - Requests are applied as they are sent, and answered at once: what becomes of the others is the
//!   queue's model, too. A client that has lost its session begins again, at most once.
//! - A server's clock is above all tokens that were ever given.
//!
//! # What is left out
//!
//! Watches, who is told of what, guarded writes; restarts that lose nothing (`Server::keeps`).

mod history;
mod model;
mod properties;
mod rules;
mod state;
mod steps;

pub(crate) use model::Failover;

#[cfg(test)]
mod tests {
    use super::{model::FEW, rules::Rule, *};
    use crate::check::{
        Checked,
        tests::{documented, holds, needed},
    };

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        let beats = model::Bounds { beats: 2, ..FEW };
        holds::<Failover>(beats, &[]);
        let follows = model::Bounds { follows: 1, ..beats };
        holds::<Failover>(follows, &["a holder goes on at the promoted server"]);
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
