//! One server of Redis or Valkey.

use std::time::Duration;

use async_trait::async_trait;
use distlock_testkit::{Result, docker::CLOCK_OF_REDIS, framing::Framing, store::Store};
use redis::{AsyncConnectionConfig, Value, aio::MultiplexedConnection, cmd, from_redis_value};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use super::{
    Connection, Database, Rows, Setup,
    server::{Server, done},
    words::{Words, parts},
};
use crate::fault::Trouble;

/// The parts of distlock's scripts.
const LIBRARY: [&str; 4] = [
    include_str!("../../../../src/backend/redis/scripts/base.lua"),
    include_str!("../../../../src/backend/redis/scripts/entries.lua"),
    include_str!("../../../../src/backend/redis/scripts/sessions.lua"),
    include_str!("../../../../src/backend/redis/scripts/gates.lua"),
];

/// The keys of these scripts.
const KEYS: [&str; 4] = ["meta", "queue", "sessions", "data"];

/// The namespace of these keys.
pub(super) const NAMESPACE: &str = "/torture";

pub(super) const PORT: u16 = 6379;

/// The time limit of a command.
const TIME_LIMIT: Duration = Duration::from_secs(1);

/// Lua code that runs after the library's own, in one script.
#[derive(Debug)]
pub(super) struct Lines;

pub(super) static WORDS: Lines = Lines;

impl Words for Lines {
    /// Not a reply: replies are not numbered, and a lost reply makes its connection unusable.
    fn event(&self) -> Option<&'static [u8]> {
        Some(b"$7\r\nmessage\r\n")
    }

    fn nothing(&self) -> String {
        "return {}".to_owned()
    }

    fn places(&self, namespace: &str) -> String {
        format!(
            "local found = {{}}
            for _, member in ipairs(starting(QUEUE, '{namespace}/')) do
                local entry = read_entry(member)
                if entry then
                    found[#found + 1] = {{ key_of(entry), text(tonumber(entry.number)) }}
                end
            end
            return found"
        )
    }

    fn sessions(&self) -> String {
        "local found = {}
        for _, id in ipairs(call('ZRANGEBYSCORE', SESSIONS, 0, '+inf')) do
            found[#found + 1] = { id }
        end
        return found"
            .to_owned()
    }

    fn watches(&self) -> Option<String> {
        let lines = "local count = 0
            for _, member in ipairs(call('ZRANGEBYLEX', QUEUE, '[~', '+')) do
                if string.find(member, '^~%x+ w ') then count = count + 1 end
            end
            return { { text(count) } }";
        Some(lines.to_owned())
    }

    fn insert(&self, dir: &str, name: &str, text: &str) -> String {
        format!(
            "redis.call('HSET', DATA, '{dir}/{name}', '{text}')
            redis.call('ZADD', QUEUE, 0, (note_of('{dir}/{name}')))
            notify_queue('{dir}')
            return {{}}"
        )
    }

    /// The server does not count writes. The script counts how often a read returned another value.
    fn read(&self, dir: &str, name: &str) -> String {
        format!(
            "local value = redis.call('HGET', DATA, '{dir}/{name}')
            if not value then return {{}} end
            local seen, changes = META .. '-seen', META .. '-changes'
            if redis.call('HGET', seen, '{dir}/{name}') ~= value then
                redis.call('HSET', seen, '{dir}/{name}', value)
                redis.call('HINCRBY', changes, '{dir}/{name}', 1)
            end
            return {{ {{ value, redis.call('HGET', changes, '{dir}/{name}') }} }}"
        )
    }

    fn erase(&self, dir: &str, name: &str) -> String {
        format!(
            "redis.call('HDEL', DATA, '{dir}/{name}')
            redis.call('ZREM', QUEUE, (note_of('{dir}/{name}')))
            notify_queue('{dir}')
            return {{}}"
        )
    }

    fn note(&self, key: &str, text: &str) -> String {
        found(
            key,
            &format!(
                "local version = text(tonumber((value_of(entry, ''))) + 1)
                redis.call('HSET', DATA, record_of(entry), version .. ' {text}')
                if not has_record(entry) then
                    forget_entry(entry)
                    keep_entry(entry, true)
                end
                notify_queue(entry.dir)"
            ),
        )
    }

    fn evict(&self, key: &str) -> String {
        found(key, "remove(entry)")
    }
}

/// Returns a script that runs `lines` with the entry of this key, if it exists.
fn found(key: &str, lines: &str) -> String {
    let (dir, name) = parts(key);
    let (session, rest) = name.split_once('-').unwrap_or((name, ""));
    let ticket = rest.split('.').next().unwrap_or_default();
    format!(
        "local entry = own('{session}', '{dir}', '{ticket}')
        if not entry or key_of(entry) ~= '{key}' then return {{}} end
        {lines}
        return {{}}"
    )
}

#[derive(Debug)]
pub(super) struct Redis(Setup);

impl Redis {
    pub(super) async fn start(store: Store) -> Result<Self> {
        let (like, fsync) = match store {
            Store::Valkey => ("valkey", "always"),
            Store::RedisEverysec => ("redis", "everysec"),
            _ => ("redis", "always"),
        };
        // The file that is copied during writes must not be split.
        let rewrite = if store == Store::RedisEverysec { "0" } else { "100" };
        let arguments = [
            "--appendfsync",
            fsync,
            "--auto-aof-rewrite-percentage",
            rewrite,
            "--auto-aof-rewrite-min-size",
            "16mb",
        ];
        let mut setup = setup(["redis://app:apppw@", ""]);
        setup.servers.push(server(like, &arguments).await?);
        Ok(Self(setup))
    }
}

/// Returns the setup without servers.
pub(super) fn setup(around: [impl Into<String>; 2]) -> Setup {
    Setup::new(&WORDS, around, Framing::Resp)
}

/// Starts a server of the same image as `like`.
pub(super) async fn server(like: &str, arguments: &[&str]) -> Result<Server> {
    let program = if like == "redis" { "redis" } else { "valkey" };
    let program = format!("--env=SERVER={program}");
    let run = [&CLOCK_OF_REDIS[..], &["--stop-timeout=3", &program]].concat();
    Server::start(like, PORT, &run, arguments).await
}

/// Opens an operator's connection.
pub(super) async fn open(server: &Server) -> Result<MultiplexedConnection> {
    open_at(&url(server)).await
}

fn url(server: &Server) -> String {
    format!("redis://default:root@{}", server.address)
}

async fn open_at(url: &str) -> Result<MultiplexedConnection> {
    let client = redis::Client::open(url)?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Runs a command, and returns its reply.
pub(super) async fn run(server: &Server, command: &[&str]) -> Result<Value> {
    run_at(&url(server), command).await
}

pub(super) async fn run_at(url: &str, command: &[&str]) -> Result<Value> {
    let running = async {
        let mut operator = open_at(url).await?;
        Ok(cmd(command[0]).arg(&command[1..]).query_async(&mut operator).await?)
    };
    timeout(TIME_LIMIT, running).await?
}

async fn set(server: &Server, name: &str, value: &str) -> Result<()> {
    let command = ["CONFIG", "SET", name, value];
    done(|| run(server, &command)).await.map(drop)
}

/// Closes some of the clients' connections, including those for events.
pub(super) async fn sever(server: &Server) -> Result<()> {
    let Value::BulkString(list) = run(server, &["CLIENT", "LIST"]).await? else {
        return Err("unexpected reply to CLIENT LIST".into());
    };
    for line in String::from_utf8_lossy(&list).lines().filter(|line| line.contains(" user=app ")) {
        let id = line.split(' ').find_map(|word| word.strip_prefix("id=")).unwrap_or_default();
        if fastrand::bool() {
            // The connection may have ended.
            let _ = run(server, &["CLIENT", "KILL", "ID", id]).await;
        }
    }
    Ok(())
}

/// Deletes the data on the server's disk. The clock file stays.
pub(super) async fn wipe(server: &Server) -> Result<()> {
    server.go("kill").await?;
    server.on_disk("rm -rf /data/appendonlydir /data/*.rdb /data/*.aof").await
}

/// Makes trouble for one server for `time`.
pub(super) async fn strike(server: &Server, trouble: Trouble, time: Duration) -> Result<()> {
    let over = Instant::now() + time;
    match trouble {
        Trouble::ClientPause => {
            let mode = if fastrand::bool() { "ALL" } else { "WRITE" };
            let millis = time.as_millis().to_string();
            let command = ["CLIENT", "PAUSE", &millis, mode];
            done(|| run(server, &command)).await?;
            sleep(time).await;
            Ok(())
        }
        Trouble::Busy => busy(server, time).await,
        Trouble::ScriptFlush => {
            while Instant::now() < over {
                done(|| run(server, &["SCRIPT", "FLUSH"])).await?;
                sleep(Duration::from_millis(fastrand::u64(..100))).await;
            }
            Ok(())
        }
        Trouble::MemoryFull | Trouble::ReadOnly => {
            let (name, value) = match trouble {
                Trouble::MemoryFull => ("maxmemory", "1"),
                _ => ("min-replicas-to-write", "9"),
            };
            set(server, name, value).await?;
            sleep(time).await;
            set(server, name, "0").await
        }
        Trouble::Buffers => {
            set(server, "client-output-buffer-limit", "pubsub 4096 0 0").await?;
            while Instant::now() < over {
                done(|| flood(server)).await?;
                sleep(time.mul_f64(fastrand::f64() / 4.0)).await;
            }
            // The default.
            set(server, "client-output-buffer-limit", "pubsub 32mb 8mb 60").await
        }
        Trouble::Demotion => {
            // Makes it a replica of an unreachable primary. Afterwards it considers itself another
            // server.
            done(|| run(server, &["REPLICAOF", "192.0.2.1", "6379"])).await?;
            sleep(time).await;
            done(|| run(server, &["REPLICAOF", "NO", "ONE"])).await.map(drop)
        }
        Trouble::Reconnects => {
            while Instant::now() < over {
                done(|| run(server, &["CLIENT", "KILL", "USER", "app"])).await?;
                sleep(time.mul_f64(fastrand::f64() / 2.0)).await;
            }
            Ok(())
        }
        Trouble::Backup => backup(server, time).await,
        Trouble::Fsync => {
            set(server, "appendfsync", "everysec").await?;
            sleep(time).await;
            set(server, "appendfsync", "always").await
        }
        Trouble::DeadEntries => {
            let lines = format!(
                "local id = '{:x}'
                begin(id, 1000000)
                for number = 1, 10000 do
                    last = last + 1
                    add_entry('/dead/' .. text(number), last, id, 'ticket', '', '')
                end
                call('HSET', META, 'last', text(last))
                return {{}}",
                fastrand::u64(1..)
            );
            done(|| async { open(server).await?.ask(&lines).await }).await.map(drop)
        }
        other => Err(format!("{other:?} is not supported here").into()),
    }
}

/// Acts as `redis-cli --rdb` does: a replica that copies all data and disconnects.
async fn backup(server: &Server, time: Duration) -> Result<()> {
    let mut copy = TcpStream::connect(server.address).await?;
    copy.write_all(b"AUTH default root\r\nSYNC\r\n").await?;
    let mut bytes = vec![0; 1 << 16];
    let over = Instant::now() + time;
    while let Ok(Ok(1..)) = timeout_at(over, copy.read(&mut bytes)).await {}
    Ok(())
}

/// Sends some subscribers more than the server buffers for one client, which makes it close their
/// connections.
async fn flood(server: &Server) -> Result<()> {
    let channels = run(server, &["PUBSUB", "CHANNELS", "{distlock:*"]).await?;
    let channels: Vec<String> = from_redis_value(channels)?;
    for channel in channels.iter().filter(|_| fastrand::bool()) {
        run(server, &["PUBLISH", channel, &"x".repeat(1 << 20)]).await?;
    }
    Ok(())
}

/// Runs a script for `time`, which an operator may kill earlier. The server is silent at first, and
/// then replies BUSY.
async fn busy(server: &Server, time: Duration) -> Result<()> {
    set(server, "busy-reply-threshold", "100").await?;
    let lines = format!(
        "local from = os.clock() while os.clock() - from < {} do end return 1",
        time.as_secs_f64()
    );
    let mut operator = done(|| open(server)).await?;
    let mut call = cmd("EVAL");
    call.arg(lines).arg(0);
    let end = async {
        if fastrand::bool() {
            sleep(time.mul_f64(fastrand::f64())).await;
            // The script may not have started, or may have ended.
            let _ = run(server, &["SCRIPT", "KILL"]).await;
        }
    };
    // The call fails if the script was killed.
    let running = timeout(time * 3 + TIME_LIMIT, call.query_async::<Value>(&mut operator));
    let _ = tokio::join!(running, end);
    // The script counts processor time. On a busy machine it runs for long.
    let over = || async {
        let _ = run(server, &["SCRIPT", "KILL"]).await;
        run(server, &["CONFIG", "SET", "busy-reply-threshold", "5000"]).await
    };
    done(over).await.map(drop)
}

#[async_trait]
impl Database for Redis {
    fn setup(&self) -> &Setup {
        &self.0
    }

    async fn dial(&self, server: usize) -> Result<Box<dyn Connection>> {
        Ok(Box::new(open(&self.0.servers[server]).await?))
    }

    async fn sever(&self) -> Result<()> {
        sever(&self.0.servers[0]).await
    }

    async fn strike(&self, trouble: Trouble, time: Duration) -> Result<()> {
        strike(&self.0.servers[0], trouble, time).await
    }

    async fn wipe(&self, server: usize) -> Result<()> {
        wipe(&self.0.servers[server]).await
    }

    /// Simulates a power failure that loses the last second. Written data outlives a killed
    /// process, so an older copy is restored.
    async fn rewind(&self, server: usize) -> Result<()> {
        let server = &self.0.servers[server];
        server.on_disk("rm -rf /data/old && cp -a /data/appendonlydir /data/old").await?;
        sleep(Duration::from_millis(fastrand::u64(..1000))).await;
        server.go("kill").await?;
        server.on_disk("rm -rf /data/appendonlydir && mv /data/old /data/appendonlydir").await?;
        // An operator may restart the server with the settings that `durability` recommends.
        let fsync = if fastrand::bool() { "always" } else { "everysec" };
        server.on_disk(&format!("printf '%s\n' --appendfsync {fsync} >/data/settings")).await
    }
}

#[async_trait]
impl Connection for MultiplexedConnection {
    async fn ask(&mut self, lines: &str) -> Result<Rows> {
        let mut call = cmd("EVAL");
        call.arg(format!("{}\n{lines}", LIBRARY.join("\n"))).arg(KEYS.len());
        for key in KEYS {
            call.arg(format!("{{distlock:{NAMESPACE}}}:{key}"));
        }
        // No session, and no request to end one.
        Ok(call.arg("none").arg("").query_async(self).await?)
    }
}
