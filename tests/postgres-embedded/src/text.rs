//! What the text of a request does to its session.

/// Returns the statements of a text. A `;` in a literal divides it, too: at worst, the
/// settings are read once more.
pub(crate) fn statements(sql: &str) -> impl Iterator<Item = &str> {
    sql.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

fn begins_with(statement: &str, word: &str) -> bool {
    let head = statement.as_bytes().get(..word.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns whether the text may change a setting beyond its transaction.
pub(crate) fn changes_settings(sql: &str) -> bool {
    let sets = |statement| {
        begins_with(statement, "SET ") && !begins_with(statement, "SET LOCAL ")
            || begins_with(statement, "RESET ")
            || begins_with(statement, "DISCARD ")
            || begins_with(statement, "DO ")
    };
    statements(sql).any(sets) || sql.contains("set_config(") && sql.contains(", false)")
}

/// A statement about channels.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Listens {
    To(String),
    Not(String),
    ToNothing,
}

/// Returns what the text says about channels.
pub(crate) fn listens(sql: &str) -> Vec<Listens> {
    let name = |name: &str| name.trim().trim_matches('"').to_owned();
    let read = |statement: &str| {
        if begins_with(statement, "LISTEN ") {
            Some(Listens::To(name(&statement[7..])))
        } else if begins_with(statement, "UNLISTEN ") {
            let channel = name(&statement[9..]);
            Some(if channel == "*" { Listens::ToNothing } else { Listens::Not(channel) })
        } else if begins_with(statement, "DISCARD ALL") {
            Some(Listens::ToNothing)
        } else {
            None
        }
    };
    statements(sql).filter_map(read).collect()
}

/// Writes a literal.
pub(crate) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// Writes an identifier.
pub(crate) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_channels_are_found() {
        for (sql, sets) in [
            ("SELECT 1", false),
            ("SET a = 1", true),
            ("SELECT 1;\nset a = 1", true),
            ("SET LOCAL a = 1; SELECT 1", false),
            ("SELECT set_config('a', 'b', true)", false),
            ("SELECT set_config('a', 'b', false)", true),
            ("DISCARD ALL", true),
        ] {
            assert_eq!(changes_settings(sql), sets, "{sql}");
        }
        let all = "SELECT 1; LISTEN \"a\";\nUNLISTEN b; unlisten *";
        let to = |name: &str| Listens::To(name.to_owned());
        assert_eq!(listens(all), [to("a"), Listens::Not("b".to_owned()), Listens::ToNothing]);
    }
}
