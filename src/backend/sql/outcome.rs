//! The result of a statement, as the server's text.

use std::fmt::Write;

/// The result of one statement of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    rows: Vec<Row>,
    /// The number of rows that it read or wrote.
    pub(crate) count: u64,
}

/// One row. A NULL column is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row(Vec<Option<String>>);

impl Outcome {
    pub(crate) fn new(rows: Vec<Row>, count: u64) -> Self {
        Self { rows, count }
    }

    pub(crate) fn rows(&self) -> &[Row] {
        &self.rows
    }

    #[cfg(feature = "redis")]
    pub(crate) fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    pub(crate) fn first(&self) -> Option<&Row> {
        self.rows.first()
    }

    #[cfg(test)]
    pub(crate) fn of_one(texts: &[&str]) -> Self {
        let row = Row::new(texts.iter().map(|text| Some((*text).to_owned())).collect());
        Self { rows: vec![row], count: 1 }
    }
}

/// Formats bytes as [`Row::bytes`] reads them.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

impl Row {
    pub(crate) fn new(texts: Vec<Option<String>>) -> Self {
        Self(texts)
    }

    /// Splits off the first column.
    #[cfg(feature = "postgres")]
    pub(crate) fn split_first(&self) -> (Option<&str>, Self) {
        (self.text(0), Self(self.0.iter().skip(1).cloned().collect()))
    }

    pub(crate) fn text(&self, column: usize) -> Option<&str> {
        self.0.get(column)?.as_deref()
    }

    pub(crate) fn number(&self, column: usize) -> Option<i64> {
        self.text(column)?.parse().ok()
    }

    /// Reads a boolean: `t` or `f` on PostgreSQL, or `true` or `false` as text; `1` or `0` on the
    /// others.
    pub(crate) fn flag(&self, column: usize) -> bool {
        matches!(self.text(column), Some("t" | "true" | "1"))
    }

    /// Decodes a column that the server has written in hexadecimal.
    pub(crate) fn bytes(&self, column: usize) -> Option<Vec<u8>> {
        let text = self.text(column)?.as_bytes();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let byte = |pair: &[u8]| match pair {
            [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
            _ => None,
        };
        text.chunks(2).map(byte).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_read() {
        let outcome = Outcome::of_one(&["-12", "t", "00ff7a", "x", "f"]);
        let row = outcome.first().unwrap();
        assert_eq!((row.number(0), row.number(3), row.number(9)), (Some(-12), None, None));
        assert_eq!((row.flag(1), row.flag(4), row.flag(9)), (true, false, false));
        assert_eq!(row.bytes(2), Some(vec![0, 255, b'z']));
        assert_eq!((row.bytes(3), row.bytes(9)), (None, None));
    }
}
