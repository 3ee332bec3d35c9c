//! The server as a whole: who connects, what is said, and what happens by itself.

use crate::{
    connection::Connection,
    state::{Output, State},
};

/// How often containers are looked after, in milliseconds, as by the servers of the tests
/// (`znode.container.checkIntervalMs`).
const CONTAINERS: i64 = 1000;

/// One server.
#[derive(Debug)]
pub struct Model {
    state: State,
    /// When containers are looked after next.
    containers: i64,
    connections: u64,
}

impl Model {
    /// An empty one. `now`: what its clock shows, in milliseconds since 1970.
    #[must_use]
    pub fn new(now: i64) -> Self {
        Self { state: State::new(now), containers: now + CONTAINERS, connections: 0 }
    }

    /// What its clock shows from now on. What is due by then happens.
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

    /// When something happens by itself: the end of a session, or of containers.
    #[must_use]
    pub fn next_event(&self) -> i64 {
        let end = self.state.sessions.next_end();
        end.map_or(self.containers, |end| end.min(self.containers))
    }

    /// A client has connected.
    pub fn connect(&mut self) -> u64 {
        self.connections += 1;
        self.state.connections.insert(self.connections, Connection::default());
        self.connections
    }

    /// A client has gone. Its session lives on.
    pub fn disconnect(&mut self, connection: u64) {
        self.state.disconnect(connection);
    }

    /// These bytes have come from a client.
    pub fn receive(&mut self, connection: u64, bytes: &[u8]) {
        self.state.receive(connection, bytes);
    }

    /// What the server does with its connections, in its order.
    pub fn take_output(&mut self) -> Vec<(u64, Output)> {
        std::mem::take(&mut self.state.output)
    }

    /// Refuses what is more than a quota allows, from now on (`enforceQuota`).
    pub fn enforce_quotas(&mut self) {
        self.state.enforces_quotas = true;
    }

    /// Makes the directory one in which so many nodes were ever created.
    pub fn wear_out(&mut self, directory: &str, created: i32) {
        if let Some(node) = self.state.tree.get_mut(directory) {
            node.stored.cversion = created;
        }
    }
}
