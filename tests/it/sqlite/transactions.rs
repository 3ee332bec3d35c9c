//! What users do in transactions of their own.

use crate::common::{
    cases::accounts::example_loses_money_without_the_check_alone,
    cases_for,
    database::Database,
    database_cases,
    sqlite::{Folder, Sqlite, dial},
};

// `processes.rs` has what becomes of the others while one is under way.
cases_for! { Sqlite, beside_others,
    checked::writes_of_one_who_was_stopped_are_refused_though_nobody_came,
    checked::a_session_that_is_over_by_the_clock_does_not_do,
    checked::every_guard_can_be_checked,
    checked::guards_of_other_stores_are_refused_by_name,
}

/// A file as distlock makes them: with a WAL.
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
    rows::the_page_on_row_locks_tells_the_truth,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_is_lost_without_the_check_alone() {
    example_loses_money_without_the_check_alone(None).await;
}
