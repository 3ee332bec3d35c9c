//! ZooKeeper's parts that need no driver.

#[path = "../../../../src/backend/zookeeper/tags.rs"]
pub(crate) mod tags;

/// The names of nodes. The library's module needs the driver for the rest.
mod names {
    pub(super) fn is_mark_in(name: &str, czxid: i64) -> bool {
        name.starts_with(&format!("{czxid:x}-"))
    }
}
#[path = "../scenarios/zookeeper.rs"]
pub mod scenarios;
