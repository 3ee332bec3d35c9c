//! Input of a connection: four-letter words, requests for a session, and packets.

use crate::{
    acl::Id,
    jute::{Malformed, Reader, Writer},
    requests::{code, kind},
    sessions::password,
    state::State,
    words,
};

#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// The bytes of an incomplete packet.
    read: Vec<u8>,
    /// It has requested a session.
    is_known: bool,
    /// 0 without a session.
    pub(crate) session: i64,
    pub(crate) timeout: i32,
    pub(crate) users: Vec<Id>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// A packet from a client.
pub(crate) struct Request<'a> {
    pub(crate) xid: i32,
    pub(crate) kind: i32,
    pub(crate) body: Reader<'a>,
}

impl State {
    pub(crate) fn receive(&mut self, from: u64, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&from) else { return };
        connection.read.extend_from_slice(bytes);
        // An earlier packet may close the connection.
        while let Some(connection) = self.connections.get_mut(&from) {
            let Some((length, rest)) = connection.read.split_first_chunk::<4>() else { return };
            if let Some(word) = words::known(length).filter(|_| !connection.is_known) {
                connection.received += 1;
                let reply = self.word(word);
                self.send_bytes(from, reply.into_bytes());
                return self.hang_up(from);
            }
            let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else {
                return self.hang_up(from);
            };
            let Some(packet) = rest.get(..length).map(<[u8]>::to_vec) else { return };
            connection.read.drain(..length + 4);
            connection.received += 1;
            let done = match connection.is_known {
                true => self.packet(from, &packet),
                false => self.connect_session(from, &packet),
            };
            if done.is_err() {
                self.hang_up(from);
            }
        }
    }

    /// Opens a session, or moves one to this connection (`ZooKeeperServer.processConnectRequest`).
    fn connect_session(&mut self, from: u64, packet: &[u8]) -> Result<(), Malformed> {
        let mut request = Reader::new(packet);
        let (_version, seen, timeout) = (request.int()?, request.long()?, request.int()?);
        let (asked, shown) = (request.long()?, request.buffer()?);
        let is_newer = !request.is_empty();
        if seen > self.zxid {
            // The client has seen a later state.
            return Err(Malformed);
        }
        let timeout = self.sessions.granted(timeout);
        let session = if asked == 0 {
            self.zxid += 1;
            self.sessions.begin(timeout, self.now)
        } else {
            // Before the password is checked.
            if let Some(former) = self.connection_of(asked) {
                self.hang_up(former);
            }
            let is_owner = shown.is_some_and(|shown| shown == password(asked));
            let lives = is_owner && self.sessions.touch(asked, timeout, self.now);
            if lives { asked } else { 0 }
        };
        if let Some(connection) = self.connections.get_mut(&from) {
            (connection.session, connection.timeout) = (session, timeout);
            connection.is_known = true;
        }
        let mut reply = Writer::default();
        let password = if session == 0 { [0; 16] } else { password(session) };
        reply.int(0).int(if session == 0 { 0 } else { timeout }).long(session);
        reply.buffer(Some(&password));
        if is_newer {
            // The server is not read-only.
            reply.flag(false);
        }
        self.send(from, &reply);
        if session == 0 {
            self.hang_up(from);
        }
        Ok(())
    }

    fn packet(&mut self, from: u64, packet: &[u8]) -> Result<(), Malformed> {
        let mut body = Reader::new(packet);
        let request = Request { xid: body.int()?, kind: body.int()?, body };
        if request.kind == kind::AUTH {
            return self.authenticate(from, request);
        }
        let Some(connection) = self.connections.get(&from) else { return Ok(()) };
        let (session, timeout) = (connection.session, connection.timeout);
        if self.sessions.touch(session, timeout, self.now) {
            self.serve(from, request);
        }
        Ok(())
    }

    fn authenticate(&mut self, from: u64, mut request: Request<'_>) -> Result<(), Malformed> {
        let body = &mut request.body;
        let (_kind, scheme, credentials) = (body.int()?, body.text()?, body.buffer()?);
        let user = Id::of(&scheme, &credentials.unwrap_or_default());
        let error = if user.is_some() { 0 } else { code::AUTH_FAILED };
        self.send(from, &Writer::reply(request.xid, 0, error));
        match (user, self.connections.get_mut(&from)) {
            (Some(user), Some(connection)) if !connection.users.contains(&user) => {
                connection.users.push(user);
            }
            (None, _) => self.hang_up(from),
            _ => {}
        }
        Ok(())
    }
}
