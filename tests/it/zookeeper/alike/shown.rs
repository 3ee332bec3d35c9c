//! Replies and events in words, without the values that differ between servers: transaction
//! numbers, times and sessions.

use super::wire::CLOSE_SESSION;

/// The error of a request that the server could not decode, which starts no transaction.
const MARSHALLING_ERROR: i32 = -5;

/// Requests that are transactions, even if they are refused.
const WRITES: [i32; 9] = [1, 2, 5, 7, 14, 15, 19, 21, CLOSE_SESSION];

/// The rest of a packet, read field by field.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("a whole packet");
        self.0 = rest;
        *taken
    }

    fn int(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    fn long(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    fn text(&mut self) -> String {
        let length = self.int();
        let Ok(length) = usize::try_from(length) else { return format!("null ({length})") };
        let (text, rest) = self.0.split_at(length);
        self.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    pub(super) fn texts(&mut self) -> Vec<String> {
        let count = self.int();
        (0..count).map(|_| self.text()).collect()
    }

    /// Returns a list, sorted because its order varies.
    fn list(&mut self) -> String {
        let mut texts = self.texts();
        texts.sort();
        format!("{texts:?}")
    }

    fn acls(&mut self) -> String {
        let count = self.int();
        let acls = (0..count).map(|_| format!("{} {}:{}", self.int(), self.text(), self.text()));
        format!("{:?}", acls.collect::<Vec<_>>())
    }
}

/// The transaction numbers of a sequence, in order.
#[derive(Default)]
pub(super) struct Times {
    pub(super) writes: Vec<i64>,
    last: i64,
}

impl Times {
    /// Formats a transaction as the index of the request that made it.
    fn zxid(&self, zxid: i64) -> String {
        if zxid <= 0 {
            return zxid.to_string();
        }
        match self.writes.iter().rposition(|write| *write <= zxid) {
            Some(at) if self.writes[at] == zxid => format!("of {at}"),
            Some(at) => format!("after {at}"),
            None => "before".to_owned(),
        }
    }

    pub(super) fn event(&self, packet: &[u8]) -> String {
        let mut fields = Fields(packet);
        let (xid, zxid, error) = (fields.int(), fields.long(), fields.int());
        let what = match fields.int() {
            1 => "created".to_owned(),
            2 => "deleted".to_owned(),
            3 => "data".to_owned(),
            4 => "children".to_owned(),
            other => other.to_string(),
        };
        let (state, path) = (fields.int(), fields.text());
        // The reply with the transaction's number arrives later.
        let zxid = if zxid < 0 { zxid.to_string() } else { format!("new: {}", zxid > self.last) };
        format!("event {xid} {error} {what} {state} {path} zxid {zxid}")
    }

    pub(super) fn reply(&mut self, kind: i32, packet: &[u8], sessions: [i64; 2]) -> String {
        let mut fields = Fields(packet);
        let (_xid, zxid, error) = (fields.int(), fields.long(), fields.int());
        let time = if zxid <= 0 {
            zxid.to_string()
        } else if WRITES.contains(&kind) && error != MARSHALLING_ERROR {
            let is_new = self.writes.last().is_none_or(|last| *last < zxid);
            self.writes.push(zxid);
            format!("new: {is_new}")
        } else {
            format!("not before: {}", zxid >= self.last)
        };
        self.last = self.last.max(zxid);
        let body = self.body(kind, &mut fields, sessions);
        format!("error {error} zxid {time}{body} and {} bytes", fields.0.len())
    }

    fn body(&self, kind: i32, fields: &mut Fields<'_>, sessions: [i64; 2]) -> String {
        if fields.0.is_empty() {
            return String::new();
        }
        match kind {
            1 | 9 => format!(" {}", fields.text()),
            15 | 19 | 21 => format!(" {} {}", fields.text(), self.stat(fields, sessions)),
            3 | 5 | 7 => format!(" {}", self.stat(fields, sessions)),
            4 => format!(" data {:?} {}", fields.text(), self.stat(fields, sessions)),
            6 => format!(" {} {}", fields.acls(), self.stat(fields, sessions)),
            8 | 103 => format!(" {}", fields.list()),
            12 => format!(" {} {}", fields.list(), self.stat(fields, sessions)),
            104 | 106 => format!(" {}", fields.int()),
            14 | 22 => {
                let mut results = String::new();
                loop {
                    let (kind, [done], error) = (fields.int(), fields.array(), fields.int());
                    if done != 0 {
                        return format!("{results}; end {kind} {error}");
                    }
                    results += &format!("; {kind} {error}");
                    results += &match kind {
                        -1 => format!(" {}", fields.int()),
                        2 | 13 => String::new(),
                        kind => self.body(kind, fields, sessions),
                    };
                }
            }
            _ => String::new(),
        }
    }

    fn stat(&self, fields: &mut Fields<'_>, sessions: [i64; 2]) -> String {
        let (czxid, mzxid) = (fields.long(), fields.long());
        let (ctime, mtime) = (fields.long(), fields.long());
        let (version, changes, rights) = (fields.int(), fields.int(), fields.int());
        let owner = match fields.long() {
            0 => "none".to_owned(),
            owner => sessions
                .iter()
                .position(|session| *session == owner)
                .map_or("another".to_owned(), |at| at.to_string()),
        };
        let (length, children, pzxid) = (fields.int(), fields.int(), fields.long());
        format!(
            "czxid {} mzxid {} in order: {} version {version} changes {changes} rights {rights} \
             owner {owner} length {length} children {children} pzxid {}",
            self.zxid(czxid),
            self.zxid(mzxid),
            ctime <= mtime,
            self.zxid(pzxid)
        )
    }
}
