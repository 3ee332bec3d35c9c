//! What users do in transactions of their own.

#[cfg(feature = "sqlite")]
use crate::common::accounts;
use crate::{
    common::{cases::rows, cases_for, postgres::Postgres},
    postgres::tables::Database,
};

cases_for! { Postgres, beside_others,
    checked::writes_of_one_who_was_stopped_are_refused_though_nobody_came,
    checked::a_session_that_is_over_by_the_clock_does_not_do,
    checked::every_guard_can_be_checked,
    checked::a_transaction_that_has_checked_keeps_the_lock_until_it_ends,
    checked::a_transaction_that_has_checked_keeps_the_entry,
    checked::one_query_checks_several_locks,
    checked::guards_of_other_stores_are_refused_by_name,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_lose_nothing() {
    let database = Database::new().await;
    rows::versions_lose_nothing(&database.url).await;
    database.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_on_row_locks_tells_the_truth() {
    let database = Database::new().await;
    rows::the_page_tells_the_truth("postgres", &database.url).await;
    database.end().await;
}

/// The example is built with SQLite.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn money_is_lost_without_the_check_alone() {
    let database = Database::new().await;
    accounts::example_loses_money_without_the_check_alone(Some(&database.url)).await;
    database.end().await;
}
