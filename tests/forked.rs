//! A process forks while it holds locks, as prefork servers, daemons and test runners do. The child
//! has copies of guards, clients and connections, and none of the threads that serve them.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic)] // also outside of the test functions

use std::{
    error::Error as _,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use distlock::{Builder, Client, Error, LockGuard, LostReason, Tls, blocking::Wait};
use distlock_fork::{Fork, ends_within};
use distlock_testkit::{
    backend::Backend,
    servers::{
        certificates, mysql_url, postgres_url, redis_tls_url, redis_url, redlock_url, valkey_url,
    },
};

const TTL: Duration = Duration::from_secs(3);
const SOON: Duration = Duration::from_secs(30);

/// How a client that the child connects behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Own {
    Works,
    /// Connecting fails with an error that names the fork.
    IsRefused,
}

/// The parent's objects at the fork.
struct Inherited {
    builder: Builder,
    client: Client,
    kept: LockGuard,
    dropped: LockGuard,
}

/// Tests run one at a time: a fork must not happen while another test's thread holds the library's
/// internal locks.
static TURN: Mutex<()> = Mutex::new(());

fn forks(builder: Builder, own: Own) {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let namespace = format!("/forked-{:x}", fastrand::u64(..));
    let builder = builder.namespace(namespace).session_ttl(TTL);
    let client = builder.clone().connect().wait().expect("connected");
    let [kept, dropped] =
        ["kept", "dropped"].map(|name| client.mutex(name).lock().wait().expect("granted"));
    let inherited = Inherited { builder, client, kept, dropped };
    let verdict = std::env::temp_dir().join(format!("distlock-forked-{:x}", fastrand::u64(..)));
    match distlock_fork::split().expect("a child") {
        Fork::Child => judge(inherited, own, &verdict),
        Fork::Parent(child) => {
            let ended = ends_within(child, SOON).expect("a child");
            let outcome = fs::read_to_string(&verdict).unwrap_or_default();
            drop(fs::remove_file(&verdict));
            assert!(ended, "the child hangs");
            assert_eq!(outcome, "done", "the child");
            outlives(inherited);
        }
    }
}

/// Checks in the parent that the child has not affected its session.
fn outlives(Inherited { client, kept, dropped, .. }: Inherited) {
    let until = Instant::now() + client.session_ttl() * 3;
    while Instant::now() < until {
        assert!(kept.is_valid() && dropped.is_valid(), "lost within three TTLs of the fork");
        thread::sleep(Duration::from_millis(20));
    }
    kept.unlock().wait().expect("released");
    dropped.unlock().wait().expect("released");
    client.close().wait().expect("closed");
}

/// Runs the child: it writes its verdict and exits without returning to the test.
fn judge(inherited: Inherited, own: Own, verdict: &PathBuf) -> ! {
    let judged = catch_unwind(AssertUnwindSafe(|| child(inherited, own)));
    let outcome = judged.map_or_else(
        |panic| match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(text), _) => text.clone(),
            (None, Some(text)) => (*text).to_owned(),
            (None, None) => "panics".to_owned(),
        },
        |()| "done".to_owned(),
    );
    process::exit(i32::from(fs::write(verdict, outcome).is_err()));
}

fn child(Inherited { builder, client, kept, dropped }: Inherited, own: Own) {
    assert!(!kept.is_valid() && dropped.remaining().is_zero());
    assert_eq!(kept.lost().wait_timeout(SOON), Some(LostReason::Forked));
    let work = kept.run(std::future::pending::<()>()).wait_timeout(SOON).expect("stopped");
    assert_eq!(work.expect_err("the lock is lost").reason, LostReason::Forked);
    let error =
        kept.unlock().wait_timeout(SOON).expect("in time").expect_err("the lock is not held");
    assert!(matches!(error, Error::Lost { reason: LostReason::Forked, .. }), "{error:?}");
    let locking = client.mutex("another").lock().wait_timeout(SOON).expect("in time");
    let error = locking.expect_err("the client is the parent's");
    assert!(matches!(error, Error::Runtime { .. }), "{error:?}");
    // More clients than the library has runtimes.
    for name in ["one", "two", "three"] {
        let connected = builder.clone().connect().wait_timeout(SOON).expect("in time");
        if own == Own::IsRefused {
            let error = connected.expect_err("refused");
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(source.contains("forked"), "{error:?}");
            continue;
        }
        let own = connected.expect("connected");
        let guard = own.mutex(name).lock().wait_timeout(SOON).expect("in time").expect("granted");
        assert!(guard.is_valid());
        guard.unlock().wait_timeout(SOON).expect("in time").expect("released");
        own.close().wait_timeout(SOON).expect("in time").expect("closed");
    }
    drop(dropped);
    let ended = client.shutdown(Duration::ZERO).wait_timeout(SOON).expect("in time");
    let error = ended.expect_err("a client of the parent");
    assert!(matches!(error, Error::Runtime { .. }), "{error:?}");
    let error =
        client.close().wait_timeout(SOON).expect("in time").expect_err("a client of the parent");
    assert!(matches!(error, Error::Runtime { .. }), "{error:?}");
    drop(client);
}

fn tls(url: &str) -> Builder {
    let [ca, certificate, key] = certificates();
    let tls = Tls::new().ca_certificate(ca).client_identity(certificate, key);
    Client::builder(url).tls(tls)
}

macro_rules! forks {
    ($($(#[$doc:meta])* fn $store:ident($builder:expr, $own:ident);)*) => { $(
        $(#[$doc])*
        #[test]
        fn $store() {
            forks($builder, Own::$own);
        }
    )* };
}

forks! {
    fn memory(Client::builder("memory://forked"), Works);
    fn etcd(Client::builder(Backend::Etcd.url()), Works);
    fn etcd_by_tls(tls(&Backend::Etcd.url_with_tls()), Works);
    /// ZooKeeper's client keeps its timers on a thread that the child lacks.
    fn zookeeper(Client::builder(Backend::ZooKeeper.url()), IsRefused);
    fn zookeeper_by_tls(tls(&Backend::ZooKeeper.url_with_tls()), IsRefused);
    fn postgres(Client::builder(postgres_url()), Works);
    fn mysql(Client::builder(mysql_url()), Works);
    fn redis(Client::builder(redis_url()), Works);
    fn redis_by_tls(tls(&redis_tls_url()), Works);
    fn valkey(Client::builder(valkey_url()), Works);
    fn redlock(Client::builder(redlock_url()), Works);
}

/// SQLite tracks file locks per process.
#[test]
fn sqlite() {
    let file = std::env::temp_dir().join(format!("distlock-forked-{:x}.db", fastrand::u64(..)));
    let url = format!("sqlite://{}", file.display());
    forks(Client::builder(url), Own::IsRefused);
    drop(fs::remove_file(file));
}
