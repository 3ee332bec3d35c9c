//! Whether a connection receives notifications for the watches of its session.
//!
//! It listens only while there are watches. Whenever the server notifies one listening process, it
//! wakes all listening processes of the database, whatever they listen to (`SignalBackends` in
//! <https://github.com/postgres/postgres/blob/REL_17_STABLE/src/backend/commands/async.c>).
//!
//! `LISTEN` is in one transaction with the watch. Later commits notify the session, and the query
//! that follows sees the earlier ones.

use std::time::Duration;

use crate::runtime::mutex::Mutex;

/// How long a session listens after its last watch has ended. A client that waits for a busy lock
/// soon watches again.
pub(super) const LINGERS: Duration = Duration::from_secs(2);

/// Returns the statement before a watch while the connection does not listen.
pub(super) fn begin(session: i64) -> String {
    format!("LISTEN distlock_{session:x};\n")
}

/// Returns the statement that ends listening.
pub(super) fn end(session: i64) -> String {
    format!("UNLISTEN distlock_{session:x}")
}

/// The state of one connection, whose requests are served in order.
#[derive(Debug, Default)]
pub(super) struct Listening(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    listens: bool,
    /// The number of times that listening was ended.
    ended: u64,
}

/// A request to listen that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun(u64);

impl Listening {
    /// Returns a request to listen before a watch. `None`: the connection listens already.
    ///
    /// An earlier request to listen may fail until its reply arrives, so a watch that follows it
    /// makes its own request.
    pub(super) fn begin(&self) -> Option<Begun> {
        let state = self.0.lock();
        (!state.listens).then_some(Begun(state.ended))
    }

    /// Records that the request was applied.
    pub(super) fn begun(&self, begun: Begun) {
        let mut state = self.0.lock();
        state.listens |= state.ended == begun.0;
    }

    /// Records that listening is ended.
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
    fn watches_send_listen_until_one_succeeds() {
        let listening = Listening::default();
        let [one, _failed] = [listening.begin().unwrap(), listening.begin().unwrap()];
        assert!(!listening.is_on());
        listening.begun(one);
        assert!(listening.is_on() && listening.begin().is_none());
    }

    #[test]
    fn reply_to_earlier_listen_is_ignored_after_unlisten() {
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
