//! Compiles the Rust code of the migration pages: `cargo test --doc` tests it as this crate's docs.
//! The library cannot include these pages, because its package contains only the guide.

#![cfg(doctest)]

#[doc = include_str!("../../../docs/migrate/advisory-locks.md")]
mod advisory_locks {}

#[doc = include_str!("../../../docs/migrate/curator.md")]
mod curator {}

#[doc = include_str!("../../../docs/migrate/etcdctl.md")]
mod etcdctl {}

#[doc = include_str!("../../../docs/migrate/redis-py.md")]
mod redis_py {}

#[doc = include_str!("../../../docs/migrate/redisson.md")]
mod redisson {}

#[doc = include_str!("../../../docs/migrate/shedlock.md")]
mod shedlock {}
