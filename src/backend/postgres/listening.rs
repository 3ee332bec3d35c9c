//! Whether the server notifies a connection of what its session watches.
//!
//! Only while something is watched: the server wakes up all processes that listen in a database
//! whenever it notifies one of them, whatever they listen to (`SignalBackends` in
//! <https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/commands/async.c>).
//!
//! `LISTEN` travels with the watch, in one transaction: what is committed later is notified of, and
//! what was committed before is seen by the look that follows.

use std::time::Duration;

use crate::runtime::mutex::Mutex;

/// How long a session listens after its last watch has ended: a client that waits for a busy lock
/// soon watches again.
pub(super) const LINGERS: Duration = Duration::from_secs(2);

/// What goes before a watch while the connection does not listen.
pub(super) fn begin(session: i64) -> String {
    format!("LISTEN distlock_{session:x};\n")
}

/// What ends it.
pub(super) fn end(session: i64) -> String {
    format!("UNLISTEN distlock_{session:x}")
}

/// Of one connection, whose requests are served in the order in which they are sent.
#[derive(Debug, Default)]
pub(super) struct Listening(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    listens: bool,
    /// How often it was ended.
    ended: u64,
}

/// A request to listen that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun(u64);

impl Listening {
    /// A watch is sent. `None`: the connection listens already.
    ///
    /// Until an earlier request to listen is answered, it may fail: so a watch that follows it
    /// makes one of its own.
    pub(super) fn begin(&self) -> Option<Begun> {
        let state = self.0.lock();
        (!state.listens).then_some(Begun(state.ended))
    }

    /// That request is done.
    pub(super) fn begun(&self, begun: Begun) {
        let mut state = self.0.lock();
        state.listens |= state.ended == begun.0;
    }

    /// A request that ends it is sent.
    pub(super) fn end(&self) {
        let mut state = self.0.lock();
        state.listens = false;
        state.ended += 1;
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.lock().listens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_watch_listens_until_one_has_succeeded() {
        let listening = Listening::default();
        let [one, _failed] = [listening.begin().unwrap(), listening.begin().unwrap()];
        assert!(!listening.is_on());
        listening.begun(one);
        assert!(listening.is_on() && listening.begin().is_none());
    }

    #[test]
    fn reply_to_what_was_sent_before_the_end_counts_no_more() {
        let listening = Listening::default();
        let before = listening.begin().unwrap();
        listening.begun(before);
        listening.end();
        assert!(!listening.is_on());
        listening.begun(before);
        assert!(!listening.is_on(), "the end was sent after it");
        listening.begun(listening.begin().unwrap());
        assert!(listening.is_on());
    }
}
