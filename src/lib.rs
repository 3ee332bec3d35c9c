//! Distributed locks on etcd, ZooKeeper, PostgreSQL, MySQL, Redis and SQLite, for tokio and for
//! threads.
//!
//! Name a lock, get a guard. While the guard says that it is valid, no other process on any machine
//! holds that lock.
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
//!     guard.unlock().await?; // dropping the guard does it in the background
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
//! - **One at a time**: [`Mutex`], by [`Client::mutex`]. Its guard is a [`LockGuard`].
//! - **Many readers or one writer**: [`RwLock`], by [`Client::rw_lock`]. A writer can become a
//!   reader without a gap.
//! - **At most n at a time**: [`Semaphore`], by [`Client::semaphore`].
//! - **One leader, and others who follow it**: [`Election`], by [`Client::election`].
//! - **Several names, all or none**: [`Client::lock_all`].
//! - **A write to the same store, only while the lock is held**: [`LockGuard::put`],
//!   [`delete`](LockGuard::delete) and [`write`](LockGuard::write).
//! - **A transaction of your own, in the database that the lock is in**: `LockGuard::sql`, and
//!   `check` in the modules `postgres`, `mysql` and `sqlite`.
//! - **A resource of your own that refuses late writes**: [`FencingGate`].
//! - **One row, and no lock at all**: [`optimistic`].
//! - **Who holds, who waits, and please let go**: [`Mutex::queue`], [`Mutex::watch_queue`] and
//!   [`Mutex::request_release`].
//!
//! Everything waits in a queue in the store, first come, first served. Each call that takes a lock
//! comes in three kinds: one that waits, `try_…` that does not, and `…_timeout` that waits for so
//! long.
//!
//! # What is guaranteed
//!
//! - Between the return of `lock()` and the guard's deadline no other guard of that lock is valid
//!   anywhere. The deadline lies before the time when the store can give the lock away. It counts
//!   from when the last answered keepalive was sent.
//! - A loss is told: [`LockGuard::is_valid`] looks at the clock, [`LockGuard::lost`] resolves, and
//!   [`LockGuard::run`] stops the work. If somebody deletes the key by hand, the next waiter is
//!   granted at once, and the holder is told within a bound.
//! - The [`FencingToken`] of each grant is higher than all before it.
//! - A forked child holds no locks, and its parent keeps them. In the child the parent's guards are
//!   lost ([`LostReason::Forked`]), and the parent's clients fail. The child can connect a new
//!   client, except on SQLite and ZooKeeper, which refuse it.
//! - What is unknown counts as lost, never as held. An unconfirmed release is an error.
//! - Every future can be dropped at any await, and every guard on any thread: what was written to
//!   the store is taken back.
//!
//! A process can stop at any instruction and go on after its lock's TTL. No lock service can
//! prevent that it then writes once more: where that is harmful, let the resource check the token.
//! The whole text is in [guarantees].
//!
//! # Features
//!
//! None is on by default. `memory://name`, for unit tests, is always there: see [`memory`].
//!
//! - `etcd`: URLs like `etcd://h1:2379,h2:2379`. Building it needs [`protoc`].
//! - `zookeeper`: URLs like `zk://h1:2181,h2:2181`.
//! - `mysql`: URLs like `mysql://user:password@h/database`, of MySQL and MariaDB: see
//!   [`operations`][operations]. TLS is done by rustls' default provider of the process; where none
//!   is installed, the first client with TLS installs aws-lc-rs.
//! - `postgres`: URLs like `postgres://user:password@h/database`: see [`operations`][operations].
//! - `redis`: URLs like `redis://user:password@h:6379/0`, of Redis 7, Valkey 7.2 and later; with
//!   `?bridge=plain` or `?bridge=redisson` mutexes exclude other libraries' locks, too: see
//!   [`operations`][operations].
//! - `redlock`: URLs like `redlock://user:password@h1,h2,h3,h4,h5`, and `redlocks://` by TLS, of
//!   independent servers of Redis or Valkey; only mutexes, and waiters are not served in order: see
//!   [`redlock`][redlock]. It is not part of `redis`, because a program should name the weaker
//!   guarantees that it chooses.
//! - `sqlite`: URLs like `sqlite:///path/of/a/file`, for the processes of one host. Building it
//!   needs a C compiler: see [`operations`][operations].
//! - `tokio-postgres-0_7`, `mysql_async-0_37` and `rusqlite-0_42`: `check` and `unlock` in
//!   `postgres`, `mysql` and `sqlite`, which take these drivers' own types. A feature has the
//!   driver's version in its name, so that a new version of the driver breaks no program. Beside
//!   sqlx or diesel with their SQLite, `rusqlite` is an older one.
//! - `sqlx-0_9` and `diesel-2`: a lock is checked and released in transactions of these libraries,
//!   by the modules of these names. `sqlx-0_9` needs Rust 1.94. With their SQLite in the same
//!   program, cargo chooses an older SQLite for `sqlite`, too: 3.51 beside sqlx 0.9. With
//!   `postgres` or `mysql`, `sqlx-0_9` builds sqlx's driver of that store, and a client can use its
//!   pool: see `Builder::postgres_pool` and `Builder::mysql_pool`.
//! - `deadpool-postgres-0_14` and `bb8-postgres-0_9`: `Builder::postgres_pool` takes the pools of
//!   these libraries. With `mysql_async-0_37`, `Builder::mysql_pool` takes that of `mysql_async`.
//! - `tokio-util-0_7`: [`LockGuard`] has `cancellation_token`, a `CancellationToken` of the crate
//!   `tokio-util` that is cancelled when the lock is lost.
//! - `blocking`: the same for threads.
//! - `zookeeper-sasl`: ZooKeeper's SASL (DIGEST-MD5): see [`Builder::sasl`].
//! - `serde`: a [`FencingToken`] is written and read as a number.
//! - `metrics`: how long calls and requests take, what is held, awaited and lost, to whatever
//!   recorder the program has for the crate [`metrics`].
//! - `tracing`: the spans `distlock.acquire` and `distlock.hold`, and warnings of what was lost, by
//!   the crate [`tracing`]. [Operations][operations] has what both tell.
//!
//! # Minimum Rust version
//!
//! Rust 1.89, and 1.94 with `sqlx-0_9`. Only a minor version raises this, to a Rust that is at
//! least six months old.
//!
//! # Read on
//!
//! - [Guarantees][guarantees]: what each primitive promises, and how it is tested.
//! - [Choosing][choosing]: which store, which primitive, or no lock at all.
//! - [Operations][operations]: which store, which TTL, other clients in the queue, requests.
//! - [Performance][performance]: figures beside other locks.
//! - [Architecture][architecture]: the code, and the life of a lock in ten steps.
//! - [Backends][backends]: how to add a store.
//!
//! [guarantees]: https://github.com/distlock/distlock/blob/main/docs/guarantees.md
//! [choosing]: https://github.com/distlock/distlock/blob/main/docs/choosing.md
//! [redlock]: https://github.com/distlock/distlock/blob/main/docs/redlock.md
//! [operations]: https://github.com/distlock/distlock/blob/main/docs/operations.md
//! [performance]: https://github.com/distlock/distlock/blob/main/docs/performance.md
//! [architecture]: https://github.com/distlock/distlock/blob/main/docs/architecture.md
//! [backends]: https://github.com/distlock/distlock/blob/main/docs/backends.md
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

/// Runs the code of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
