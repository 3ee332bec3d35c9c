//! The server as a whole: its connections, its replies, and what happens without a request.

use crate::{
    connection::Connection,
    state::{Output, State},
};

/// The interval between container checks in milliseconds, as configured for the tests' servers
/// (`znode.container.checkIntervalMs`).
const CONTAINERS: i64 = 1000;

/// One server.
#[derive(Debug)]
pub struct Model {
    state: State,
    /// When the containers are next checked.
    containers: i64,
    connections: u64,
}

impl Model {
    /// Starts an empty server at the given time, in milliseconds since 1970.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self { state: State::new(now), containers: now + CONTAINERS, connections: 0 }
    }

    /// Sets the clock, and does everything that is due.
    pub fn set_time(&mut self, now: i64) {
        while self.next_event() <= now {
            self.state.now = self.next_event();
            let state = &mut self.state;
            while let Some(session) = state.sessions.expired(state.now) {
                let connection = state.connection_of(session);
                state.end_session(session);
                connection.into_iter().for_each(|connection| state.hang_up(connection));
            }
            if self.containers <= state.now {
                self.containers += CONTAINERS;
                for path in state.tree.used_up() {
                    state.zxid += 1;
                    state.delete(&path);
                }
            }
        }
        self.state.now = now;
    }

    /// Returns when the next session or container expires.
    #[must_use]
    pub fn next_event(&self) -> i64 {
        let end = self.state.sessions.next_end();
        end.map_or(self.containers, |end| end.min(self.containers))
    }

    /// Accepts a client's connection; returns its number.
    pub fn connect(&mut self) -> u64 {
        self.connections += 1;
        self.state.connections.insert(self.connections, Connection::default());
        self.connections
    }

    /// Records that a client has disconnected. Its session continues.
    pub fn disconnect(&mut self, connection: u64) {
        self.state.disconnect(connection);
    }

    /// Processes bytes from a client.
    pub fn receive(&mut self, connection: u64, bytes: &[u8]) {
        self.state.receive(connection, bytes);
    }

    /// Returns what the server has done with its connections, in order.
    pub fn take_output(&mut self) -> Vec<(u64, Output)> {
        std::mem::take(&mut self.state.output)
    }

    /// Sets the server's tick in milliseconds, for sessions that connect from now on (`tickTime`).
    pub fn set_tick(&mut self, tick: i64) {
        self.state.sessions.tick = tick;
    }

    /// Refuses writes beyond a quota from now on (`enforceQuota`).
    pub fn enforce_quotas(&mut self) {
        self.state.enforces_quotas = true;
    }

    /// Sets the number of nodes that were ever created in a directory.
    pub fn wear_out(&mut self, directory: &str, created: i32) {
        if let Some(node) = self.state.tree.get_mut(directory) {
            node.stored.cversion = created;
        }
    }
}
