//! How others lock with Redis: one key that only one can make, or Redisson's hash and channel.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, PushInfo, PushKind, Script, aio::MultiplexedConnection,
};
use tokio::{
    sync::mpsc,
    time::{sleep, timeout},
};

use crate::{Result, backend::Backend, task::Subject};

/// Nobody holds it for so long.
const TTL_MS: u64 = 300_000;
/// rslock's own: of so many tries the last one is followed by the next at once, and each other one
/// by a sleep of less than this.
const TIMES: u32 = 3;
const DELAY_MS: u64 = 200;

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
                       return redis.call('DEL', KEYS[1]) end return 0";
/// Redisson's: the time that is left, or nothing if it is ours now.
const TAKE: &str = "if redis.call('EXISTS', KEYS[1]) == 0 then \
                    redis.call('HINCRBY', KEYS[1], ARGV[1], 1) \
                    redis.call('PEXPIRE', KEYS[1], ARGV[2]) return nil end \
                    return redis.call('PTTL', KEYS[1])";
const GIVE_BACK: &str = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end \
                         redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], 0) return 1";

/// Clones of it are of the same one.
pub(crate) async fn connect(servers: &[String]) -> Result<MultiplexedConnection> {
    Ok(open(servers, None).await?)
}

async fn open(
    servers: &[String],
    pushes: Option<mpsc::UnboundedSender<PushInfo>>,
) -> redis::RedisResult<MultiplexedConnection> {
    let url = format!("{}?protocol=resp3", Backend::Redis.url_of(servers));
    let mut config = AsyncConnectionConfig::new().set_response_timeout(None);
    if let Some(pushes) = pushes {
        config = config.set_push_sender(pushes);
    }
    Client::open(url)?.get_multiplexed_async_connection_with_config(&config).await
}

/// One contender's lock, on a connection of its own.
pub(crate) struct Tries {
    manner: Manner,
    connection: MultiplexedConnection,
    key: String,
    value: String,
    /// Who has tried in vain gives back what there may be.
    release: Script,
}

enum Manner {
    /// `SET NX PX`, and a sleep.
    Every(Duration),
    /// rslock's, which is Redlock on one server.
    Rslock,
    /// Who waits is told by a channel, with all others.
    Redisson { pushes: mpsc::UnboundedReceiver<PushInfo>, take: Script },
}

impl Tries {
    pub(crate) async fn open(subject: Subject, servers: &[String], key: String) -> Result<Self> {
        let (heard, pushes) = mpsc::unbounded_channel();
        let connection = open(servers, Some(heard)).await?;
        let (manner, release) = match (subject, subject.pause()) {
            (Subject::Rslock, _) => (Manner::Rslock, RELEASE),
            (Subject::Redisson, _) => {
                (Manner::Redisson { pushes, take: Script::new(TAKE) }, GIVE_BACK)
            }
            (_, Some(pause)) => (Manner::Every(pause), RELEASE),
            _ => return Err("this is no loop".into()),
        };
        let value = format!("{:032x}", fastrand::u128(..));
        Ok(Self { manner, connection, key, value, release: Script::new(release) })
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
        let set: Option<String> = set.query_async(&mut self.connection).await?;
        Ok(set.is_some())
    }

    /// Tries, listens, tries again, and then each time that it is told.
    async fn wait(&mut self) -> Result<()> {
        let channel = self.channel();
        let Self { manner, connection, key, value, .. } = self;
        let Manner::Redisson { pushes, take } = manner else { return Err("no channel".into()) };
        let mut take = take.key(&*key);
        let take = take.arg(&*value).arg(TTL_MS);
        let left: Option<u64> = take.invoke_async(connection).await?;
        if left.is_none() {
            return Ok(());
        }
        connection.subscribe(&channel).await?;
        while let Some(left) = take.invoke_async::<Option<u64>>(connection).await? {
            let told = async {
                while let Some(push) = pushes.recv().await {
                    if push.kind == PushKind::Message {
                        break;
                    }
                }
            };
            let _ = timeout(Duration::from_millis(left), told).await;
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
        let released: u64 = release.invoke_async(&mut self.connection).await?;
        Ok(released == 1)
    }

    pub(crate) async fn unlock(&mut self) -> Result<()> {
        if self.release().await? { Ok(()) } else { Err("it was not locked".into()) }
    }
}
