//! An sqlx transaction that commits only while the lock is held.
//!
//! `cargo run --bin check` in this folder needs no server: the locks and the data are in one SQLite
//! file.

use std::error::Error;

use distlock::{Client, LockGuard, sqlx_0_9::check};
use sqlx::{Connection, SqliteConnection, query, query_scalar};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("distlock-check-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let url = format!("sqlite://{}/bank.db", folder.display());
    let client = Client::connect(&url).await?;
    let mut db = SqliteConnection::connect(&url).await?;
    query("CREATE TABLE account AS SELECT 100 AS balance").execute(&mut db).await?;
    let guard = client.mutex("account").lock().await?;
    withdraw(&guard, &mut db).await?;
    client.evict(guard.key()).await?; // by an operator
    if let Err(error) = withdraw(&guard, &mut db).await {
        println!("{error}");
    }
    let balance: i64 = query_scalar("SELECT balance FROM account").fetch_one(&mut db).await?;
    println!("balance: {balance}");
    client.close().await?;
    Ok(std::fs::remove_dir_all(folder)?)
}

async fn withdraw(guard: &LockGuard, db: &mut SqliteConnection) -> Result<(), Box<dyn Error>> {
    let mut transaction = db.begin_with("BEGIN IMMEDIATE").await?;
    check(guard, &mut transaction).await?; // after an error, the drop rolls back
    query("UPDATE account SET balance = balance - 10").execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}
