//! The lock's algorithm on a store that keeps a queue.
//!
//! Three clients with a session each, one queue, and an operator. The model is written by hand from
//! the code and does not prove it: it shows that the rules are sufficient, and that each is needed.
//! Whether the code follows the rules is for the other tests.
//!
//! # Steps and their code
//!
//! | step | in `src/` |
//! |---|---|
//! | `Join`, the first or repeated | `Store::enqueue`, called by `queue/attempt.rs::join` |
//! | `JoinLate`, `ApplyLate`, `DropLate` | `Unknown`: the request arrives later or never |
//! | `LoseReply` | `Unknown`: the request was applied, but its reply is lost |
//! | `JoinAnswered` | `attempt.rs::enter`, then `queue/lock.rs::hold` |
//! | `Watch` | `Store::watch` in `queue/predecessor_watch.rs::watch_predecessor` |
//! | `CatchUp` | the member or server that replies catches up, and sends the watch's event |
//! | `Look` | `waiter.rs::look_at_both` and `evidence.rs::conclude`, or else `waiter.rs::look` |
//! | `Recheck` | `waiter.rs::recheck` |
//! | grant, in `Look` and `JoinAnswered` | `attempt.rs::grant`, `session/deadline.rs::grant` |
//! | `Leave`, `LoseLeave` | `pending_release.rs::run` and `release`: unlock, cancel, drop |
//! | `LookAgain` | `eviction.rs::remove_stray` |
//! | `Renew`, `RenewalAnswered` | `session/keeper.rs::keep`, `deadline.rs::renewed` |
//! | `EvictionNoticed` | `session/eviction.rs::look_after` |
//! | `GiveUp` | `deadline.rs::lapses` of a waiter, `StoreError::SessionGone` |
//! | `Tick`, `Expire` | the clock; the store ends a session, at its expiry or any time later |
//! | `Delete` | an operator |
//!
//! The steps of a waiter are in `waiter.rs`, which the replay of traces shares with the model.
//!
//! # Simplifications
//!
//! - A read's reply may be old when it arrives. Old replies and lagging servers are the same here:
//!   the *view*, the queue as it was at some moment since the session last learnt something. Only
//!   waiters have one, and it ends at their own key: no client joins ahead of it.
//! - A keepalive is applied when it is sent. One that is applied later leaves the store with a
//!   lease beyond the client's deadline, like one whose reply is lost.
//! - Clocks are equal: the deduction of `Timing::certain` for their difference is left out.
//! - The session of an idle client is renewed without a step. To the store, a new session is
//!   another client's.
//! - Sessions that end early (closed, revoked) are those of clients that know of it.
//! - Clients are alike, so their first attempts come in the order of their names.
//!
//! # What is left out
//!
//! Optimizations between waiters of one session (`Inherited`, `Withdrawn`); the release marker of a
//! ZooKeeper holder (`Released`); shared locks and permits; `try_lock`, which does not wait;
//! process stalls, which invalidate proofs; the etcd tail, which is an unseen predecessor, as a
//! ZooKeeper predecessor known by its number is; the pauses between searches for a key from a
//! request in doubt: here the client searches until the request has been applied or lost.

mod history;
mod model;
mod properties;
pub(crate) mod replay;
mod rules;
mod state;
mod steps;
mod waiter;

pub(crate) use model::Lock;

#[cfg(test)]
mod tests {
    use super::{
        model::{Bounds, EVERYTHING, Lock},
        rules::Rule,
    };
    use crate::check::tests::{documented, holds, needed};

    #[test]
    fn small_bounds_with_all_rules_break_nothing() {
        holds::<Lock>(Bounds { attempts: 2, ..EVERYTHING }, &["late write cleaned up"]);
        let three = Bounds { faults: 0, renewals: 0, ..EVERYTHING };
        holds::<Lock>(three, &["cancel in the middle"]);
    }

    #[test]
    fn every_rule_is_needed() {
        let rules = [
            (Rule::FromSending, 2, "exclusion"),
            (Rule::EndsAtDeadline, 2, "exclusion"),
            (Rule::ProvedGrant, 2, "exclusion"),
            (Rule::MissingReported, 3, "no lost wake-up"),
            (Rule::OwnKey, 2, "exclusion"),
            (Rule::First, 3, "no early grant"),
            (Rule::Seen, 3, "no early grant"),
            (Rule::NotBehind, 2, "no false alarm"),
            (Rule::OneKey, 2, "no orphan"),
            (Rule::UntilConfirmed, 2, "no orphan"),
            (Rule::LookAgain, 2, "no orphan"),
        ];
        let within = |(rule, attempts, wanted)| (rule, Bounds { attempts, ..EVERYTHING }, wanted);
        needed::<Lock>(&rules.map(within));
    }

    #[test]
    fn every_rule_has_its_row_in_the_documents() {
        documented::<Rule>();
    }
}
