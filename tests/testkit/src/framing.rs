//! Splits streams of bytes into packets.

/// How a server's bytes are split into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// gRPC's frames: a length of three bytes, and six more bytes of header.
    Http2,
    /// ZooKeeper's: a length of four bytes.
    Jute,
    /// MySQL's: a little-endian length of three bytes, and a sequence number.
    Mysql,
    /// PostgreSQL's: a type byte, and a length of four bytes that includes itself.
    Postgres,
    /// Redis': a type byte and a line, which bytes or other packets may follow.
    Resp,
}

impl Framing {
    /// Takes the first complete packet out of the buffer.
    pub(crate) fn packet(self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        if self == Self::Resp {
            let length = resp(buffer)?;
            return Some(buffer.drain(..length).collect());
        }
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

/// Returns the length of the first packet once it is complete.
fn resp(buffer: &[u8]) -> Option<usize> {
    let line = buffer.windows(2).position(|end| end == b"\r\n")?;
    let mut length = line + 2;
    // An absent value has the length -1, and nothing follows it.
    let number = || std::str::from_utf8(&buffer[1..line]).ok()?.parse::<usize>().ok();
    let parts = match buffer[0] {
        b'$' | b'=' | b'!' => {
            length += number().map_or(0, |bytes| bytes + 2);
            0
        }
        b'*' | b'~' | b'>' => number().unwrap_or(0),
        b'%' | b'|' => number().unwrap_or(0) * 2,
        _ => 0,
    };
    for _ in 0..parts {
        length += resp(buffer.get(length..)?)?;
    }
    (buffer.len() >= length).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_redis_are_split() {
        let packets = [
            "+OK\r\n",
            "$-1\r\n",
            ":12\r\n",
            "$2\r\n\r\n\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n",
            "*2\r\n*1\r\n:1\r\n*0\r\n",
            "%1\r\n+a\r\n_\r\n",
        ];
        let mut buffer = packets.concat().into_bytes();
        for packet in packets {
            for end in 0..packet.len() {
                assert_eq!(resp(&buffer[..end]), None, "{packet:?} to {end}");
            }
            assert_eq!(Framing::Resp.packet(&mut buffer).unwrap(), packet.as_bytes());
        }
        assert!(buffer.is_empty());
    }
}
