//! The signature in a key, for operators and for clients that list the queue: the key's owner and
//! its creation time.
//!
//! No decision depends on its wall-clock time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{backend::name::Queue, runtime::clock};

/// Writes the owner and the time in milliseconds, because etcd does not return when a key was
/// created.
pub(crate) fn write(owner: &str) -> Vec<u8> {
    let now = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
    [owner, "\n", &now.as_millis().to_string()].concat().into_bytes()
}

/// Reads a signature. Another library's text is returned unchanged.
pub(crate) fn read(value: &[u8]) -> (String, Option<SystemTime>) {
    let text = String::from_utf8_lossy(value);
    let signature = text.rsplit_once('\n').and_then(|(owner, at)| {
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(at.parse().ok()?))?;
        Some((owner.to_owned(), Some(at)))
    });
    signature.unwrap_or_else(|| (text.into_owned(), None))
}

/// Reads the value of an entry in a queue. A candidate's value has no signature, and may be any
/// bytes.
pub(crate) fn read_in(queue: &Queue, value: &[u8]) -> (String, Option<SystemTime>) {
    if queue.is_election() {
        (String::from_utf8_lossy(value).into_owned(), None)
    } else {
        read(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_back() {
        for owner in ["worker-7 of gaia", "", "two\nlines"] {
            let (read, since) = read(&write(owner));
            assert_eq!(read, owner);
            assert!(since.unwrap().elapsed().unwrap() < Duration::from_secs(60));
        }
        for (other, text) in [
            (&b"192.0.2.1"[..], "192.0.2.1"),
            (b"", ""),
            (b"a\nb", "a\nb"),
            (b"\xff\n1x", "\u{fffd}\n1x"),
        ] {
            assert_eq!(read(other), (text.to_owned(), None));
        }
    }
}
