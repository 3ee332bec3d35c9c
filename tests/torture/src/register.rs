//! The resource that the locks protect: for each lock a register that takes any write, and a fenced
//! one beside it.
//!
//! A write says which value its writer had read, so that each is one more link in a chain. An
//! acknowledged write that the last value does not lead back to was lost: somebody else had read
//! before it and wrote after it.

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
    /// With a token it goes to the fenced register.
    token: Option<u64>,
    /// The value to write, and the one that was read before; none to read.
    write: Option<(u64, u64)>,
    /// To see the store's register of the guarded writes instead.
    #[serde(default)]
    see: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    /// Refused by the fenced register: a higher token has been there.
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

    /// Serves for as long as the process lives.
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
                // A look that fails shows nothing: so be it, there are faults.
                let _ = ledger.look(&journal, &lock, token.unwrap_or_default()).await;
            });
            return Reply { accepted: true, value: 0 };
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let register = state.entry((lock.clone(), token.is_some())).or_default();
        let accepted = token.is_none_or(|token| token >= register.highest);
        if accepted {
            // A read counts too: else what a slow predecessor writes after it would be overwritten.
            register.highest = token.unwrap_or_default();
            if let Some((value, _)) = write {
                register.value = value;
            }
        }
        self.journal.tell(match write {
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
        let asking = async {
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            self.stream.get_mut().write_all(&line).await?;
            let mut reply = String::new();
            self.stream.read_line(&mut reply).await?;
            io::Result::Ok(serde_json::from_str(&reply)?)
        };
        asking.await.expect("the registers answer")
    }

    /// The value; `None` if the token is refused.
    pub(crate) async fn read(&mut self, lock: &str, token: Option<u64>) -> Option<u64> {
        let lock = lock.to_owned();
        let reply = self.ask(&Request { lock, token, write: None, see: false }).await;
        reply.accepted.then_some(reply.value)
    }

    /// Has it looked, for one who was granted the lock, what the guarded writes have come to.
    pub(crate) async fn see(&mut self, lock: &str, token: u64) {
        let lock = lock.to_owned();
        self.ask(&Request { lock, token: Some(token), write: None, see: true }).await;
    }

    /// Writes a value over the one that was read before. It may be refused.
    pub(crate) async fn write(&mut self, lock: &str, token: Option<u64>, value: u64, after: u64) {
        let (lock, write) = (lock.to_owned(), Some((value, after)));
        self.ask(&Request { lock, token, write, see: false }).await;
    }
}
