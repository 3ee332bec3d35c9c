//! Where in a stream of bytes one packet ends.

/// How a server's bytes fall into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// gRPC's frames: a length of three bytes, and six more of header.
    Http2,
    /// ZooKeeper's: a length of four bytes.
    Jute,
    /// MySQL's: a length of three bytes, the lowest one first, and a number.
    Mysql,
    /// PostgreSQL's: a byte that says what it is, and a length of four bytes, which counts itself.
    Postgres,
}

impl Framing {
    /// Takes the first whole packet out of the buffer.
    pub(crate) fn packet(self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        let length = match (self, buffer.as_slice()) {
            (Self::Http2, [a, b, c, ..]) => 9 + u32::from_be_bytes([0, *a, *b, *c]),
            (Self::Jute, [a, b, c, d, ..]) => 4 + u32::from_be_bytes([*a, *b, *c, *d]),
            (Self::Mysql, [a, b, c, _, ..]) => 4 + u32::from_le_bytes([*a, *b, *c, 0]),
            (Self::Postgres, [_, a, b, c, d, ..]) => 1 + u32::from_be_bytes([*a, *b, *c, *d]),
            _ => return None,
        };
        let length = usize::try_from(length).expect("a length");
        (buffer.len() >= length).then(|| buffer.drain(..length).collect())
    }
}
