//! Locks of other libraries on Redis: one key that only one client can create, or Redisson's hash
//! and channel.

use std::time::Duration;

use futures_util::{
    future::join_all,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{
    AsyncConnectionConfig, Client, Cmd, PushInfo, PushKind, Script, aio::MultiplexedConnection,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{
    Result,
    backend::{Backend, url_of},
    recipe::ask,
    task::Subject,
};

/// No hold is as long as this.
const TTL_MS: u64 = 300_000;
/// rslock's settings: after this number of attempts the next one follows at once; after each other
/// one, a sleep of less than this.
const TIMES: u32 = 3;
const DELAY_MS: u64 = 200;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) end return 0";
/// Redisson's script: returns the remaining time, or nothing if the lock was granted.
const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then \
                    redis.call('HINCRBY', KEYS[1], ARGV[1], 1) \
                    redis.call('PEXPIRE', KEYS[1], ARGV[2]) return nil end \
                    return redis.call('PTTL', KEYS[1])";
const GIVE_BACK: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end \
                         redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], 0) return 1";

/// Clones share the connection.
pub(crate) async fn connect(server: &str) -> Result<MultiplexedConnection> {
    Ok(open(server, None).await?)
}

/// Connects to each of the servers.
pub(crate) async fn connect_all(
    servers: &[String],
    pushes: Option<mpsc::UnboundedSender<PushInfo>>,
) -> Result<Vec<MultiplexedConnection>> {
    let all = servers.iter().map(|server| open(server, pushes.clone()));
    Ok(join_all(all).await.into_iter().collect::<redis::RedisResult<_>>()?)
}

/// Counts requests, unless a single server counts them itself.
fn count(connections: &[MultiplexedConnection]) {
    if connections.len() > 1 {
        ask(connections.len());
    }
}

/// Queries all at once, and waits until more than half of them have succeeded.
pub(crate) async fn on_most(connections: &mut [MultiplexedConnection], asked: &Cmd) -> Result<()> {
    let most = connections.len() / 2 + 1;
    count(connections);
    let all = connections.iter_mut().map(|connection| asked.query_async::<()>(connection));
    let mut answers = all.collect::<FuturesUnordered<_>>().take(most);
    while let Some(answer) = answers.next().await {
        answer?;
    }
    Ok(())
}

async fn open(
    server: &str,
    pushes: Option<mpsc::UnboundedSender<PushInfo>>,
) -> redis::RedisResult<MultiplexedConnection> {
    let url = format!("{}?protocol=resp3", url_of(Backend::Redis, &[server.to_owned()]));
    let mut config = AsyncConnectionConfig::new().set_response_timeout(None);
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// One contender's lock, on its own connections: more than half of the servers have to agree.
pub(crate) struct Tries {
    manner: Manner,
    connections: Vec<MultiplexedConnection>,
    key: String,
    value: String,
    /// Undoes a failed attempt.
    release: Script,
}

enum Manner {
    /// `SET NX PX`, and a sleep.
    Every(Duration),
    /// rslock's, which is Redlock.
    Rslock,
    /// Waiters are all notified through a channel.
    Redisson { pushes: mpsc::UnboundedReceiver<PushInfo>, take: Script },
}

impl Tries {
    pub(crate) async fn open(subject: Subject, servers: &[String], key: String) -> Result<Self> {
        let (heard, pushes) = mpsc::unbounded_channel();
        let connections = connect_all(servers, Some(heard)).await?;
        let (manner, release) = match (subject, subject.pause()) {
            (Subject::Rslock, _) => (Manner::Rslock, RELEASE),
            (Subject::Redisson, _) => {
                (Manner::Redisson { pushes, take: Script::new(TAKE) }, GIVE_BACK)
            }
            (_, Some(pause)) => (Manner::Every(pause), RELEASE),
            _ => return Err("this is no loop".into()),
        };
        let value = format!("{:032x}", fastrand::u128(..));
        Ok(Self { manner, connections, key, value, release: Script::new(release) })
    }

    pub(crate) async fn lock(&mut self) -> Result<()> {
        match &self.manner {
            Manner::Every(pause) => {
                let pause = *pause;
                while !self.set().await? {
                    sleep(pause).await;
                }
            }
            Manner::Rslock => {
                let mut tries = 0;
                while !self.set().await? {
                    self.release().await?;
                    tries += 1;
                    if tries % TIMES > 0 {
                        sleep(Duration::from_millis(fastrand::u64(..DELAY_MS))).await;
                    }
                }
            }
            Manner::Redisson { .. } => self.wait().await?,
        }
        Ok(())
    }

    async fn set(&mut self) -> Result<bool> {
        let mut set = redis::cmd("SET");
        set.arg(&self.key).arg(&self.value).arg("NX").arg("PX").arg(TTL_MS);
        count(&self.connections);
        let all = self.connections.iter_mut();
        let all = all.map(|connection| set.query_async::<Option<String>>(connection));
        let set = join_all(all).await.into_iter().collect::<redis::RedisResult<Vec<_>>>()?;
        Ok(set.iter().flatten().count() > set.len() / 2)
    }

    /// Tries, subscribes, tries again, and then after each notification.
    async fn wait(&mut self) -> Result<()> {
        let channel = self.channel();
        let Self { manner, connections, key, value, .. } = self;
        let (Manner::Redisson { pushes, take }, [connection]) = (manner, &mut connections[..])
        else {
            return Err("no channel".into());
        };
        let mut take = take.key(&*key);
        let take = take.arg(&*value).arg(TTL_MS);
        let left: Option<u64> = take.invoke_async(connection).await?;
        if left.is_none() {
            return Ok(());
        }
        connection.subscribe(&channel).await?;
        while let Some(left) = take.invoke_async::<Option<u64>>(connection).await? {
            let notification = async {
                while let Some(push) = pushes.recv().await {
                    if push.kind == PushKind::Message {
                        break;
                    }
                }
            };
            let _ = timeout(Duration::from_millis(left), notification).await;
        }
        connection.unsubscribe(&channel).await?;
        while pushes.try_recv().is_ok() {}
        Ok(())
    }

    fn channel(&self) -> String {
        format!("redisson_lock__channel:{{{}}}", self.key)
    }

    async fn release(&mut self) -> Result<bool> {
        let mut release = self.release.key(&self.key);
        release.key(self.channel()).arg(&self.value);
        count(&self.connections);
        let all = self.connections.iter_mut();
        let all = all.map(|connection| release.invoke_async::<u64>(connection));
        let released = join_all(all).await.into_iter().collect::<redis::RedisResult<Vec<_>>>()?;
        Ok(released.iter().sum::<u64>() as usize > released.len() / 2)
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        if self.release().await? { Ok(()) } else { Err("the lock was not held".into()) }
    }
}
