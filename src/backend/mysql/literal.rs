//! Values as SQL literals.
//!
//! A request is one text with all of its statements, and has no parameters: see `statements.rs`.

use crate::backend::sql::outcome::hexadecimal;

/// Formats a text so that the server cannot misread it, whatever its rules for backslashes, quotes
/// and character sets. A text without special characters is quoted, which keeps it readable. Any
/// other text is written as bytes.
pub(crate) fn text(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~:!%@+".contains(&byte);
    match text.bytes().all(plain) {
        true => format!("'{text}'"),
        false => bytes(text.as_bytes()),
    }
}

/// Formats bytes.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    format!("x'{}'", hexadecimal(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_escaped() {
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
