//! The four-letter words that the tests use.

use std::fmt::Write;

use crate::state::State;

const KNOWN: [&str; 8] = ["cons", "dump", "isro", "ruok", "srvr", "wchc", "wchp", "wchs"];

/// Returns the word in these bytes.
pub(crate) fn known(bytes: &[u8; 4]) -> Option<&'static str> {
    KNOWN.into_iter().find(|word| word.as_bytes() == bytes)
}

impl State {
    pub(crate) fn word(&self, word: &str) -> String {
        match word {
            "cons" => self.cons(),
            "dump" => self.dump(),
            "isro" => "rw".to_owned(),
            "ruok" => "imok".to_owned(),
            "srvr" => self.srvr(),
            "wchc" => self.wchc(),
            "wchs" => self.wchs(),
            _ => self.wchp(),
        }
    }

    fn cons(&self) -> String {
        let mut text = String::new();
        for connection in self.connections.values() {
            let (received, sent) = (connection.received, connection.sent);
            let _ = write!(text, " /127.0.0.1:0[1](queued=0,recved={received},sent={sent}");
            if connection.session != 0 {
                let (session, timeout) = (connection.session, connection.timeout);
                let _ = write!(text, ",sid=0x{session:x},lop=NA,est=0,to={timeout}");
            }
            text += ")\n";
        }
        text + "\n"
    }

    fn dump(&self) -> String {
        let sets = self.sessions.by_end();
        let count: usize = sets.values().map(Vec::len).sum();
        let mut text = format!("SessionTracker dump:\nSession Sets ({})/({count}):\n", sets.len());
        for (end, sessions) in sets {
            let _ = writeln!(text, "{} expire at {end}:", sessions.len());
            for session in sessions {
                let _ = writeln!(text, "\t0x{session:x}");
            }
        }
        let ephemerals = self.tree.ephemerals();
        let count = ephemerals.len();
        let _ = writeln!(text, "ephemeral nodes dump:\nSessions with Ephemerals ({count}):");
        for (session, paths) in ephemerals {
            let _ = writeln!(text, "0x{session:x}:");
            for path in paths {
                let _ = writeln!(text, "\t{path}");
            }
        }
        text + "Connections dump:\n"
    }

    fn srvr(&self) -> String {
        let (zxid, nodes) = (self.zxid, self.tree.len());
        format!(
            "Zookeeper version: 3.9.3, a model\nConnections: {}\nOutstanding: 0\n\
             Zxid: 0x{zxid:x}\nMode: standalone\nNode count: {nodes}\n",
            self.connections.len()
        )
    }

    /// Lists the watches on data and existence, by connection.
    fn wchc(&self) -> String {
        let mut text = String::new();
        for (connection, paths) in self.data_watches.by_connection() {
            let _ = writeln!(text, "0x{:x}", self.session(connection));
            for path in paths {
                let _ = writeln!(text, "\t{path}");
            }
        }
        text + "\n"
    }

    fn wchs(&self) -> String {
        let connections = self.data_watches.by_connection();
        let (count, paths) = (connections.len(), self.data_watches.by_path().count());
        let total: usize = connections.values().map(Vec::len).sum();
        format!("{count} connections watching {paths} paths\nTotal watches:{total}\n")
    }

    /// Lists the watches on data and existence, by path.
    fn wchp(&self) -> String {
        let mut text = String::new();
        for (path, connections) in self.data_watches.by_path() {
            let _ = writeln!(text, "{path}");
            for connection in connections {
                let _ = writeln!(text, "\t0x{:x}", self.session(connection));
            }
        }
        text + "\n"
    }
}
