//! Replies of a server, and the encoding of requests and replies.

use crate::number;

/// A reply, or a push to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A number of a sorted set.
    Double(f64),
    /// A status such as `OK`.
    Status(String),
    /// An error, which begins with its code.
    Error(String),
    /// Any bytes.
    Text(Vec<u8>),
    /// Several replies.
    Array(Vec<Reply>),
    /// Names and values.
    Map(Vec<(Reply, Reply)>),
    /// Members of a sorted set and their scores.
    Scored(Vec<(Vec<u8>, f64)>),
    /// A push.
    Push(Vec<Reply>),
}

impl Reply {
    pub(crate) fn ok() -> Self {
        Self::Status("OK".into())
    }

    pub(crate) fn text(text: impl AsRef<[u8]>) -> Self {
        Self::Text(text.as_ref().to_vec())
    }

    pub(crate) fn error(text: impl Into<String>) -> Self {
        Self::Error(text.into())
    }

    pub(crate) fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(crate) fn texts(texts: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self::Array(texts.into_iter().map(Self::Text).collect())
    }

    /// Converts it to the older protocol, which scripts see.
    pub(crate) fn plain(self) -> Self {
        match self {
            Self::Double(number) => Self::text(number::written(number)),
            Self::Map(pairs) => {
                let each = pairs.into_iter().flat_map(|(name, value)| [name, value]);
                Self::Array(each.map(Self::plain).collect())
            }
            Self::Scored(members) => {
                let each = members.into_iter();
                let each = each.flat_map(|(member, score)| {
                    [Self::Text(member), Self::text(number::written(score))]
                });
                Self::Array(each.collect())
            }
            Self::Array(all) => Self::Array(all.into_iter().map(Self::plain).collect()),
            Self::Push(all) => Self::Array(all.into_iter().map(Self::plain).collect()),
            other => other,
        }
    }

    /// Writes it as a server does. `newer`: the client has requested RESP3.
    pub fn write(&self, newer: bool, into: &mut Vec<u8>) {
        if !newer {
            return self.clone().plain().write_newer(false, into);
        }
        self.write_newer(true, into);
    }

    fn write_newer(&self, newer: bool, into: &mut Vec<u8>) {
        let mut line = |kind: char, text: &str| {
            into.extend(format!("{kind}{text}\r\n").into_bytes());
        };
        match self {
            Self::Nil => line(if newer { '_' } else { '$' }, if newer { "" } else { "-1" }),
            Self::Int(number) => line(':', &number.to_string()),
            Self::Double(number) => line(',', &number::written(*number)),
            Self::Status(word) => line('+', word),
            Self::Error(text) => line('-', text),
            Self::Text(bytes) => {
                line('$', &bytes.len().to_string());
                into.extend(bytes);
                into.extend(b"\r\n");
            }
            Self::Array(all) => {
                line('*', &all.len().to_string());
                all.iter().for_each(|each| each.write_newer(newer, into));
            }
            Self::Push(all) => {
                line('>', &all.len().to_string());
                all.iter().for_each(|each| each.write_newer(newer, into));
            }
            Self::Map(pairs) => {
                line('%', &pairs.len().to_string());
                for (name, value) in pairs {
                    name.write_newer(newer, into);
                    value.write_newer(newer, into);
                }
            }
            Self::Scored(members) => {
                line('*', &members.len().to_string());
                for (member, score) in members {
                    let pair = vec![Self::Text(member.clone()), Self::Double(*score)];
                    Self::Array(pair).write_newer(newer, into);
                }
            }
        }
    }
}

/// Parses requests that arrive in pieces.
#[derive(Debug, Default)]
pub struct Requests {
    read: Vec<u8>,
}

impl Requests {
    /// Adds bytes that have arrived.
    pub fn add(&mut self, bytes: &[u8]) {
        self.read.extend_from_slice(bytes);
    }

    /// Returns the next complete request: a command and its arguments.
    pub fn next_whole(&mut self) -> Option<Vec<Vec<u8>>> {
        while self.read.first().is_some_and(|first| *first != b'*') {
            let words = self.next_line()?;
            if !words.is_empty() {
                return Some(words);
            }
        }
        let mut at = 0;
        let count = self.number(b'*', &mut at)?;
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let length = self.number(b'$', &mut at)?;
            words.push(self.read.get(at..at + length)?.to_vec());
            at += length + 2;
        }
        if at > self.read.len() {
            return None;
        }
        self.read.drain(..at);
        Some(words)
    }

    /// Returns the words of a line, as an operator types them.
    fn next_line(&mut self) -> Option<Vec<Vec<u8>>> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.read.drain(..=end).collect();
        let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        Some(words.map(<[u8]>::to_vec).collect())
    }

    fn number(&self, kind: u8, at: &mut usize) -> Option<usize> {
        let rest = self.read.get(*at..)?;
        let end = rest.windows(2).position(|two| two == b"\r\n")?;
        let line = rest.strip_prefix(&[kind])?.get(..end.checked_sub(1)?)?;
        *at += end + 2;
        std::str::from_utf8(line).ok()?.parse().ok()
    }
}
