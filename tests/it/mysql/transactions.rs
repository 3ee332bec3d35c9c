//! What users do in transactions of their own.

use distlock::optimistic::updated;
use mysql_async::{Conn, Opts, OptsBuilder, prelude::Queryable};

use crate::{
    common::{
        database::{Database, Tables},
        mysql::Mysql,
        transaction_cases,
    },
    mysql::tables::Own,
};

transaction_cases! { Mysql, Own }

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
