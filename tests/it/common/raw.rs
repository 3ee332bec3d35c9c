//! Native clients of the stores, which write under the condition that a guard provides.

use distlock::LockGuard;
use distlock_testkit::backend::Backend;

pub(crate) enum Raw {
    #[cfg(feature = "etcd")]
    Etcd(Box<etcd_client::Client>),
    #[cfg(feature = "zookeeper")]
    ZooKeeper(zookeeper_client::Client),
    #[cfg(feature = "mysql")]
    Mysql(mysql_async::Conn),
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Client),
    #[cfg(feature = "redis")]
    Redis(redis::aio::MultiplexedConnection),
    Sqlite(Box<rusqlite::Connection>),
}

impl Raw {
    /// Connects to the store. On Redis Cluster each namespace may be on another server.
    #[cfg_attr(not(feature = "redis"), allow(unused_variables))]
    pub(crate) async fn connect(url: &str, namespace: &str) -> Self {
        match Backend::split(url) {
            #[cfg(feature = "etcd")]
            Some((Backend::Etcd, servers)) => {
                let client =
                    etcd_client::Client::connect(servers.split(',').collect::<Vec<_>>(), None)
                        .await;
                Self::Etcd(Box::new(client.expect("etcd replies")))
            }
            #[cfg(feature = "zookeeper")]
            Some((Backend::ZooKeeper, servers)) => {
                // The longest timeout that the servers grant, so that this session outlives the
                // pause.
                let connector = zookeeper_client::Client::connector()
                    .with_session_timeout(std::time::Duration::from_secs(20));
                Self::ZooKeeper(connector.connect(servers).await.expect("ZooKeeper replies"))
            }
            #[cfg(feature = "mysql")]
            None if url.starts_with("mysql://") => Self::Mysql(super::mysql::dial(url, None).await),
            #[cfg(feature = "postgres")]
            None if url.starts_with("postgres://") => {
                Self::Postgres(super::postgres::dial(url, None).await)
            }
            #[cfg(feature = "redis")]
            None if url.starts_with("redis://") || url.starts_with("redis+sentinel://") => {
                Self::Redis(super::redis::dial_any(url, namespace).await)
            }
            None if url.starts_with("sqlite://") => {
                let file = url.trim_start_matches("sqlite://");
                Self::Sqlite(Box::new(super::sqlite::dial(file.as_ref())))
            }
            _ => panic!("no such store: {url}"),
        }
    }

    /// Writes under the guard's condition, and returns `true` if the store accepted the write.
    /// Retries until there is a reply.
    pub(crate) async fn put(&mut self, guard: &LockGuard, key: &str, value: &str) -> bool {
        match self {
            #[cfg(feature = "etcd")]
            Self::Etcd(client) => {
                use etcd_client::{Txn, TxnOp};
                let held = distlock::etcd::compare(guard).expect("a guard of etcd's");
                let txn = Txn::new().when([held]).and_then([TxnOp::put(key, value, None)]);
                answered(async || client.txn(txn.clone()).await).await.succeeded()
            }
            #[cfg(feature = "zookeeper")]
            Self::ZooKeeper(client) => {
                use zookeeper_client::{Acls, CreateMode, Error};
                let (path, version) =
                    distlock::zookeeper::check(guard).expect("a guard of ZooKeeper's");
                let options = CreateMode::Persistent.with_acls(Acls::anyone_all());
                answered(async || {
                    let mut multi = client.new_multi_writer();
                    multi.add_check_version(path, version).expect("a path");
                    // The first write creates the node, and later writes overwrite it.
                    if client.check_stat(key).await.is_ok_and(|stat| stat.is_some()) {
                        multi.add_set_data(key, value.as_bytes(), None).expect("a path");
                    } else {
                        let (parent, _) = key.rsplit_once('/').expect("a path");
                        // If this fails, the transaction fails as well.
                        let _ = client.mkdir(parent, &options).await;
                        multi.add_create(key, value.as_bytes(), &options).expect("a path");
                    }
                    match multi.commit().await.map_err(Error::from) {
                        Ok(_) => Ok(true),
                        Err(Error::NoNode) => Ok(false),
                        Err(error) => Err(error),
                    }
                })
                .await
            }
            #[cfg(feature = "mysql")]
            Self::Mysql(client) => {
                answered(async || put_on_mysql(client, guard, key, value).await).await
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                answered(async || put_on_postgres(client, guard, key, value).await).await
            }
            #[cfg(feature = "redis")]
            Self::Redis(connection) => {
                let (queue, member) = distlock::redis::check(guard).expect("a guard of Redis'");
                let data = queue.replace(":queue", ":data");
                let mut write = redis::cmd("EVAL");
                write.arg(
                    "if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 0 end \
                     redis.call('HSET', KEYS[2], ARGV[2], ARGV[3]) return 1",
                );
                write.arg(2).arg(queue).arg(data).arg(member).arg(key).arg(value);
                answered(async || write.query_async(connection).await).await
            }
            Self::Sqlite(connection) => {
                answered(async || put_on_sqlite(connection, guard, key, value)).await
            }
        }
    }
}

impl Raw {
    /// Writes and releases the lock in one transaction. Returns `true` if the lock was held.
    pub(crate) async fn put_and_unlock(
        &mut self,
        release: &distlock::SqlRelease,
        key: &str,
        value: &str,
    ) -> bool {
        let (dir, name) = key.rsplit_once('/').expect("a path");
        match self {
            #[cfg(feature = "mysql")]
            Self::Mysql(client) => {
                use mysql_async::{TxOpts, prelude::Queryable};
                let begun = client.start_transaction(TxOpts::default()).await;
                let mut transaction = begun.expect("begun");
                let write = "REPLACE INTO distlock_data (dir, name, value) VALUES (?, ?, ?)";
                transaction.exec_drop(write, (dir, name, value)).await.expect("written");
                let unlocked = distlock::mysql::unlock(release, &mut transaction).await;
                let held = held(unlocked).expect("a reply");
                let end = match held {
                    true => transaction.commit().await,
                    false => transaction.rollback().await,
                };
                end.expect("ended");
                held
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                let transaction = client.transaction().await.expect("begun");
                let write = "INSERT INTO distlock.data (dir, name, value) VALUES ($1, $2, $3) \
                             ON CONFLICT (dir, name) DO UPDATE SET value = excluded.value";
                let written = transaction.execute(write, &[&dir, &name, &value.as_bytes()]).await;
                written.expect("written");
                let unlocked = distlock::postgres::unlock(release, &transaction).await;
                let held = held(unlocked).expect("a reply");
                let end = match held {
                    true => transaction.commit().await,
                    false => transaction.rollback().await,
                };
                end.expect("ended");
                held
            }
            Self::Sqlite(connection) => {
                use rusqlite::{TransactionBehavior::Immediate, params};
                let begun = connection.transaction_with_behavior(Immediate);
                let transaction = begun.expect("begun");
                let write = "INSERT INTO distlock_data (dir, name, value, changed) \
                             VALUES (?1, ?2, ?3, 0) \
                             ON CONFLICT (dir, name) DO UPDATE SET value = excluded.value";
                let written = transaction.execute(write, params![dir, name, value.as_bytes()]);
                written.expect("written");
                let held = held(distlock::sqlite::unlock(release, &transaction));
                let held = held.expect("a reply");
                let end = if held { transaction.commit() } else { transaction.rollback() };
                end.expect("ended");
                held
            }
            #[allow(unreachable_patterns)] // With the features of databases alone.
            _ => panic!("no SQL"),
        }
    }
}

/// Retries a request until there is a reply.
async fn answered<T, E>(mut request: impl AsyncFnMut() -> Result<T, E>) -> T
where
    E: std::error::Error,
{
    loop {
        match request().await {
            Ok(reply) => return reply,
            Err(error) => println!("no reply: {error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Returns `true` if the check found the lock held, unless the database failed.
fn held<E: std::error::Error>(checked: Result<(), distlock::CheckError<E>>) -> Result<bool, E> {
    match checked {
        Ok(()) => Ok(true),
        Err(distlock::CheckError::NotHeld { .. }) => Ok(false),
        Err(distlock::CheckError::Database(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

#[cfg(feature = "mysql")]
async fn put_on_mysql(
    client: &mut mysql_async::Conn,
    guard: &LockGuard,
    key: &str,
    value: &str,
) -> mysql_async::Result<bool> {
    use mysql_async::{TxOpts, prelude::Queryable};
    let (dir, name) = key.rsplit_once('/').expect("a path");
    let mut transaction = client.start_transaction(TxOpts::default()).await?;
    if !held(distlock::mysql::check(guard, &mut transaction).await)? {
        transaction.rollback().await?;
        return Ok(false);
    }
    let write = "REPLACE INTO distlock_data (dir, name, value) VALUES (?, ?, ?)";
    transaction.exec_drop(write, (dir, name, value)).await?;
    transaction.commit().await.map(|()| true)
}

#[cfg(feature = "postgres")]
async fn put_on_postgres(
    client: &mut tokio_postgres::Client,
    guard: &LockGuard,
    key: &str,
    value: &str,
) -> Result<bool, tokio_postgres::Error> {
    let (dir, name) = key.rsplit_once('/').expect("a path");
    let transaction = client.transaction().await?;
    if !held(distlock::postgres::check(guard, &transaction).await)? {
        transaction.rollback().await?;
        return Ok(false);
    }
    let write = "INSERT INTO distlock.data (dir, name, value) VALUES ($1, $2, $3) \
                 ON CONFLICT (dir, name) DO UPDATE SET value = excluded.value";
    transaction.execute(write, &[&dir, &name, &value.as_bytes()]).await?;
    transaction.commit().await.map(|()| true)
}

fn put_on_sqlite(
    connection: &mut rusqlite::Connection,
    guard: &LockGuard,
    key: &str,
    value: &str,
) -> rusqlite::Result<bool> {
    use rusqlite::{TransactionBehavior::Immediate, params};
    let (dir, name) = key.rsplit_once('/').expect("a path");
    let transaction = connection.transaction_with_behavior(Immediate)?;
    if !held(distlock::sqlite::check(guard, &transaction))? {
        transaction.rollback()?;
        return Ok(false);
    }
    let write = "INSERT INTO distlock_data (dir, name, value, changed) VALUES (?1, ?2, ?3, 0) \
                 ON CONFLICT (dir, name) DO UPDATE SET value = excluded.value";
    transaction.execute(write, params![dir, name, value.as_bytes()])?;
    transaction.commit().map(|()| true)
}
