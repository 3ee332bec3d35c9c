//! MySQL's parts that need no driver.

#[path = "../../../../src/backend/mysql/lockable.rs"]
pub(crate) mod lockable;
#[path = "../../../../src/backend/mysql/watches.rs"]
pub(crate) mod watches;

/// What a poll reads. The library's module also builds the query.
mod looks {
    use std::time::Duration;

    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct Seen {
        pub(super) is: String,
        pub(super) left: Option<Duration>,
        pub(super) ahead: u64,
    }
}
#[path = "../scenarios/mysql.rs"]
pub mod scenarios;
