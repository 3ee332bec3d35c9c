//! The guide to this version of distlock.
//!
//! - [Quick start](quick_start)
//! - [Primitives](primitives)
//! - [Choosing a primitive and a store](choosing)
//! - [Fencing](fencing)
//! - [Errors and retries](errors)
//! - [Leader election](leader_election)
//! - [Scheduled jobs](scheduled_jobs)
//! - [Locking rows](row_locks)
//! - [Testing](testing)
//! - [Probes, shutdown and fork](shutdown)
//! - [Kubernetes](kubernetes)
//! - [The command `distlock`](command)
//!
//! The repository has the pages about [stores, operations, migration and design].
//!
//! [stores, operations, migration and design]:
//! https://github.com/distlock/distlock/blob/main/docs/README.md

// `DISTLOCK_BLESS=1 cargo test --test docs` writes this file and guide.md, which
// redefines the relative links of the pages.

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/command.md")]
pub mod command {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/errors.md")]
pub mod errors {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/fencing.md")]
pub mod fencing {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/kubernetes.md")]
pub mod kubernetes {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/leader-election.md")]
pub mod leader_election {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/primitives.md")]
pub mod primitives {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/quick-start.md")]
pub mod quick_start {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/row-locks.md")]
pub mod row_locks {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/scheduled-jobs.md")]
pub mod scheduled_jobs {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/shutdown.md")]
pub mod shutdown {}

#[doc = include_str!("guide.md")]
#[doc = include_str!("../docs/guide/testing.md")]
pub mod testing {}
