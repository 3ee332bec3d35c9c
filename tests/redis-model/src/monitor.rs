//! `MONITOR`: what the server shows of the commands that it runs.

use crate::{reply::Reply, state::State};

impl State {
    /// Shows a command to the connections that monitor the server. `from`: the client.
    pub(crate) fn show(&mut self, from: &str, words: &[Vec<u8>]) {
        let monitors = self.connections.iter().filter(|(_, known)| known.monitors);
        let monitors: Vec<_> = monitors.map(|(number, _)| *number).collect();
        if monitors.is_empty() {
            return;
        }
        let (seconds, micros) = (self.now.div_euclid(1_000_000), self.now.rem_euclid(1_000_000));
        let words: String = words.iter().map(|word| format!(" {}", quoted(word))).collect();
        let line = format!("{seconds}.{micros:06} [0 {from}]{words}");
        self.pushes.extend(monitors.into_iter().map(|to| (to, Reply::Status(line.clone()))));
    }
}

/// Returns the address that it shows of a client. The model knows clients only by their numbers.
pub(crate) fn address_of(connection: u64) -> String {
    format!("127.0.0.1:{connection}")
}

fn quoted(word: &[u8]) -> String {
    let inside: String = word
        .iter()
        .map(|byte| match byte {
            b'\\' | b'"' => format!("\\{}", char::from(*byte)),
            b'\n' => "\\n".into(),
            b'\r' => "\\r".into(),
            b'\t' => "\\t".into(),
            7 => "\\a".into(),
            8 => "\\b".into(),
            b' '..=b'~' => char::from(*byte).into(),
            other => format!("\\x{other:02x}"),
        })
        .collect();
    format!("\"{inside}\"")
}
