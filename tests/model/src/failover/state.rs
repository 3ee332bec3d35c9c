//! What there is at one moment: servers with their data, clients, and proofs under way.

use super::model::Bounds;

pub(crate) const CLIENTS: usize = 2;
pub(crate) const SERVERS: usize = 3;

/// What is replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Data {
    /// The server that has written here last; 0: it is empty.
    pub(crate) known: u8,
    /// The longest TTL of any session.
    pub(crate) longest: u8,
    /// For how many ticks nobody is let in.
    pub(crate) quarantine: u8,
    /// The last token.
    pub(crate) last: u8,
    pub(crate) sessions: [Option<Session>; CLIENTS],
    pub(crate) queue: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Session {
    /// For how many ticks it is kept at least.
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
    /// Another process, or another history, has another one.
    pub(crate) id: u8,
    /// For how many ticks it has run, as far as that matters.
    pub(crate) uptime: u8,
    /// It was a replica once.
    pub(crate) promoted: bool,
    pub(crate) data: Data,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// It wants nothing.
    Idle,
    /// It has joined.
    Waiting { ticket: u8 },
    /// The server with that identity has told it that nobody is ahead.
    Told { ticket: u8, token: u8, by: u8 },
    /// It believes that it holds the lock.
    Holding { ticket: u8, token: u8, by: u8 },
    /// Its session is over, as it knows.
    Over,
}

/// A keepalive, and who has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proof {
    pub(crate) at: usize,
    /// The identity of that server.
    pub(crate) id: u8,
    /// How many ticks of the TTL are left since it was sent.
    pub(crate) left: u8,
    /// A set of servers.
    pub(crate) acked: u8,
    /// So many had it at once that it counts.
    pub(crate) confirmed: bool,
    /// It was sent after that which grants.
    pub(crate) after: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) stage: Stage,
    /// The server that it is connected to.
    pub(crate) at: Option<usize>,
    /// For how many ticks it knows that its session is kept.
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
    /// The highest token that any server has given: what its clock is above.
    pub(crate) given: u8,
    /// The highest one of a grant.
    pub(crate) granted: u8,
    pub(crate) falling: bool,
    /// A session has found out that its writes are missing.
    pub(crate) noticed: bool,
    /// A lock that one server has granted was proved by another one.
    pub(crate) kept: bool,
}

impl State {
    /// A holds the lock, B has a session, and all servers have all of that.
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
    /// What a server has that has forgotten what came after the sessions were opened.
    pub(crate) fn before(ttl: u8) -> Self {
        let sessions = [Some(Session { lease: 0, joins: 0 }); CLIENTS];
        Self { known: 1, longest: ttl, quarantine: 0, last: 0, sessions, queue: Vec::new() }
    }

    /// Ends a session, and its entries by that.
    pub(crate) fn end(&mut self, client: usize) {
        self.sessions[client] = None;
        self.queue.retain(|entry| entry.client != client);
    }

    /// What is counted down while time passes; tells whether anything was.
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
