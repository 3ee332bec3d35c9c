//! The model of a server replies as a server does: to random requests that are not the library's,
//! by two connections that watch what the other one does.
//!
//! The server is one of the test's own: a request that is cut short stops an ensemble of 3.9 for
//! good, as its leader proposes the error under the number of the last transaction.

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

/// How many requests one sequence has.
const REQUESTS: usize = 25;

/// Users that may do all with what a sequence leaves behind.
const USERS: [&str; 2] = ["a:a", "b:b"];

/// A server or the model, and two clients of it.
struct Side {
    place: Place,
    clients: [Option<Wire>; 2],
    /// The last session of each.
    sessions: [i64; 2],
    times: Times,
}

impl Side {
    async fn start(address: SocketAddr, root: &str) -> Self {
        let place = Place(address);
        let clients = [place.open().await, place.open().await];
        let sessions = clients.each_ref().map(|client| client.as_ref().map_or(0, |it| it.session));
        let mut side = Self { place, clients, sessions, times: Times::default() };
        side.ask(0, wire::CREATE, &Record::default().create(root, b"", 0).bytes()).await;
        side
    }

    /// What both clients see of a request by one of them, in words.
    async fn step(&mut self, step: &Step) -> String {
        let by = step.by;
        if self.clients[by].is_none() {
            self.clients[by] = self.place.open().await;
            self.sessions[by] = self.clients[by].as_ref().map_or(0, |client| client.session);
        }
        let seen = match &step.act {
            Act::Ask(kind, body) => self.ask(by, *kind, body).await,
            Act::Auth(scheme, credentials) => {
                let body = Record::default().int(0).text(scheme).text(credentials).bytes();
                self.ask(by, AUTH, &body).await
            }
            Act::SetWatches { newer, since, lists } => {
                let zxid = self.times.writes.get(*since).copied().unwrap_or(0);
                let mut body = Record::default().long(zxid);
                for list in &lists[..if *newer { 5 } else { 3 }] {
                    body = body.texts(list);
                }
                let kind = if *newer { SET_WATCHES2 } else { SET_WATCHES };
                self.ask(by, kind, &body.bytes()).await
            }
            Act::Close => self.ask(by, CLOSE_SESSION, &[]).await,
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

    /// The events that come before a reply, and the reply.
    async fn ask(&mut self, by: usize, kind: i32, body: &[u8]) -> String {
        let Some(client) = &mut self.clients[by] else { return "no session".to_owned() };
        let (events, reply) = client.ask(kind, body).await;
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

    /// The events that have come for a client. Those of a session's end have no order.
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
            client.ask(CLOSE_SESSION, &[]).await;
        }
        if let Some(mut client) = self.place.open().await {
            for user in USERS {
                let body = Record::default().int(0).text("digest").text(user).bytes();
                client.ask(AUTH, &body).await;
            }
            client.delete_all(root).await;
            client.ask(CLOSE_SESSION, &[]).await;
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

    /// The first difference of a sequence. `twist` changes what the model replies.
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

    /// One that is there each time: a container that is empty goes when the server next looks for
    /// such, which may be in the middle of a sequence.
    async fn lasting_difference(&self, seed: u64) -> Option<String> {
        let mut difference = None;
        for _ in 0..3 {
            difference = Some(self.difference(seed, |_, shown| shown).await?);
        }
        difference
    }
}

/// How many sequences: 4,000 were run on 2026-11-29.
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

/// A model that is wrong about one thing is found out.
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
