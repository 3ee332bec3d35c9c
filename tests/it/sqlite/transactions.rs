//! Users' own transactions.

use crate::common::{
    cases::accounts::example_loses_money_only_without_the_check,
    cases_for,
    database::Database,
    database_cases,
    sqlite::{Folder, Sqlite, dial},
};

// `processes.rs` covers other clients while a transaction is open.
cases_for! { Sqlite, beside_others,
    checked::writes_of_a_stopped_holder_without_successor_are_refused,
    checked::expired_session_fails_the_check,
    checked::every_guard_can_be_checked,
    checked::guards_of_other_stores_are_refused_by_name,
    unlock_sql::commit_releases_the_lock_and_applies_the_writes,
    unlock_sql::waiters_of_the_same_client_are_served,
    unlock_sql::rolled_back_release_is_made_in_the_background,
    unlock_sql::unused_unlock_statement_is_followed_by_a_release,
    unlock_sql::release_that_is_dropped_early_waits_for_the_transaction,
    unlock_sql::statement_of_an_evicted_holder_affects_no_row,
    unlock_sql::each_driver_releases,
    unlock_sql::max_hold_ends_a_hold_that_no_transaction_releases,
}

/// A file in WAL mode, as distlock creates it.
struct Own {
    _folder: Folder,
    url: String,
}

impl Database for Own {
    async fn new() -> Self {
        let folder = Folder::new();
        let mode = "PRAGMA journal_mode = WAL";
        let wal = dial(&folder.path("own.db")).query_row(mode, [], |row| row.get::<_, String>(0));
        assert_eq!(wal.as_deref(), Ok("wal"));
        Self { url: folder.url("own.db"), _folder: folder }
    }

    fn url(&self) -> &str {
        &self.url
    }

    async fn end(self) {}
}

database_cases! { Own,
    rows::versions_lose_nothing,
    rows::page_on_row_locks_matches_the_databases,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_is_lost_only_without_the_check() {
    example_loses_money_only_without_the_check(None).await;
}
