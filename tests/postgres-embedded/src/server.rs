//! Gives one transaction at a time to the connections.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io::{self, Write},
    net::{Shutdown, TcpStream},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tempfile::TempDir;

use crate::{
    client::{Batch, Client, Phase, Work},
    database::Database,
    frames::{code, frames, message, read_texts},
    text::{Listens, statements},
};

/// The codes of the first message of a connection.
const STARTUP: i32 = 196_608;
const TLS: i32 = 80_877_103;
const ENCRYPTION: i32 = 80_877_104;

/// The user of the tests' operators.
pub(crate) const OPERATOR: &str = "postgres";

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing is lost.
    Stop,
    /// Only what it has flushed remains.
    PowerLoss,
    /// As after a loss of power, but the server's start time stays the same: one of its processes
    /// has died, and not the first one.
    Crash,
}

/// A PostgreSQL server.
#[derive(Debug)]
pub struct Server {
    pub(crate) database: Database,
    pub(crate) clients: HashMap<u64, Client>,
    next: u64,
    /// The connections with a batch, in order.
    pub(crate) queue: VecDeque<u64>,
    /// The connection whose transaction is open.
    pub(crate) open: Option<u64>,
    /// The connection whose settings the session has.
    pub(crate) current: Option<u64>,
    /// By how many seconds the server's clock is ahead of this machine's.
    pub(crate) clock: i64,
    /// When it claims to have started, in seconds since 1970. Empty: when it has.
    pub(crate) started: String,
    /// How often users have executed a statement, by the start of its text.
    counts: BTreeMap<String, u64>,
    /// How many notifications users have received.
    notified: u64,
    /// It flushes its log by itself. PostgreSQL's process for that does not run here.
    pub(crate) flushes: bool,
    /// When it has last done so, and whether it has written since.
    pub(crate) flushed: (Instant, bool),
    /// The connections share the settings of the session.
    pub(crate) pooled: bool,
    kept: Option<TempDir>,
}

impl Server {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            database: Database::new()?,
            clients: HashMap::new(),
            next: 1,
            queue: VecDeque::new(),
            open: None,
            current: None,
            clock: 0,
            started: String::new(),
            counts: BTreeMap::new(),
            notified: 0,
            flushes: true,
            flushed: (Instant::now(), false),
            pooled: false,
            kept: None,
        })
    }

    /// Sets its clock to this many seconds from this machine's.
    pub fn set_clock(&mut self, seconds: i64) {
        self.clock = seconds;
        self.current = None;
    }

    /// From now on it flushes its log only when a request demands it.
    pub fn flush_on_request(&mut self) {
        self.flushes = false;
    }

    /// From now on its connections share one session, as behind a pooler with one connection. They
    /// outlast the server.
    pub fn pool(&mut self) {
        self.pooled = true;
    }

    /// Ends and starts again.
    ///
    /// # Errors
    ///
    /// Fails if PostgreSQL does not start.
    pub fn restart(&mut self, end: End) -> io::Result<()> {
        self.disconnect();
        if end == End::Stop {
            // Its processes end, and its files contain everything.
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.started = now.as_secs_f64().to_string();
            return Ok(());
        }
        if end == End::PowerLoss {
            self.started.clear();
        } else if self.started.is_empty() {
            let started = "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())";
            self.started = self.database.ask(started)?.concat().concat();
        }
        let files = self.database.copy()?;
        self.database.start_from(files)
    }

    /// Keeps a copy of its files.
    ///
    /// # Errors
    ///
    /// Fails if the files cannot be copied.
    pub fn keep(&mut self) -> io::Result<()> {
        self.database.ask("SET synchronous_commit = on; SELECT txid_current()")?;
        self.current = None;
        self.kept = Some(self.database.copy()?);
        Ok(())
    }

    /// Ends, and starts with the files that were kept, as a restored disk or a promoted standby
    /// does.
    ///
    /// # Errors
    ///
    /// Fails if there are none, or PostgreSQL does not start.
    pub fn restart_from_kept(&mut self) -> io::Result<()> {
        let kept = self.kept.take().ok_or_else(|| io::Error::other("no files were kept"))?;
        self.disconnect();
        self.started.clear();
        self.database.start_from(kept)
    }

    fn disconnect(&mut self) {
        (self.open, self.current) = (None, None);
        if self.pooled {
            return;
        }
        for (_, client) in self.clients.drain() {
            let _gone = client.stream.shutdown(Shutdown::Both);
        }
        self.queue.clear();
    }

    /// Returns the connections of an application, with the last text that each has executed.
    #[must_use]
    pub fn last_requests(&self, application: &str) -> Vec<(u64, String)> {
        let of_these = self.clients.iter().filter(|(_, client)| {
            client.parameters.get("application_name").is_some_and(|name| name == application)
        });
        let mut last: Vec<_> =
            of_these.map(|(number, client)| (*number, client.last.clone())).collect();
        last.sort_unstable();
        last
    }

    /// Returns how often others than the operator have executed each statement, by the start of its
    /// text.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.clone()
    }

    /// Returns how many notifications were sent to others than the operator.
    #[must_use]
    pub fn notified(&self) -> u64 {
        self.notified
    }

    /// Runs statements as the superuser, and returns their rows.
    ///
    /// # Errors
    ///
    /// Fails if a statement does.
    pub fn ask(&mut self, sql: &str) -> io::Result<Vec<Vec<String>>> {
        self.current = None;
        self.database.ask(sql)
    }

    pub(crate) fn come(&mut self, stream: TcpStream) -> u64 {
        let number = self.next;
        self.next += 1;
        self.clients.insert(number, Client::new(stream));
        number
    }

    pub(crate) fn went(&mut self, number: u64) -> io::Result<()> {
        if let Some(client) = self.clients.get_mut(&number) {
            client.gone = true;
            if !self.queue.contains(&number) {
                self.end(number)?;
            }
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, number: u64, bytes: &[u8]) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        client.frames.add(bytes);
        while let Some(client) = self.clients.get_mut(&number) {
            if client.gone {
                return self.went(number);
            }
            let before = client.waiting.len();
            match client.phase {
                Phase::New => match client.frames.next_untyped() {
                    Some(body) => self.greet(number, &body)?,
                    None => break,
                },
                Phase::Named => {
                    let Some(typed) = client.frames.next_typed() else { break };
                    let password = read_texts(&typed[5..]).next().unwrap_or_default();
                    client.phase = Phase::Ready;
                    client.waiting.push_back(Work::LogIn { password });
                    self.queue.push_back(number);
                }
                Phase::Ready => {
                    let Some(typed) = client.frames.next_typed() else { break };
                    client.take(number, &typed);
                    if client.waiting.len() > before {
                        self.queue.push_back(number);
                    }
                }
            }
        }
        Ok(())
    }

    fn greet(&mut self, number: u64, body: &[u8]) -> io::Result<()> {
        match code(body) {
            TLS | ENCRYPTION => self.reply(number, b"N"),
            STARTUP => {
                let words: Vec<_> = read_texts(&body[4..]).collect();
                let pairs = words.chunks_exact(2).filter(|pair| !pair[0].is_empty());
                let pairs = pairs.map(|pair| (pair[0].clone(), pair[1].clone()));
                if let Some(client) = self.clients.get_mut(&number) {
                    client.phase = Phase::Named;
                    client.parameters = pairs.collect();
                    client.user = client.parameters.get("user").cloned().unwrap_or_default();
                }
                // A password in plain text, as the connection does not leave this machine.
                self.reply(number, &message(b'R', &3_u32.to_be_bytes()));
            }
            _ => self.end(number)?,
        }
        Ok(())
    }

    /// Runs what is ready, and returns whether a connection still waits for another one.
    pub(crate) fn run(&mut self) -> io::Result<bool> {
        while let Some(number) = self.turn() {
            let Some(client) = self.clients.get_mut(&number) else { continue };
            match client.waiting.pop_front() {
                Some(Work::LogIn { password }) => self.log_in(number, &password)?,
                Some(Work::Run(batch)) => self.run_batch(number, batch)?,
                None => {}
            }
            self.settle(number)?;
        }
        self.refuse_late()?;
        self.flush()?;
        let may_idle = self.clients.values().any(|client| client.limits.idle.is_some());
        Ok(may_idle || !self.queue.is_empty() || self.flushes && self.flushed.1)
    }

    /// Takes the connection whose batch is next.
    fn turn(&mut self) -> Option<u64> {
        let at = match self.open {
            None => 0,
            Some(open) => self.queue.iter().position(|number| *number == open)?,
        };
        self.queue.remove(at)
    }

    /// Ends what a connection leaves.
    pub(crate) fn settle(&mut self, number: u64) -> io::Result<()> {
        let gone = self.clients.get(&number).is_some_and(|client| client.gone);
        if gone && !self.queue.contains(&number) { self.end(number) } else { Ok(()) }
    }

    fn run_batch(&mut self, number: u64, batch: Batch) -> io::Result<()> {
        self.switch_to(number)?;
        self.flushed.1 = true;
        let replies = self.database.send(&batch.messages)?;
        let Some(client) = self.clients.get_mut(&number) else { return Ok(()) };
        client.sets |= batch.sets;
        client.idle = Instant::now();
        client.last = batch.texts.last().cloned().unwrap_or_default();
        if client.user != OPERATOR {
            for text in &batch.texts {
                for statement in statements(text) {
                    let start: String = statement.chars().take(100).collect();
                    *self.counts.entry(start).or_default() += 1;
                }
            }
        }
        for listens in batch.listens {
            match listens {
                Listens::To(channel) => {
                    client.channels.insert(channel);
                }
                Listens::Not(channel) => {
                    client.channels.remove(&channel);
                }
                Listens::ToNothing => client.channels.clear(),
            }
        }
        let ready = frames(&replies).filter(|frame| frame.kind == b'Z').last();
        let is_open = ready.is_some_and(|frame| frame.body != b"I") || ready.is_none();
        self.open = is_open.then_some(number);
        self.deliver(number, &replies);
        let sets = self.clients.get(&number).is_some_and(|client| client.sets);
        if !is_open && sets {
            self.read_settings(number)?;
        }
        Ok(())
    }

    /// Sends the replies to the connection, and notifications to all that listen.
    fn deliver(&mut self, number: u64, replies: &[u8]) {
        let mut own = Vec::new();
        for frame in frames(replies) {
            if frame.kind != b'A' {
                own.extend_from_slice(frame.whole);
                continue;
            }
            let channel = read_texts(&frame.body[4..]).next().unwrap_or_default();
            for (at, client) in &mut self.clients {
                if !client.channels.contains(&channel) {
                    continue;
                }
                self.notified += u64::from(client.user != OPERATOR);
                if *at == number {
                    own.extend_from_slice(frame.whole);
                } else {
                    // The end of the connection is reported by its reader.
                    let _gone = client.stream.write_all(frame.whole);
                }
            }
        }
        self.reply(number, &own);
    }

    pub(crate) fn reply(&mut self, number: u64, bytes: &[u8]) {
        if let Some(client) = self.clients.get_mut(&number) {
            let _gone = client.stream.write_all(bytes);
        }
    }
}
