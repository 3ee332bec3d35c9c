//! Sends the same random requests to the model and to a server and compares their replies and
//! events. Two connections watch each other's writes, and the requests go beyond those of the
//! library.
//!
//! The server is the test's own: a truncated request permanently stops an ensemble of version 3.9,
//! because its leader proposes the error under the zxid of the last transaction.

mod random;
mod shown;
mod wire;

use std::{env, net::SocketAddr};

use distlock_zookeeper_model::Front;
use fastrand::Rng;

use super::own::OwnZooKeeper;
use random::{Act, Step};
use shown::Times;
use wire::{AUTH, CLOSE_SESSION, Place, Record, SET_WATCHES, SET_WATCHES2, Wire};

/// The number of requests in one sequence.
const REQUESTS: usize = 25;

/// The users with all rights to the nodes that a sequence leaves.
const USERS: [&str; 2] = ["a:a", "b:b"];

/// A server or the model, with two clients.
struct Side {
    place: Place,
    clients: [Option<Wire>; 2],
    /// The last session of each client.
    sessions: [i64; 2],
    times: Times,
}

impl Side {
    async fn start(address: SocketAddr, root: &str) -> Self {
        let place = Place(address);
        let clients = [place.open().await, place.open().await];
        let sessions = clients.each_ref().map(|client| client.as_ref().map_or(0, |it| it.session));
        let mut side = Self { place, clients, sessions, times: Times::default() };
        side.request(0, wire::CREATE, &Record::default().create(root, b"", 0).bytes()).await;
        side
    }

    /// Executes a step by one client and formats what both clients receive.
    async fn step(&mut self, step: &Step) -> String {
        let by = step.by;
        if self.clients[by].is_none() {
            self.clients[by] = self.place.open().await;
            self.sessions[by] = self.clients[by].as_ref().map_or(0, |client| client.session);
        }
        let seen = match &step.act {
            Act::Request(kind, body) => self.request(by, *kind, body).await,
            Act::Auth(scheme, credentials) => {
                let body = Record::default().int(0).text(scheme).text(credentials).bytes();
                self.request(by, AUTH, &body).await
            }
            Act::SetWatches { newer, since, lists } => {
                let zxid = self.times.writes.get(*since).copied().unwrap_or(0);
                let mut body = Record::default().long(zxid);
                for list in &lists[..if *newer { 5 } else { 3 }] {
                    body = body.texts(list);
                }
                let kind = if *newer { SET_WATCHES2 } else { SET_WATCHES };
                self.request(by, kind, &body.bytes()).await
            }
            Act::Close => self.request(by, CLOSE_SESSION, &[]).await,
            Act::Reconnect { password, timeout } => {
                let former = self.clients[by].take();
                let session = self.sessions[by];
                let (shown, client) = self.place.reopen(session, *password, *timeout).await;
                let ended = match former {
                    Some(mut former) => former.is_hung_up().await,
                    None => true,
                };
                self.clients[by] = client;
                format!("{shown}, the former connection ended: {ended}")
            }
        };
        let other = self.flush(1 - by, matches!(step.act, Act::Close)).await;
        format!("{seen} | {other}")
    }

    /// Returns the events before a reply, and the reply.
    async fn request(&mut self, by: usize, kind: i32, body: &[u8]) -> String {
        let Some(client) = &mut self.clients[by] else { return "no session".to_owned() };
        let (events, reply) = client.request(kind, body).await;
        let mut shown = events.iter().map(|event| self.times.event(event)).collect::<Vec<_>>();
        match reply {
            Some(reply) => shown.push(self.times.reply(kind, &reply, self.sessions)),
            None => shown.push("hung up".to_owned()),
        }
        if matches!(kind, AUTH | CLOSE_SESSION | wire::UNKNOWN) {
            let ended = shown.last().is_some_and(|last| kind != AUTH || last.contains("-115"));
            if ended {
                shown.push(format!("hung up: {}", client.is_hung_up().await));
                self.clients[by] = None;
            }
        }
        shown.join(", ")
    }

    /// Returns the events that a client has received. Their order at the end of a session varies.
    async fn flush(&mut self, of: usize, unordered: bool) -> String {
        let Some(client) = &mut self.clients[of] else { return String::new() };
        let events = client.ping().await;
        let mut shown = events.iter().map(|event| self.times.event(event)).collect::<Vec<_>>();
        if unordered {
            shown.sort();
        }
        shown.join(", ")
    }

    async fn end(mut self, root: &str) {
        for client in self.clients.iter_mut().flatten() {
            client.request(CLOSE_SESSION, &[]).await;
        }
        if let Some(mut client) = self.place.open().await {
            for user in USERS {
                let body = Record::default().int(0).text("digest").text(user).bytes();
                client.request(AUTH, &body).await;
            }
            client.delete_all(root).await;
            client.request(CLOSE_SESSION, &[]).await;
        }
    }
}

struct Both {
    server: OwnZooKeeper,
    model: SocketAddr,
}

impl Both {
    async fn connect() -> Self {
        let model = Front::start().expect("a port").address;
        Self { server: OwnZooKeeper::start("").await, model }
    }

    /// Returns the first difference of a sequence. `twist` changes the model's reply.
    async fn difference(
        &self,
        seed: u64,
        twist: impl Fn(&Step, String) -> String,
    ) -> Option<String> {
        let root = format!("/alike-{:x}-{seed}", fastrand::u32(..));
        let (mut server, mut model) =
            (Side::start(self.server.address, &root).await, Side::start(self.model, &root).await);
        let mut dice = Rng::with_seed(seed);
        let (mut difference, mut before) = (None, Vec::new());
        for _ in 0..REQUESTS {
            let step = random::step(&mut dice, &root);
            let from_server = server.step(&step).await;
            let from_model = twist(&step, model.step(&step).await);
            if from_server != from_model {
                difference = Some(format!(
                    "seed {seed}: {step}\n  server {from_server}\n  model  {from_model}\n  \
                     after {}",
                    before.join("\n        ")
                ));
                break;
            }
            before.push(step.to_string());
        }
        server.end(&root).await;
        model.end(&root).await;
        difference
    }

    /// Returns a difference that recurs in three runs. The server deletes an empty container at its
    /// next check, which may fall into one sequence.
    async fn lasting_difference(&self, seed: u64) -> Option<String> {
        let mut difference = None;
        for _ in 0..3 {
            difference = Some(self.difference(seed, |_, shown| shown).await?);
        }
        difference
    }
}

/// Returns the number of sequences: 4,000 were run on 2026-11-29.
fn sequences() -> u64 {
    env::var("DISTLOCK_SEQUENCES").map_or(100, |count| count.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_replies_as_the_server_does() {
    let both = Both::connect().await;
    let first = fastrand::u64(..1 << 40);
    let mut differences = Vec::new();
    for seed in first..first + sequences() {
        differences.extend(both.lasting_difference(seed).await);
        assert!(differences.len() < 10, "{}", differences.join("\n"));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The comparison detects a model that is wrong about one thing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_reply_of_the_model_is_found() {
    let both = Both::connect().await;
    for (right, wrong) in [
        ("error -111", "error -110"),
        ("changes 3", "changes 2"),
        ("deleted", "data"),
        ("pzxid of 2", "pzxid of 1"),
    ] {
        let mut found = None;
        for seed in 0..100 {
            found = both.difference(seed, |_, shown| shown.replace(right, wrong)).await;
            if found.as_ref().is_some_and(|found| found.contains(wrong)) {
                break;
            }
        }
        assert!(found.is_some_and(|found| found.contains(right)), "{wrong} was not found");
    }
}
