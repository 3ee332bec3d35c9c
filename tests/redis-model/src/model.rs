//! The server as a whole: its replies, and the data left by a crash.

use std::{cell::RefCell, fmt, rc::Rc};

use crate::{
    commands,
    lua::Scripts,
    monitor::address_of,
    number,
    reply::Reply,
    state::{Connection, OPERATOR, State},
};

/// One server.
pub struct Model {
    state: Rc<RefCell<State>>,
    scripts: Scripts,
    connections: u64,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").finish_non_exhaustive()
    }
}

impl Model {
    /// Creates an empty server that flushes all writes before it confirms them. `now`: the time on
    /// its clock, in microseconds since 1970. Returns `None` if Lua cannot be set up.
    #[must_use]
    pub fn new(now: i64) -> Option<Self> {
        let state = Rc::new(RefCell::new(State::new(now)));
        let scripts = Scripts::new(Rc::clone(&state)).ok()?;
        Some(Self { state, scripts, connections: 0 })
    }

    /// Sets the time since when the server has been running.
    pub fn set_start(&mut self, then: i64) {
        self.state.borrow_mut().started = then;
    }

    /// Returns the number of changes so far: if it is unchanged, so are the keys.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.state.borrow().keys.changes()
    }

    /// Returns the reply to an operator with all rights.
    pub fn ask(&mut self, words: &[&str]) -> Reply {
        let words: Vec<_> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.run(OPERATOR, &words).unwrap_or(Reply::Nil)
    }

    /// Sets the time on its clock.
    pub fn set_time(&mut self, now: i64) {
        let mut state = self.state.borrow_mut();
        state.now = now + state.ahead;
    }

    /// Starts again under a name that no other server has: its identifiers follow from that.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.state.borrow_mut().name);
        self.crash();
    }

    /// Sets its clock so far ahead of the time that it is given, in microseconds.
    pub fn set_clock(&mut self, ahead: i64) {
        let mut state = self.state.borrow_mut();
        state.now += ahead - state.ahead;
        state.ahead = ahead;
    }

    /// Lets it have run for this long, in microseconds.
    pub fn set_age(&mut self, age: i64) {
        let mut state = self.state.borrow_mut();
        state.started = state.now - age;
    }

    /// Connects a client.
    pub fn connect(&mut self) -> u64 {
        self.connections += 1;
        let mut state = self.state.borrow_mut();
        let is_open = state.users.get("default").is_some_and(String::is_empty);
        let user = is_open.then(|| "default".to_owned());
        state.connections.insert(self.connections, Connection { user, ..Connection::default() });
        self.connections
    }

    /// Disconnects a client.
    pub fn disconnect(&mut self, connection: u64) {
        self.state.borrow_mut().connections.remove(&connection);
    }

    /// Returns `true` if the client has requested RESP3.
    #[must_use]
    pub fn is_newer(&self, connection: u64) -> bool {
        self.state.borrow().connections.get(&connection).is_some_and(|known| known.newer)
    }

    /// Removes and returns the pushes to clients, in order.
    pub fn take_pushes(&mut self) -> Vec<(u64, Reply)> {
        std::mem::take(&mut self.state.borrow_mut().pushes)
    }

    /// Flushes all writes to the disk.
    pub fn flush(&mut self) {
        let mut state = self.state.borrow_mut();
        if state.setting("appendonly") == "yes" {
            state.keys.flush();
        }
    }

    /// Ends the process and starts another one with the data on the disk.
    pub fn crash(&mut self) {
        self.scripts.forget();
        let mut state = self.state.borrow_mut();
        if state.setting("appendonly") == "yes" {
            state.keys.crash();
        } else {
            state.keys.wipe();
        }
        state.connections.clear();
        state.pushes.clear();
        state.start();
    }

    /// Flushes everything to the disk, and copies the disk.
    pub fn copy_disk(&mut self) {
        self.flush();
        self.state.borrow_mut().keys.copy();
    }

    /// Ends the process, and starts another one with the copy of the disk.
    pub fn crash_with_copy(&mut self) {
        self.state.borrow_mut().keys.restore();
        self.crash();
    }

    /// Loses the process and the disk, and starts an empty server.
    pub fn wipe(&mut self) {
        self.state.borrow_mut().keys.wipe();
        self.crash();
    }

    /// Sets a setting, like an option of the server's command.
    pub fn set(&mut self, name: &str, value: &str) {
        self.state.borrow_mut().settings.insert(name.to_owned(), value.to_owned());
    }

    /// Returns `true` if a client has been idle for too long after this many seconds.
    #[must_use]
    pub fn is_idle(&self, connection: u64, seconds: u64) -> bool {
        let state = self.state.borrow();
        let limit = state.setting("timeout").parse().unwrap_or(0);
        let listens = |known: &Connection| known.channels.len() + known.patterns.len() > 0;
        limit > 0 && seconds > limit && !state.connections.get(&connection).is_some_and(listens)
    }

    /// Connects a replica that only copies, which starts a new replication history.
    pub fn back_up(&mut self) {
        let mut state = self.state.borrow_mut();
        state.former_history = "0".repeat(40);
        state.begin_history();
    }

    /// Returns the reply to one request, or `None` if the pushes are the reply.
    pub fn run(&mut self, connection: u64, words: &[Vec<u8>]) -> Option<Reply> {
        let reply = self.reply(connection, words);
        let at_once = self.state.borrow().setting("appendfsync") == "always";
        if at_once {
            self.flush();
        }
        (reply != Reply::Push(Vec::new())).then_some(reply)
    }

    fn reply(&mut self, connection: u64, words: &[Vec<u8>]) -> Reply {
        let Some(name) = words.first() else { return Reply::error("ERR Protocol error") };
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let user = self.state.borrow().connections.get(&connection).and_then(|it| it.user.clone());
        if user.is_none() && !matches!(lower.as_str(), "auth" | "hello") {
            return Reply::error("NOAUTH Authentication required.");
        }
        *self.state.borrow_mut().calls.entry(lower.clone()).or_default() += 1;
        match (lower.as_str(), words.len()) {
            ("eval" | "evalsha", 3..) => {
                // Before the commands of the script.
                self.state.borrow_mut().show(&address_of(connection), words);
                self.eval(lower == "eval", words)
            }
            ("script", 2..) => {
                let reply = self.script(words);
                self.state.borrow_mut().show(&address_of(connection), words);
                reply
            }
            ("eval" | "evalsha" | "script", _) => {
                let message = format!("ERR wrong number of arguments for '{lower}' command");
                Reply::error(message)
            }
            _ => match commands::find(name) {
                Some(command) if !command.takes(words.len()) => command.wrong_arity(),
                Some(command) => {
                    let mut state = self.state.borrow_mut();
                    if let Some(refusal) = command.refusal(&state) {
                        return refusal;
                    }
                    let reply = (command.run)(&mut state, connection, words);
                    if !command.is_secret() {
                        state.show(&address_of(connection), words);
                    }
                    reply
                }
                None => unknown(words),
            },
        }
    }

    fn eval(&mut self, whole: bool, words: &[Vec<u8>]) -> Reply {
        let Some(count) = number::integer(&words[2]) else {
            return Reply::error("ERR value is not an integer or out of range");
        };
        let Ok(count) = usize::try_from(count) else {
            return Reply::error("ERR Number of keys can't be negative");
        };
        let rest = &words[3..];
        if count > rest.len() {
            return Reply::error("ERR Number of keys can't be greater than number of args");
        }
        let (keys, arguments) = rest.split_at(count);
        let hash = match whole {
            true => match self.scripts.load(&words[1]) {
                Ok(hash) => hash,
                Err(error) => return error,
            },
            false => String::from_utf8_lossy(&words[1]).to_ascii_lowercase(),
        };
        self.scripts.run(&hash, keys, arguments)
    }

    fn script(&mut self, words: &[Vec<u8>]) -> Reply {
        match (String::from_utf8_lossy(&words[1]).to_ascii_lowercase().as_str(), &words[2..]) {
            ("flush", _) => {
                self.scripts.forget();
                Reply::ok()
            }
            ("load", [text]) => self.scripts.load(text).map_or_else(|error| error, Reply::text),
            ("exists", hashes @ [_, ..]) => {
                let known = hashes.iter().map(|hash| i64::from(self.scripts.knows(hash)));
                Reply::Array(known.map(Reply::Int).collect())
            }
            (other, _) => {
                Reply::error(format!("ERR unknown subcommand '{other}'. Try SCRIPT HELP."))
            }
        }
    }
}

fn unknown(words: &[Vec<u8>]) -> Reply {
    let shown = |word: &Vec<u8>| format!("'{}' ", String::from_utf8_lossy(word));
    let arguments: String = words[1..].iter().map(shown).collect();
    let name = String::from_utf8_lossy(&words[0]);
    Reply::error(format!("ERR unknown command '{name}', with args beginning with: {arguments}"))
}
