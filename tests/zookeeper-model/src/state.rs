//! The parts of a server, and the notifications about nodes.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    acl::{self, Acl, Id},
    connection::Connection,
    jute::Writer,
    quota::Amount,
    sessions::Sessions,
    tree::{self, Created, Stat, Tree},
    watches::Watches,
};

/// The xid of an event, which is no reply to a request.
const NOTIFICATION: i32 = -1;

/// The state of a connection in an event: connected.
const CONNECTED: i32 = 3;

/// What the server does with a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// It sends these bytes.
    Bytes(Vec<u8>),
    /// It closes the connection once all bytes are sent.
    Close,
}

/// What happened to a node (`Watcher.EventType`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Created = 1,
    Deleted = 2,
    Data = 3,
    Children = 4,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Tree,
    pub(crate) data_watches: Watches,
    pub(crate) child_watches: Watches,
    pub(crate) sessions: Sessions,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// The number of the last transaction.
    pub(crate) zxid: i64,
    /// In milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) output: Vec<(u64, Output)>,
    pub(crate) enforces_quotas: bool,
}

impl State {
    pub(crate) fn new(now: i64) -> Self {
        Self {
            tree: Tree::new(),
            data_watches: Watches::default(),
            child_watches: Watches::default(),
            sessions: Sessions::new(now),
            connections: BTreeMap::new(),
            // The first epoch, in the upper half.
            zxid: 1 << 32,
            now,
            output: Vec::new(),
            enforces_quotas: false,
        }
    }

    pub(crate) fn send(&mut self, to: u64, packet: &Writer) {
        self.send_bytes(to, packet.packet());
    }

    pub(crate) fn send_bytes(&mut self, to: u64, bytes: Vec<u8>) {
        if let Some(connection) = self.connections.get_mut(&to) {
            connection.sent += 1;
            self.output.push((to, Output::Bytes(bytes)));
        }
    }

    /// Closes a connection. Its watches end with it.
    pub(crate) fn hang_up(&mut self, connection: u64) {
        if self.connections.contains_key(&connection) {
            self.output.push((connection, Output::Close));
            self.disconnect(connection);
        }
    }

    pub(crate) fn disconnect(&mut self, connection: u64) {
        self.connections.remove(&connection);
        self.data_watches.disconnect(connection);
        self.child_watches.disconnect(connection);
    }

    pub(crate) fn users(&self, connection: u64) -> &[Id] {
        self.connections.get(&connection).map_or(&[], |connection| &connection.users)
    }

    pub(crate) fn session(&self, connection: u64) -> i64 {
        self.connections.get(&connection).map_or(0, |connection| connection.session)
    }

    /// Returns the connection of a session.
    pub(crate) fn connection_of(&self, session: i64) -> Option<u64> {
        let mut all = self.connections.iter();
        all.find(|(_, connection)| connection.session == session).map(|(number, _)| *number)
    }

    /// Notifies a connection. `zxid` is -1 if no transaction is the reason.
    pub(crate) fn notify(&mut self, to: u64, event: Event, path: &str, zxid: i64) {
        let mut packet = Writer::reply(NOTIFICATION, zxid, 0);
        packet.int(event as i32).int(CONNECTED).text(path);
        self.send(to, &packet);
    }

    /// Notifies connections, except those that may not read the node.
    fn notify_all(&mut self, all: &BTreeSet<u64>, event: Event, path: &str, acls: &[Acl]) {
        for to in all {
            if acl::permits(acls, acl::READ, self.users(*to)) {
                self.notify(*to, event, path, self.zxid);
            }
        }
    }

    fn children_changed(&mut self, parent: &str, acls: &[Acl]) {
        let watchers = self.child_watches.trigger(parent);
        self.notify_all(&watchers, Event::Children, parent, acls);
    }

    pub(crate) fn create(&mut self, created: &Created) -> Option<Stat> {
        let (parent, _) = tree::split(&created.path);
        let above = self.tree.get(parent)?.acls.clone();
        self.tree.create(created, self.zxid, self.now);
        let stat = self.tree.get(&created.path)?.stat();
        let watchers = self.data_watches.trigger(&created.path);
        self.notify_all(&watchers, Event::Created, &created.path, &created.acls);
        self.children_changed(parent, &above);
        Some(stat)
    }

    pub(crate) fn delete(&mut self, path: &str) {
        let Some((node, above)) = self.tree.delete(path, self.zxid) else { return };
        let watchers = self.data_watches.trigger(path);
        self.notify_all(&watchers, Event::Deleted, path, &node.acls);
        // A client that watches both is notified once.
        let others = self.child_watches.trigger(path);
        let others = others.difference(&watchers).copied().collect();
        self.notify_all(&others, Event::Deleted, path, &node.acls);
        self.children_changed(tree::split(path).0, &above);
    }

    pub(crate) fn set_data(
        &mut self,
        path: &str,
        data: Option<Vec<u8>>,
        version: i32,
    ) -> Option<Stat> {
        let (zxid, now) = (self.zxid, self.now);
        let node = self.tree.get_mut(path)?;
        let before = node.length();
        node.data = data;
        node.stored.version = version;
        (node.stored.mzxid, node.stored.mtime) = (zxid, now);
        let (stat, acls) = (node.stat(), node.acls.clone());
        let difference = Amount::difference(before, node.length());
        self.tree.count(path, difference);
        let watchers = self.data_watches.trigger(path);
        self.notify_all(&watchers, Event::Data, path, &acls);
        Some(stat)
    }

    /// Ends a session and deletes its nodes.
    pub(crate) fn end_session(&mut self, session: i64) {
        self.zxid += 1;
        self.sessions.end(session);
        for path in self.tree.ephemerals_of(session) {
            self.delete(&path);
        }
    }
}
