//! Distributed locks on etcd, ZooKeeper, PostgreSQL, MySQL, Redis and SQLite, for tokio and for
//! threads.
//!
//! A lock has a name, and a client that acquires it gets a guard. While the guard of an exclusive
//! lock is valid, no other client is granted the lock, unless an operator evicts the holder or the
//! store loses confirmed writes. [What is guaranteed](#what-is-guaranteed) names other exceptions.
//!
//! ```
//! use distlock::Client;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Or etcd://h1:2379,h2:2379, zk://h1:2181,h2:2181, postgres://h/db, mysql://h/db,
//!     // redis://h, sqlite:///path.
//!     let client = Client::connect("memory://docs").await?;
//!     let guard = client.mutex("nightly-report").lock().await?;
//!     let token = guard.fencing_token().as_u64();
//!     guard.run(write_report(token)).await?; // ends early if the lock is lost
//!     guard.unlock().await?; // dropping the guard releases the lock in the background
//!     Ok(())
//! }
//!
//! async fn write_report(token: u64) {
//!     // UPDATE reports SET ..., token = $token WHERE token <= $token
//! }
//! ```
//!
//! # Which primitive
//!
//! - **One holder at a time**: [`Mutex`], from [`Client::mutex`]. Its guard is a [`LockGuard`].
//! - **Many readers or one writer**: [`RwLock`], from [`Client::rw_lock`]. A writer can become a
//!   reader without a gap.
//! - **At most n permits at a time**: [`Semaphore`], from [`Client::semaphore`].
//! - **One leader, and observers that follow it**: [`Election`], from [`Client::election`].
//! - **Several locks, all or none**: [`Client::lock_all`].
//! - **A write to the same store, applied only while the lock is held**: [`LockGuard::put`],
//!   [`delete`](LockGuard::delete) and [`write`](LockGuard::write).
//! - **Your own transaction, in the database that stores the lock**: `LockGuard::sql`, and `check`
//!   in the modules `postgres`, `mysql` and `sqlite`.
//! - **Your own resource, which rejects late writes**: [`FencingGate`].
//! - **One row, and no lock at all**: [`optimistic`].
//! - **Listing holders and waiters, and asking a holder to release**: [`Mutex::queue`],
//!   [`Mutex::watch_queue`] and [`Mutex::request_release`].
//!
//! Waiters queue in the store, first come, first served. Redlock is the exception: it has no queue
//! and grants in no particular order. Methods that acquire a lock and return its guard have three
//! forms. The plain form waits, `try_…` does not wait for a holder, and `…_timeout` waits up to the
//! given duration.
//!
//! # What is guaranteed
//!
//! - Mutexes, write locks and elections are exclusive: while a guard is valid, no other holder of
//!   that lock has a valid guard. A guard is valid from the grant to its deadline, unless the lock
//!   is released or lost earlier. The deadline depends on the time at which the last confirmed
//!   keepalive was sent, and passes before the store can grant the lock to another client.
//! - The main exceptions are evictions, lost writes and stopped clocks. If an operator evicts a
//!   holder or a waiter, another client may be granted the lock before the evicted client is
//!   notified, which happens within a bounded time. If a store loses confirmed writes, it may grant
//!   a lock that is held: see [`Client::durability`]. While a hypervisor has stopped a virtual
//!   machine, the clock of its guards does not run, so they are valid for too long. [Redlock] and
//!   locks with a [bridge] also depend on the servers' clocks. [Guarantees][guarantees] documents
//!   all conditions.
//! - Every guard reports its loss. After a loss, [`LockGuard::is_valid`] returns `false`,
//!   [`LockGuard::lost`] resolves, and [`LockGuard::run`] stops the work.
//! - Every exclusive grant of a lock has a higher [`FencingToken`] than all earlier grants of that
//!   lock. The exceptions are an evicted waiter that is nevertheless granted the lock, and the
//!   [setups][guarantees] that cannot promise this.
//! - A forked child process does not inherit locks. The parent process keeps its locks. In the
//!   child, the parent's guards are lost ([`LostReason::Forked`]), and calls on the parent's
//!   clients fail. The child can connect a new client. On SQLite and ZooKeeper, this works only if
//!   the parent had not connected before the fork.
//! - distlock fails safe: a lock that it cannot confirm is reported lost, never held. An
//!   unconfirmed release is an error of [`LockGuard::unlock`].
//! - Every future can be dropped at any await point, and every guard on any thread. After the drop
//!   of a guard, or of a future that acquires a lock, the client deletes the key in the background.
//!
//! A process can pause at any instruction and resume after its lock's TTL has passed. A lock alone
//! cannot prevent that process from writing once more to another system. If a late write would do
//! harm, let that system check the fencing token.
//!
//! # Features
//!
//! Only `tls` is on by default. `memory://name`, for unit tests, is always available: see
//! [`memory`]. The feature `sqlite` needs a C compiler to build, and `etcd` needs [`protoc`]. For
//! stores that have servers, `tls`, `tls-ring` and `zookeeper-tls` need a C compiler, too. Without
//! `tls` and `tls-ring`, distlock refuses TLS with [`Error::InvalidArgument`] before it sends
//! anything.
//!
//! - `tls`: TLS with rustls and `aws-lc-rs`. The feature adds no crate to a program that uses only
//!   `memory://` or SQLite.
//! - `tls-ring`: TLS with `ring` in place of `aws-lc-rs`. Turn `tls` off with
//!   `default-features = false`: if both are on, distlock uses `aws-lc-rs`. If the program has
//!   installed a default provider for rustls, distlock uses that provider. Otherwise, distlock may
//!   install its own.
//! - `etcd`: URLs such as `etcd://h1:2379,h2:2379`.
//! - `zookeeper`: URLs such as `zk://h1:2181,h2:2181`.
//! - `mysql`: URLs such as `mysql://user@h/database`: see [MySQL and MariaDB][mysql].
//! - `postgres`: URLs such as `postgres://user@h/database`: see [PostgreSQL][postgresql].
//! - `redis`: URLs such as `redis://h:6379/0`, for Redis 7 and later and Valkey 7.2 and later: see
//!   [Redis and Valkey][redis]. With `?bridge=plain` or `?bridge=redisson`, mutexes also exclude
//!   other libraries' locks: see [Other locks on Redis][bridge].
//! - `redlock`: URLs such as `redlock://h1,h2,h3,h4,h5`, or `redlocks://` for TLS, for independent
//!   Redis or Valkey servers. Redlock provides only mutexes, grants them in no particular order,
//!   and depends on the servers' clocks: see [Redlock].
//! - `sqlite`: URLs such as `sqlite:///path/to/a/file`, for processes on one host; Linux only: see
//!   [SQLite][sqlite].
//! - `tokio-postgres-0_7`, `mysql_async-0_37` and `rusqlite-0_42`: `check` and `unlock` in the
//!   modules `postgres`, `mysql` and `sqlite`, which take these drivers' own types.
//! - `sqlx-0_9` and `diesel-2`: with `postgres`, `mysql` or `sqlite`, the modules `sqlx_0_9` and
//!   `diesel_2`, which check and release a lock in transactions of these libraries. In a program
//!   that also uses their SQLite drivers, cargo chooses an older `rusqlite` for the feature
//!   `sqlite`: with sqlx 0.9, `rusqlite` 0.39 with SQLite 3.51. With `postgres` or `mysql`,
//!   `sqlx-0_9` builds sqlx's driver for that store, and a client can use a sqlx pool: see
//!   `Builder::postgres_pool` and `Builder::mysql_pool`.
//! - `deadpool-postgres-0_14` and `bb8-postgres-0_9`: `Builder::postgres_pool` accepts the pools of
//!   these libraries. With `mysql_async-0_37`, `Builder::mysql_pool` accepts a pool of
//!   `mysql_async`.
//! - `tokio-util-0_7`: the method `cancellation_token` of [`LockGuard`]. The method returns a
//!   `CancellationToken` of the crate `tokio-util`, which is cancelled when the lock is lost or
//!   released.
//! - `blocking`: the same API for threads, without `async`.
//! - `zookeeper-sasl`: SASL (DIGEST-MD5) on ZooKeeper: see [`Builder::sasl`].
//! - `zookeeper-tls`: TLS on ZooKeeper, including the features `tls` and `zookeeper`. This feature
//!   always builds `aws-lc-rs`, even with `tls-ring`.
//! - `serde`: a [`FencingToken`] is serialized and deserialized as a number.
//! - `metrics`: durations of calls, counts of held and lost locks, and other metrics, for the
//!   program's recorder of the crate [`metrics`].
//! - `tracing`: the spans `distlock.acquire` and `distlock.hold`, and log events such as warnings
//!   about losses, through the crate [`tracing`]. [Metrics and logs][metrics] lists all metrics,
//!   spans and events.
//!
//! # Minimum Rust version
//!
//! Rust 1.89, and 1.94 with `sqlx-0_9`. Only a new minor version raises this minimum, and only to a
//! Rust release that is at least six months old.
//!
//! # Further reading
//!
//! - [Guide](guide): from a first lock to Kubernetes. [Choosing a primitive and a store][choosing]
//!   compares the stores and the primitives, and describes when no lock is needed.
//! - [Guarantees][guarantees]: what each primitive promises, and how it is tested.
//! - [Operations][operations]: a runbook for stuck locks, troubleshooting, the TTL, passwords and
//!   certificates, capacity, metrics, and a page for each store.
//! - [Performance][performance]: measurements, compared with other locks.
//! - [Architecture][architecture]: the code, and the life of a lock in ten steps.
//! - [How to add a store][adding-a-store], for developers who extend distlock.
//!
//! [guarantees]: https://github.com/distlock/distlock/blob/main/docs/design/guarantees.md
//! [choosing]: guide::choosing
//! [redlock]: https://github.com/distlock/distlock/blob/main/docs/stores/redlock.md
//! [postgresql]: https://github.com/distlock/distlock/blob/main/docs/stores/postgresql.md
//! [mysql]: https://github.com/distlock/distlock/blob/main/docs/stores/mysql.md
//! [bridge]: https://github.com/distlock/distlock/blob/main/docs/stores/redis-bridge.md
//! [redis]: https://github.com/distlock/distlock/blob/main/docs/stores/redis.md
//! [sqlite]: https://github.com/distlock/distlock/blob/main/docs/stores/sqlite.md
//! [metrics]: https://github.com/distlock/distlock/blob/main/docs/ops/metrics.md
//! [operations]: https://github.com/distlock/distlock/blob/main/docs/ops/README.md
//! [performance]: https://github.com/distlock/distlock/blob/main/docs/design/performance.md
//! [architecture]: https://github.com/distlock/distlock/blob/main/docs/design/architecture.md
//! [adding-a-store]: https://github.com/distlock/distlock/blob/main/docs/design/adding-a-store.md
//! [`metrics`]: https://docs.rs/metrics
//! [`tracing`]: https://docs.rs/tracing
//! [`protoc`]: https://protobuf.dev/installation/
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
mod client;
#[cfg(all(feature = "diesel-2", any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
pub mod diesel_2;
mod error;
#[cfg(feature = "etcd")]
pub mod etcd;
mod fencing;
#[cfg(doc)]
pub mod guide;
mod lost;
#[cfg(feature = "mysql")]
pub mod mysql;
pub mod optimistic;
#[cfg(feature = "postgres")]
pub mod postgres;
mod primitives;
mod queue;
#[cfg(feature = "redis")]
pub mod redis;
mod runtime;
mod session;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(all(feature = "sqlx-0_9", any(feature = "mysql", feature = "postgres", feature = "sqlite")))]
pub mod sqlx_0_9;
mod store_kind;
mod telemetry;
#[cfg(feature = "zookeeper")]
pub mod zookeeper;

pub use backend::{
    credentials::Credentials,
    durability::{Durability, FailoverBehavior},
    memory,
    tls::Tls,
};
pub use client::{Builder, Client, Health, MultiLock};
pub use error::{Error, Result};
pub use fencing::{FencingGate, FencingToken, StaleToken};
pub use lost::{Lost, LostReason};
pub use primitives::{
    election::Election,
    guard::LockGuard,
    guarded_write::Write,
    leader::{Leader, Observe},
    leadership::{Leadership, LeadershipHandle},
    lock_handle::LockHandle,
    lock_info::LockInfo,
    multi_lock::MultiLockGuard,
    mutex::Mutex,
    queue_entry::QueueEntry,
    queue_watch::QueueWatch,
    reentrant::{ReentrantGuard, ReentrantMutex},
    release_request::ReleaseRequest,
    rwlock::{ReadGuard, RwLock, WriteGuard},
    semaphore::{Permit, Semaphore},
    viewer::LockKind,
};
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub use primitives::{
    sql_check::{CheckError, SqlCheck, SqlDialect, SqlParameter},
    sql_release::SqlRelease,
};

pub use store_kind::StoreKind;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
