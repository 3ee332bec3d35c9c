//! The state at one moment: servers with their data, clients, and pending keepalives.

use super::model::Bounds;

pub(crate) const CLIENTS: usize = 2;
pub(crate) const SERVERS: usize = 3;

/// The replicated data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Data {
    /// The server that last wrote this data; 0 if it is empty.
    pub(crate) known: u8,
    /// The longest TTL of any session.
    pub(crate) longest: u8,
    /// The remaining ticks without new grants.
    pub(crate) quarantine: u8,
    /// The last token.
    pub(crate) last: u8,
    pub(crate) sessions: [Option<Session>; CLIENTS],
    pub(crate) queue: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// The remaining ticks for which it is kept at least.
    pub(crate) lease: u8,
    /// How often it has joined.
    pub(crate) joins: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) client: usize,
    /// The number of the attempt.
    pub(crate) ticket: u8,
    pub(crate) token: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Absent,
    Primary,
    ReplicaOf(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) role: Role,
    /// Changes with every process and every replication history.
    pub(crate) id: u8,
    /// How many ticks it has run, up to the longest TTL.
    pub(crate) uptime: u8,
    /// It was a replica once.
    pub(crate) promoted: bool,
    pub(crate) data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It has no attempt.
    Idle,
    /// It has joined.
    Waiting { ticket: u8 },
    /// The server with this identity has replied that no entry is ahead.
    Unblocked { ticket: u8, token: u8, by: u8 },
    /// It believes that it holds the lock.
    Holding { ticket: u8, token: u8, by: u8 },
    /// It knows that its session has ended.
    Over,
}

/// A keepalive, and the replicas that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proof {
    pub(crate) at: usize,
    /// The identity of that server.
    pub(crate) id: u8,
    /// The ticks of the TTL that are left since it was sent.
    pub(crate) left: u8,
    /// A set of servers.
    pub(crate) acked: u8,
    /// Enough replicas had it at once, so that it counts.
    pub(crate) confirmed: bool,
    /// It was sent after the reply that grants.
    pub(crate) after: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// The server that it is connected to.
    pub(crate) at: Option<usize>,
    /// The ticks for which it knows that its session is kept.
    pub(crate) deadline: u8,
    pub(crate) proof: Option<Proof>,
    pub(crate) joins: u8,
    /// A set of tickets.
    pub(crate) released: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) servers: [Server; SERVERS],
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) left: Bounds,
    /// The newest identity.
    pub(crate) ids: u8,
    /// The highest token that any server has given; all clocks are above it.
    pub(crate) given: u8,
    /// The highest token of a grant.
    pub(crate) granted: u8,
    pub(crate) falling: bool,
    /// A session has found that its writes are missing.
    pub(crate) noticed: bool,
    /// A lock granted by one server was confirmed by another.
    pub(crate) kept: bool,
}

impl State {
    /// A holds the lock, B has a session, and all servers have replicated both.
    pub(crate) fn new(bounds: Bounds) -> Self {
        let mut data = Data::before(bounds.ttl);
        (data.last, data.queue) = (1, vec![Entry { client: 0, ticket: 1, token: 1 }]);
        data.sessions = [1, 0].map(|joins| Some(Session { lease: bounds.ttl, joins }));
        let server = |number: usize| Server {
            role: match number {
                0 => Role::Primary,
                _ if number < bounds.servers => Role::ReplicaOf(0),
                _ => Role::Absent,
            },
            id: 1,
            uptime: bounds.ttl,
            promoted: false,
            data: data.clone(),
        };
        let client = |stage, joins| Client {
            stage,
            at: Some(0),
            deadline: bounds.ttl,
            proof: None,
            joins,
            released: 0,
        };
        let holding = Stage::Holding { ticket: 1, token: 1, by: 1 };
        Self {
            servers: std::array::from_fn(server),
            clients: [client(holding, 1), client(Stage::Idle, 0)],
            left: bounds,
            ids: 1,
            given: 1,
            granted: 1,
            falling: false,
            noticed: false,
            kept: false,
        }
    }

    pub(crate) fn is_primary(&self, server: usize) -> bool {
        self.servers[server].role == Role::Primary
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = usize> {
        let holds = |client: &usize| matches!(self.clients[*client].stage, Stage::Holding { .. });
        (0..CLIENTS).filter(holds)
    }
}

impl Data {
    /// Returns the data of a server that lost all writes after the sessions were opened.
    pub(crate) fn before(ttl: u8) -> Self {
        let sessions = [Some(Session { lease: 0, joins: 0 }); CLIENTS];
        Self { known: 1, longest: ttl, quarantine: 0, last: 0, sessions, queue: Vec::new() }
    }

    /// Ends a session, and with it its entries.
    pub(crate) fn end(&mut self, client: usize) {
        self.sessions[client] = None;
        self.queue.retain(|entry| entry.client != client);
    }

    /// Counts everything down by a tick; returns `true` if anything changed.
    pub(crate) fn tick(&mut self) -> bool {
        let leases = self.sessions.iter_mut().flatten().map(|session| &mut session.lease);
        let mut passes = false;
        for left in leases.chain([&mut self.quarantine]) {
            passes |= *left > 0;
            *left = left.saturating_sub(1);
        }
        passes
    }
}
