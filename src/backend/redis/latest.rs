//! The server of a session's newest connection.
//!
//! All connections of a session have to lead to one server. A replaced primary may continue to run:
//! it would confirm releases of which its successor, where the session is renewed, never learns.

use tokio::sync::watch;

#[derive(Debug)]
pub(super) struct Latest(watch::Sender<State>);

#[derive(Debug)]
struct State {
    server: String,
    /// A connection has left this server, because it was useless.
    is_left: bool,
}

impl Latest {
    /// `server`: see `Identity::name`.
    pub(super) fn new(server: &str) -> Self {
        Self(watch::Sender::new(State { server: server.to_owned(), is_left: false }))
    }

    /// Records a new connection to this server.
    pub(super) fn connected(&self, server: &str) {
        self.0.send_replace(State { server: server.to_owned(), is_left: false });
    }

    /// Records that a connection leaves this server. Returns `true` for the first of the session's
    /// connections, unless a newer one leads to another server. If each of them moved on by one
    /// server, the next attempt could begin with the same server again.
    pub(super) fn leave(&self, server: &str) -> bool {
        self.0.send_if_modified(|state| {
            let is_first = !state.is_left && process(&state.server) == process(server);
            state.is_left |= is_first;
            is_first
        })
    }

    /// Returns once a newer connection leads to another server than this one.
    pub(super) async fn is_elsewhere(&self, server: &str) {
        let is_another = |state: &State| process(&state.server) != process(server);
        // The sender is a field of `self`, so it outlives this borrow.
        drop(self.0.subscribe().wait_for(is_another).await);
    }
}

/// Returns the part of a server's name that stays the same while the process runs.
fn process(server: &str) -> &str {
    server.split_once('/').map_or(server, |(process, _)| process)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn connections_follow_the_newest_one() {
        let latest = Latest::new("a/1");
        let moved = |from: &str| latest.is_elsewhere(from).now_or_never().is_some();
        assert!(!moved("a/1"));
        // The history of the same process has another name.
        latest.connected("a/2");
        assert!(!moved("a/1"));
        latest.connected("b/2");
        assert!(moved("a/1") && !moved("b/2"));
    }

    #[test]
    fn a_server_is_left_once() {
        let latest = Latest::new("a/1");
        assert!(latest.leave("a/1"));
        assert!(!latest.leave("a/1"), "another connection has left it");
        latest.connected("b/1");
        assert!(!latest.leave("a/1"), "a newer connection leads elsewhere");
        assert!(latest.leave("b/1"));
        latest.connected("b/1");
        assert!(latest.leave("b/1"), "there is no other server");
    }
}
