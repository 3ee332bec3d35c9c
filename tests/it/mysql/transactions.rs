//! What users do in transactions of their own.

use distlock::optimistic::updated;
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};

use crate::{
    common::{
        cases_for,
        database::{Database, Tables},
        database_cases,
        mysql::Mysql,
    },
    mysql::tables::Own,
};

cases_for! { Mysql, beside_others,
    checked::writes_of_one_who_was_stopped_are_refused_though_nobody_came,
    checked::a_session_that_is_over_by_the_clock_does_not_do,
    checked::every_guard_can_be_checked,
    checked::a_transaction_that_has_checked_keeps_the_lock_until_it_ends,
    checked::a_transaction_that_has_checked_keeps_the_entry,
    checked::one_query_checks_several_locks,
    checked::guards_of_other_stores_are_refused_by_name,
}

database_cases! { Own,
    rows::versions_lose_nothing,
    rows::the_page_on_row_locks_tells_the_truth,
}

// The example is built with SQLite.
#[cfg(feature = "sqlite")]
database_cases! { Own, accounts::money_is_lost_without_the_check_alone }

/// What a driver makes of an update that finds its row is the same, as the version is raised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn found_rows_are_changed_rows_where_the_version_is_raised() {
    let database = Own::new().await;
    database.ask("CREATE TABLE a (id INT PRIMARY KEY, version INT)").await;
    database.ask("INSERT INTO a VALUES (1, 0)").await;
    for found in [false, true] {
        let options = Opts::from_url(database.url()).expect("a URL");
        let options = OptsBuilder::from_opts(options).client_found_rows(found);
        let mut own = Conn::new(options).await.expect("connected");
        let mut update = async |set: &str| {
            let sql = format!("UPDATE a SET version = {set} WHERE id = 1");
            own.query_drop(sql).await.expect("updated");
            updated(own.affected_rows())
        };
        assert_eq!(update("version + 1").await, Ok(()));
        assert_eq!(update("version").await.is_ok(), found, "nothing changes");
        own.disconnect().await.expect("closed");
    }
    database.end().await;
}
