//! The resource that the locks protect: each lock has a register that accepts any write, and a
//! fenced one.
//!
//! A write names the value that its writer had read, so the writes form a chain. An acknowledged
//! write that is not in the chain of the last value was lost: another writer had read before it and
//! wrote after it.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::{
    event::{Event, Journal},
    ledger::Ledger,
};

#[derive(Debug, Serialize, Deserialize)]
struct Request {
    lock: String,
    /// With a token, the request is for the fenced register.
    token: Option<u64>,
    /// The value to write, and the value read before. `None` to read.
    write: Option<(u64, u64)>,
    /// Reads the store's register of the guarded writes instead.
    #[serde(default)]
    see: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    /// `false` if the fenced register has seen a higher token.
    accepted: bool,
    value: u64,
}

/// The registers of a run.
#[derive(Debug)]
pub(crate) struct Registers {
    journal: Journal,
    ledger: Arc<Ledger>,
    state: Mutex<HashMap<(String, bool), Register>>,
}

#[derive(Debug, Default)]
struct Register {
    value: u64,
    highest: u64,
}

impl Registers {
    pub(crate) fn new(journal: Journal, ledger: Arc<Ledger>) -> Self {
        Self { journal, ledger, state: Mutex::default() }
    }

    /// Serves while the process runs.
    pub(crate) async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            if let Ok((stream, _)) = listener.accept().await {
                let registers = Arc::clone(&self);
                tokio::spawn(async move { registers.converse(stream).await });
            }
        }
    }

    async fn converse(&self, mut stream: TcpStream) {
        let _ = stream.set_nodelay(true);
        let (reader, mut writer) = stream.split();
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let Ok(request) = serde_json::from_str::<Request>(&line) else { return };
            let mut reply =
                serde_json::to_vec(&self.answer(request)).expect("replies can be written as JSON");
            reply.push(b'\n');
            if writer.write_all(&reply).await.is_err() {
                return;
            }
        }
    }

    fn answer(&self, Request { lock, token, write, see }: Request) -> Reply {
        if see {
            let (ledger, journal) = (Arc::clone(&self.ledger), self.journal.clone());
            tokio::spawn(async move {
                // A failed read is ignored, since there are faults.
                let _ = ledger.read(&journal, &lock, token.unwrap_or_default()).await;
            });
            return Reply { accepted: true, value: 0 };
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let register = state.entry((lock.clone(), token.is_some())).or_default();
        let accepted = token.is_none_or(|token| token >= register.highest);
        if accepted {
            // A read counts as well. Otherwise a late write of a slow predecessor would be
            // overwritten.
            register.highest = token.unwrap_or_default();
            if let Some((value, _)) = write {
                register.value = value;
            }
        }
        self.journal.record(match write {
            Some((value, after)) => Event::Wrote { lock, token, value, after, accepted },
            None => Event::Read { lock, token, value: register.value, accepted },
        });
        Reply { accepted, value: register.value }
    }
}

/// A worker's connection to the registers.
#[derive(Debug)]
pub(crate) struct Resource {
    stream: BufReader<TcpStream>,
}

impl Resource {
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    async fn ask(&mut self, request: &Request) -> Reply {
        let exchange = async {
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            self.stream.get_mut().write_all(&line).await?;
            let mut reply = String::new();
            self.stream.read_line(&mut reply).await?;
            io::Result::Ok(serde_json::from_str(&reply)?)
        };
        exchange.await.expect("the registers reply")
    }

    /// Reads the value. Returns `None` if the token is refused.
    pub(crate) async fn read(&mut self, lock: &str, token: Option<u64>) -> Option<u64> {
        let lock = lock.to_owned();
        let reply = self.ask(&Request { lock, token, write: None, see: false }).await;
        reply.accepted.then_some(reply.value)
    }

    /// Makes the coordinator read the register of the guarded writes for the holder of this token.
    pub(crate) async fn see(&mut self, lock: &str, token: u64) {
        let lock = lock.to_owned();
        self.ask(&Request { lock, token: Some(token), write: None, see: true }).await;
    }

    /// Writes a value that replaces the one read before. The write may be refused.
    pub(crate) async fn write(&mut self, lock: &str, token: Option<u64>, value: u64, after: u64) {
        let (lock, write) = (lock.to_owned(), Some((value, after)));
        self.ask(&Request { lock, token, write, see: false }).await;
    }
}
