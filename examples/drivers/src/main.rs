//! Transfers between two accounts with sqlx and with diesel. Each transaction checks and releases
//! a lock in the same database.
//!
//! `cargo run` in this folder needs no server. With an argument such as
//! `postgres://user:password@localhost/database` or `mysql://…`, the example makes the same
//! transfers on that server with sqlx.

mod with_diesel;
mod with_sqlx;

use std::error::Error;

use distlock::{CheckError, Client};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const CREATE: &str = "CREATE TABLE distlock_example_drivers (id INT PRIMARY KEY, balance BIGINT)";
const FILL: &str = "INSERT INTO distlock_example_drivers VALUES (1, 100), (2, 100)";
const DROP: &str = "DROP TABLE IF EXISTS distlock_example_drivers";
/// The statements of a transfer.
const TRANSFER: [&str; 2] = [
    "UPDATE distlock_example_drivers SET balance = balance - 10 WHERE id = 1",
    "UPDATE distlock_example_drivers SET balance = balance + 10 WHERE id = 2",
];
const BALANCES: &str = "SELECT balance FROM distlock_example_drivers ORDER BY id";

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(url) = std::env::args().nth(1) {
        let client = Client::connect(&url).await?;
        return match url.split_once("://") {
            Some(("postgres", _)) => with_sqlx::postgres(&client, &url).await,
            Some(("mysql", _)) => with_sqlx::mysql(&client, &url).await,
            _ => Err(format!("no such database: {url}").into()),
        };
    }
    let file = std::env::temp_dir().join(format!("drivers-{}.db", std::process::id()));
    let path = file.display().to_string();
    let client = Client::connect(format!("sqlite://{path}")).await?;
    with_sqlx::sqlite(&client, &path).await?;
    with_diesel::sqlite(&client, &path).await?;
    client.close().await?;
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{path}{end}"));
    }
    Ok(())
}

/// Returns whether the lock is held, or an error if that is unknown.
fn held<E: Error + Send + Sync + 'static>(
    checked: std::result::Result<(), CheckError<E>>,
) -> Result<bool> {
    match checked {
        Ok(()) => Ok(true),
        Err(CheckError::NotHeld { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Prints the result, and checks that only work under the lock was committed.
fn report(what: &str, balances: &[i64], released: bool) -> Result<()> {
    println!("{what}: alice {} and bob {}; released: {released}", balances[0], balances[1]);
    if balances != [80, 120] || !released {
        return Err(format!("{what}: expected two transfers and a released lock").into());
    }
    Ok(())
}
