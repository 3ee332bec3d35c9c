//! Transfers with diesel on SQLite. PostgreSQL and MySQL work the same way, but use their own
//! connection types and need their C libraries.

use diesel::{
    Connection, QueryableByName, RunQueryDsl, SqliteConnection, connection::SimpleConnection,
    sql_query, sql_types::BigInt,
};
use distlock::{
    Client,
    diesel_2::{check, unlock},
};

use super::{BALANCES, CREATE, DROP, FILL, Result, TRANSFER, held, report};

#[derive(QueryableByName)]
struct Account {
    #[diesel(sql_type = BigInt)]
    balance: i64,
}

pub(crate) async fn sqlite(client: &Client, file: &str) -> Result<()> {
    let mut connection = SqliteConnection::establish(file)?;
    connection.batch_execute("PRAGMA busy_timeout = 10000")?;
    for sql in [DROP, CREATE, FILL] {
        sql_query(sql).execute(&mut connection)?;
    }
    for evicted in [false, true, false] {
        let guard = client.mutex("diesel").lock().await?;
        if evicted {
            client.evict(guard.key()).await?; // by an operator
        }
        let mut release = None;
        // An error rolls the transaction back.
        let done = connection.immediate_transaction(|connection| {
            if !held(check(&guard, connection))? {
                return Err("the lock is lost".into());
            }
            for sql in TRANSFER {
                sql_query(sql).execute(connection)?;
            }
            let release = release.insert(guard.unlock_sql()?);
            unlock(release, connection).map_err(Into::into)
        });
        let done: Result<()> = done;
        match release {
            Some(release) if done.is_ok() => release.committed(),
            _ => println!("rolled back: {done:?}"),
        }
    }
    let accounts: Vec<Account> = sql_query(BALANCES).load(&mut connection)?;
    sql_query(DROP).execute(&mut connection)?;
    let balances: Vec<_> = accounts.iter().map(|account| account.balance).collect();
    let free = client.mutex("diesel").try_lock().await?;
    report("diesel on SQLite", &balances, free.is_some())
}
