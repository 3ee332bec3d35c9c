//! The value of a session's entries, which a listing of the queue shows. It is almost always the
//! session's owner, which the session sends only once.

use std::sync::OnceLock;

/// The owner of a session's entries, once the server knows it.
#[derive(Debug, Default)]
pub(super) struct Owner(OnceLock<Vec<u8>>);

impl Owner {
    /// Encodes a value as `keep_value` in the scripts reads it.
    pub(super) fn encoded(&self, value: &[u8]) -> Vec<u8> {
        match (signed(value), self.0.get()) {
            (Some(owner), Some(known)) if owner == known => Vec::new(),
            (Some(owner), None) => [b"o", owner].concat(),
            _ => unsigned(value),
        }
    }

    /// Notes that the server has processed a request with this encoded value.
    pub(super) fn sent(&self, encoded: &[u8]) {
        if let Some((b'o', owner)) = encoded.split_first() {
            let _ = self.0.set(owner.to_vec());
        }
    }
}

/// Encodes a value that is no signature.
pub(super) fn unsigned(value: &[u8]) -> Vec<u8> {
    [b"v", value].concat()
}

/// Returns the owner in a value that adds only the request's time: see `signature.rs`.
fn signed(value: &[u8]) -> Option<&[u8]> {
    let at = value.iter().rposition(|byte| *byte == b'\n')?;
    let (owner, since) = (&value[..at], &value[at + 1..]);
    (!since.is_empty() && since.iter().all(u8::is_ascii_digit)).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_sent_until_the_server_has_answered() {
        let owner = Owner::default();
        let value = crate::backend::signature::write("a\nb");
        for _ in 0..2 {
            assert_eq!(owner.encoded(&value), b"oa\nb");
        }
        owner.sent(b"vx");
        owner.sent(b"oa\nb");
        assert!(owner.encoded(&value).is_empty());
        for other in [&b"a"[..], b"", b"c\n17", b"a\nb\n", b"a\nb"] {
            assert_eq!(owner.encoded(other), [b"v", other].concat());
        }
    }
}
