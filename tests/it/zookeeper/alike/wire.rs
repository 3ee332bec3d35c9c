//! A connection to a server, packet by packet.

use std::{net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::common::SOON;

pub(super) const CREATE: i32 = 1;
pub(super) const DELETE: i32 = 2;
pub(super) const SET_ACL: i32 = 7;
pub(super) const GET_CHILDREN: i32 = 8;
pub(super) const PING: i32 = 11;
pub(super) const UNKNOWN: i32 = 99;
pub(super) const AUTH: i32 = 100;
pub(super) const SET_WATCHES: i32 = 101;
pub(super) const SET_WATCHES2: i32 = 105;
pub(super) const CLOSE_SESSION: i32 = -11;

/// The session timeout in milliseconds.
const TIMEOUT: i32 = 15_000;

/// A record under construction.
#[derive(Clone, Default)]
pub(super) struct Record(Vec<u8>);

impl Record {
    pub(super) fn int(mut self, number: i32) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: i64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn flag(mut self, flag: bool) -> Self {
        self.0.push(u8::from(flag));
        self
    }

    pub(super) fn text(self, text: &str) -> Self {
        self.buffer(Some(text.as_bytes()))
    }

    pub(super) fn buffer(mut self, bytes: Option<&[u8]>) -> Self {
        let Some(bytes) = bytes else { return self.int(-1) };
        self = self.int(i32::try_from(bytes.len()).expect("a short buffer"));
        self.0.extend(bytes);
        self
    }

    pub(super) fn texts(self, texts: &[String]) -> Self {
        let list = self.int(i32::try_from(texts.len()).expect("a few"));
        texts.iter().fold(list, |list, text| list.text(text))
    }

    /// Appends rights: permissions, scheme and id.
    pub(super) fn acls(self, acls: &[(i32, &str, &str)]) -> Self {
        let list = self.int(i32::try_from(acls.len()).expect("a few"));
        acls.iter().fold(list, |list, (rights, scheme, id)| list.int(*rights).text(scheme).text(id))
    }

    /// A node with all rights for everyone.
    pub(super) fn create(self, path: &str, data: &[u8], flags: i32) -> Self {
        self.text(path).buffer(Some(data)).acls(&[(31, "world", "anyone")]).int(flags)
    }

    pub(super) fn append(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.0
    }
}

/// The address of a server.
#[derive(Clone, Copy)]
pub(super) struct Place(pub(super) SocketAddr);

impl Place {
    pub(super) async fn open(self) -> Option<Wire> {
        self.connect(0, &[0; 16], TIMEOUT).await.1
    }

    /// Resumes a session, with the right password or a wrong one.
    pub(super) async fn reopen(
        self,
        session: i64,
        right: bool,
        timeout: i32,
    ) -> (String, Option<Wire>) {
        let mut password = crate::common::zookeeper::password(session);
        password[0] ^= u8::from(!right);
        self.connect(session, &password, timeout).await
    }

    async fn connect(self, session: i64, password: &[u8], timeout: i32) -> (String, Option<Wire>) {
        let stream = TcpStream::connect(self.0).await.expect("the server is up");
        stream.set_nodelay(true).expect("a socket");
        let mut wire = Wire { stream, session: 0, xid: 0 };
        let request = Record::default().int(0).long(0).int(timeout).long(session);
        wire.send(&request.buffer(Some(password)).flag(false).bytes()).await;
        let Some(reply) = wire.packet().await else { return ("hung up".to_owned(), None) };
        let granted = i32::from_be_bytes(reply[4..8].try_into().expect("four bytes"));
        wire.session = i64::from_be_bytes(reply[8..16].try_into().expect("eight bytes"));
        let same = wire.session == session;
        let shown = format!("granted {granted}, the same: {same}, {} bytes", reply.len());
        (shown, (wire.session != 0).then_some(wire))
    }
}

/// A session's connection.
pub(super) struct Wire {
    stream: TcpStream,
    pub(super) session: i64,
    xid: i32,
}

impl Wire {
    async fn send(&mut self, packet: &[u8]) {
        let length = u32::try_from(packet.len()).expect("a short packet");
        // The reply shows whether the packet has arrived.
        let _sent = self.stream.write_all(&[&length.to_be_bytes(), packet].concat()).await;
    }

    /// Returns the next packet, or `None` once the server has hung up.
    async fn packet(&mut self) -> Option<Vec<u8>> {
        let read = async {
            let length = self.stream.read_u32().await.ok()?;
            let mut packet = vec![0; usize::try_from(length).ok()?];
            self.stream.read_exact(&mut packet).await.ok()?;
            Some(packet)
        };
        timeout(SOON, read).await.expect("the server replies or hangs up")
    }

    pub(super) async fn is_hung_up(&mut self) -> bool {
        let wait = Duration::from_secs(2);
        timeout(wait, async { while self.packet().await.is_some() {} }).await.is_ok()
    }

    /// Sends a request and returns the events before the reply, and the reply.
    pub(super) async fn request(
        &mut self,
        kind: i32,
        body: &[u8],
    ) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        self.xid += 1;
        let xid = match kind {
            PING => -2,
            AUTH => -4,
            _ => self.xid,
        };
        self.send(&Record::default().int(xid).int(kind).append(Record(body.to_vec())).bytes())
            .await;
        let mut events = Vec::new();
        while let Some(packet) = self.packet().await {
            if packet[..4] == xid.to_be_bytes() {
                return (events, Some(packet));
            }
            events.push(packet);
        }
        (events, None)
    }

    /// Returns the events that have arrived.
    pub(super) async fn ping(&mut self) -> Vec<Vec<u8>> {
        self.request(PING, &[]).await.0
    }

    /// Deletes a node and all nodes below it, whatever their rights.
    pub(super) async fn delete_all(&mut self, root: &str) {
        let mut paths = vec![root.to_owned()];
        let mut at = 0;
        while at < paths.len() {
            let path = paths[at].clone();
            let open = Record::default().text(&path).acls(&[(31, "world", "anyone")]).int(-1);
            self.request(SET_ACL, &open.bytes()).await;
            let list = Record::default().text(&path).flag(false).bytes();
            if let (_, Some(reply)) = self.request(GET_CHILDREN, &list).await
                && reply.len() > 16
            {
                let children = super::shown::Fields::new(&reply[16..]).texts();
                paths.extend(children.iter().map(|child| format!("{path}/{child}")));
            }
            at += 1;
        }
        for path in paths.iter().rev() {
            self.request(DELETE, &Record::default().text(path).int(-1).bytes()).await;
        }
    }
}
