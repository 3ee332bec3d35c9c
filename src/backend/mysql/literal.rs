//! Values as they are written into SQL.
//!
//! A request is one text, with all of its statements, which has no parameters: see `statements.rs`.

use crate::backend::sql::outcome::hexadecimal;

/// A text, so that nothing of it is taken for something else, whatever the server makes of
/// backslashes, quotes and character sets: between quotes, for people to read, if there is nothing
/// special in it, and as bytes otherwise.
pub(crate) fn text(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~:!%@+".contains(&byte);
    match text.bytes().all(plain) {
        true => format!("'{text}'"),
        false => bytes(text.as_bytes()),
    }
}

/// Bytes.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    format!("x'{}'", hexadecimal(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        for (given, written) in [
            ("", "''"),
            ("/distlock/a%20b!rw", "'/distlock/a%20b!rw'"),
            ("a b", "x'612062'"),
            ("';--", "x'273b2d2d'"),
            ("\\", "x'5c'"),
            ("ü", "x'c3bc'"),
        ] {
            assert_eq!(text(given), written);
        }
        assert_eq!(bytes(b""), "x''");
        assert_eq!(bytes(b"\0'\xff"), "x'0027ff'");
    }
}
