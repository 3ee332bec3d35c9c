//! The lock's algorithm, at a store that keeps a queue.
//!
//! Three clients with a session each, one queue, and an operator. It is written by hand after the
//! code, and is no proof of it: it shows that the rules are enough, and that none of them can be
//! left out. That the code obeys them is what the other tests are for.
//!
//! # Which step stands for what
//!
//! | step | in `src/` |
//! |---|---|
//! | `Join`, the first or repeated | `Store::enqueue`, asked by `queue/attempt.rs::join` |
//! | `JoinLate`, `ApplyLate`, `DropLate` | `Unknown`: the request comes later or never |
//! | `LoseReply` | the same, and it was applied |
//! | `JoinAnswered` | `attempt.rs::enter`, then `queue/lock.rs::hold` |
//! | `Watch` | `Store::watch` in `queue/predecessor_watch.rs::watch_predecessor` |
//! | `CatchUp` | the member or server that answers gets on, and sends the watch's event |
//! | `Look` | `waiter.rs::look_at_both` and `evidence.rs::conclude`, or else `waiter.rs::look` |
//! | `Recheck` | `waiter.rs::recheck` |
//! | grant, in `Look` and `JoinAnswered` | `attempt.rs::grant`, `session/deadline.rs::grant` |
//! | `Leave`, `LoseLeave` | `pending_release.rs::run` and `release`: unlock, cancel, drop |
//! | `LookAgain` | `eviction.rs::remove_stray` |
//! | `Renew`, `RenewalAnswered` | `session/keeper.rs::keep`, `deadline.rs::renewed` |
//! | `EvictionNoticed` | `session/eviction.rs::look_after` |
//! | `GiveUp` | `deadline.rs::lapses` of one that waits, `StoreError::SessionGone` |
//! | `Tick`, `Expire` | the clock; the store ends a session, at its end or at any time after it |
//! | `Delete` | an operator |
//!
//! # What makes it small
//!
//! - A read's answer is old when it arrives. That, and a server that lags, is one thing here: the
//!   *view*, the queue as it was at some moment since the session was last told something. It is
//!   kept for waiters alone, and only up to their own key: nobody joins in front of it.
//! - A keepalive is applied when it is sent. One that is applied later leaves the store with a
//!   lease beyond the client's deadline, as one whose reply is lost does.
//! - Clocks are equal: what `Timing::certain` takes off for their difference is left out.
//! - The session of a client that wants nothing is renewed out of sight. A new session is another
//!   client's, as far as the store can tell.
//! - Sessions that end early (closed, revoked) are those of clients that know of it.
//! - Clients are alike, so their first attempts come in the order of their names.
//!
//! # What is left out
//!
//! What spares requests between waiters of one session (`Inherited`, `Withdrawn`), and the word
//! that a ZooKeeper holder leaves (`Released`); shared locks and permits; `try_lock`, which does
//! not wait; silences, which make a proof worth less; the etcd tail, which is a predecessor that
//! has not been seen, as ZooKeeper's is by number; the pauses between two looks for what a request
//! in doubt has put: here one looks again until it has either come or gone.

mod history;
mod model;
mod properties;
pub(crate) mod replay;
mod rules;
mod state;
mod steps;

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
            (Rule::MissingTold, 3, "no lost wake-up"),
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
