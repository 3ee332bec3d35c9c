//! Sends the same random requests to the model and to a server and compares their replies, error
//! texts, codes, revisions and watch events. The requests go beyond those of the library.

mod requests;
mod side;

use std::{env, time::Duration};

use distlock_etcd_model::{Front, Settings};
use distlock_testkit::docker::OwnEtcd;
use etcd_client::{DeleteOptions, GetOptions, PutOptions, SortOrder, SortTarget, WatchOptions};
use fastrand::Rng;
use tokio::time::sleep;

use self::{
    requests::{Dice, Request},
    side::Side,
};
use super::hung::{raw, serves};

/// The number of requests in one sequence.
const REQUESTS: usize = 30;

/// A server and a model for this test alone, so their revisions are equal.
struct Both {
    _server: OwnEtcd,
    server: etcd_client::Client,
    model: etcd_client::Client,
}

impl Both {
    async fn start() -> Self {
        let server = OwnEtcd::start(&["--max-txn-ops=4"]).await;
        serves(server.address).await;
        let model = Front::start(Settings { max_txn_ops: 4, ..Settings::default() });
        let model = model.expect("a port");
        let both = [raw(server.address).await, raw(model.address).await];
        let [to_server, to_model] = both;
        Self { _server: server, server: to_server, model: to_model }
    }

    async fn sides(&self) -> [Side; 2] {
        [Side::open(&self.server).await, Side::open(&self.model).await]
    }

    /// Returns the first difference of a sequence. `twist` changes the model's reply to a request.
    async fn difference(
        &self,
        seed: u64,
        twist: impl Fn(&str, String) -> String,
    ) -> Option<String> {
        let [mut server, mut model] = self.sides().await;
        let mut dice = Dice { rng: Rng::with_seed(seed), run: format!("{seed}/"), revision: 0 };
        let mut requested = Vec::new();
        let mut difference = None;
        for _ in 0..REQUESTS {
            dice.revision = server.revision;
            let request = dice.request();
            let name = request.name();
            let from_server = server.reply(&request).await;
            let from_model = twist(name, model.reply(&request).await);
            if from_server != from_model {
                difference = Some(format!(
                    "seed {seed}: {request:?}\n  server {from_server}\n  model  {from_model}\n  \
                     after {requested:#?}"
                ));
                break;
            }
            requested.push(request);
        }
        let (from_server, from_model) = (server.sent().await, model.sent().await);
        let from_model = twist("Sent", from_model);
        if difference.is_none() && from_server != from_model {
            difference = Some(format!(
                "seed {seed}: Sent\n  server {from_server}\n  model  {from_model}\n  after \
                 {requested:#?}"
            ));
        }
        server.clear(&dice.run).await;
        model.clear(&dice.run).await;
        difference
    }
}

/// Returns the number of sequences: 2,700 were run on 2026-11-30.
fn sequences() -> u64 {
    env::var("DISTLOCK_SEQUENCES").map_or(100, |count| count.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_replies_as_the_server_does() {
    let both = Both::start().await;
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + sequences() {
        // Stop at the first difference: it may leave the two states different.
        let difference = both.difference(seed, |_, reply| reply).await;
        assert!(difference.is_none(), "{}", difference.unwrap_or_default());
    }
}

/// Random requests rarely contain these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn model_replies_as_the_server_does_to_rare_requests() {
    let both = Both::start().await;
    let [mut server, mut model] = both.sides().await;
    let put = |key: &str, value| Request::Put(key.to_owned(), value, PutOptions::new());
    let by_value = GetOptions::new().with_prefix().with_limit(1);
    let by_value = by_value.with_sort(SortTarget::Value, SortOrder::None);
    let written = server.revision + 3;
    let from_deletion = WatchOptions::new().with_start_revision(written + 1);
    for request in [
        put("a", "3"),
        put("b", "2"),
        put("c", "1"),
        // The server sorts the first two keys only.
        Request::Get(String::new(), by_value),
        Request::Delete("c".to_owned(), DeleteOptions::new()),
        // The deletion at that revision is kept.
        Request::Compact(written + 1),
        Request::Watch("c".to_owned(), from_deletion.with_watch_id(1)),
    ] {
        let (from_server, from_model) = (server.reply(&request).await, model.reply(&request).await);
        assert_eq!(from_server, from_model, "{request:?}");
    }
    let sent = server.sent().await;
    assert_eq!(sent, model.sent().await);
    assert_eq!(sent.matches("type: Delete").count(), 1, "{sent}");
}

/// The comparison detects a model that is wrong about one kind of reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_reply_of_the_model_is_found() {
    let both = Both::start().await;
    for (name, right, wrong) in [
        ("Get", "more: true", "more: false"),
        ("Put", "requested lease not found", "lease not found"),
        ("Delete", "deleted: 1", "deleted: 0"),
        ("Txn", "InvalidArgument", "FailedPrecondition"),
        ("Txn", "succeeded: true", "succeeded: false"),
        ("Compact", "has been compacted", "is compacted"),
        ("KeepAlive", "ttl: 0", "ttl: -1"),
        ("Sent", "prev_kv: Some", "prev_kv: None"),
    ] {
        let twist = |of: &str, reply: String| match of == name {
            true => reply.replace(right, wrong),
            false => reply,
        };
        let mut found = None;
        for seed in 0..500 {
            found = both.difference(seed, twist).await;
            if found.is_some() {
                break;
            }
        }
        assert!(found.is_some_and(|found| found.contains(name)), "{name}: {wrong} was not found");
    }
}

/// An expired lease deletes all its keys at one revision, in key order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_expire_in_the_model_as_in_the_server() {
    let both = Both::start().await;
    let mut sent = Vec::new();
    for (mut side, mut client) in
        both.sides().await.into_iter().zip([both.server.clone(), both.model.clone()])
    {
        side.watch("leased/", WatchOptions::new().with_prefix().with_watch_id(1)).await;
        // A TTL below the minimum is raised to it.
        for (lease, ttl) in [(1, 1), (2, 3)] {
            let options = etcd_client::LeaseGrantOptions::new().with_id(lease);
            let granted = client.lease_grant(ttl, Some(options)).await.expect("granted");
            assert_eq!(granted.ttl(), ttl.max(2));
            for key in ["z", "a", "m"] {
                let options = PutOptions::new().with_lease(lease);
                let key = format!("leased/{key}-{lease}");
                client.put(key, "", Some(options)).await.expect("etcd replies");
            }
        }
        // A put without a lease detaches the key, so it stays.
        client.put("leased/a-1", "", None).await.expect("etcd replies");
        while !client.leases().await.expect("etcd replies").leases().is_empty() {
            sleep(Duration::from_millis(50)).await;
        }
        sent.push(side.sent().await);
    }
    assert_eq!(sent[0], sent[1]);
    assert_eq!(sent[0].matches("type: Delete").count(), 5, "{}", sent[0]);
}
