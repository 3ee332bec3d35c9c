//! What users do in transactions of their own.

use crate::common::{
    accounts,
    cases::rows,
    cases_for,
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
fn folder() -> Folder {
    let folder = Folder::new();
    let mode = "PRAGMA journal_mode = WAL";
    let wal = dial(&folder.path("own.db")).query_row(mode, [], |row| row.get::<_, String>(0));
    assert_eq!(wal.as_deref(), Ok("wal"));
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_lose_nothing() {
    let folder = folder();
    rows::versions_lose_nothing(&folder.url("own.db")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_on_row_locks_tells_the_truth() {
    let folder = folder();
    rows::the_page_tells_the_truth("sqlite", &folder.url("own.db")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_is_lost_without_the_check_alone() {
    accounts::example_loses_money_without_the_check_alone(None).await;
}
