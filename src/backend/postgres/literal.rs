//! Values as SQL literals.
//!
//! A request is one message of the simple protocol, which has no parameters: see `statements.rs`.

use crate::backend::sql::outcome::hexadecimal;

/// Quotes a text as libpq's `PQescapeLiteral` does. The result is the same whether or not the
/// server treats backslashes as escapes (`standard_conforming_strings`).
pub(super) fn text(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// Formats bytes.
pub(super) fn bytes(bytes: &[u8]) -> String {
    format!("decode('{}', 'hex')", hexadecimal(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_escaped() {
        for (given, written) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("'; DROP TABLE x; --", "'''; DROP TABLE x; --'"),
            ("\\", " E'\\\\'"),
            ("\\'", " E'\\\\'''"),
            ("''", "''''''"),
            ("$$ü", "'$$ü'"),
        ] {
            assert_eq!(text(given), written);
        }
        assert_eq!(bytes(b""), "decode('', 'hex')");
        assert_eq!(bytes(b"\0'\xff"), "decode('0027ff', 'hex')");
    }
}
