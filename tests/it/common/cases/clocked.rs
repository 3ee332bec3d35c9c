//! A server whose clock can be set, and what a lock does when it is.

use std::{net::SocketAddr, time::Duration};

use distlock::{Client, Error, LockGuard};
use distlock_testkit::{
    docker::{OwnServer, set_clock},
    framing::Framing,
    proxies::Proxies,
    proxy::Mode,
};
use tokio::time::{Instant, sleep};

use crate::common::case::{SOON, eventually, within};

const TTL: Duration = Duration::from_secs(3);
/// Who has watched the clock for so long believes it.
const WATCHED: Duration = Duration::from_millis(3400);
pub(crate) const HOUR: i64 = 3600;
/// How often it is tried to do all of it while somebody asks nothing.
const TIMES: usize = 5;

/// A kind of server.
pub(crate) struct Kind {
    /// The service of docker/compose.yml that it is like.
    pub(crate) like: &'static str,
    pub(crate) port: u16,
    /// What makes its container's clock settable.
    pub(crate) clock: &'static [&'static str],
    /// Of the container, besides.
    pub(crate) options: &'static [&'static str],
    /// Of the server.
    pub(crate) arguments: &'static [&'static str],
    /// What stands before and after the server in its URL.
    pub(crate) around: [&'static str; 2],
    pub(crate) framing: Framing,
    /// What is run on it first, and says `ready`; nothing, if it is empty.
    pub(crate) prepare: &'static [&'static str],
    /// What tells the seconds since 1970 by its clock, in the first word.
    pub(crate) shows: &'static [&'static str],
}

pub(crate) struct Server {
    kind: &'static Kind,
    own: OwnServer,
    address: SocketAddr,
}

impl Server {
    async fn start(kind: &'static Kind) -> Self {
        let publish = format!("--publish=127.0.0.1::{}", kind.port);
        let options = [kind.clock, &[publish.as_str()], kind.options].concat();
        let own = OwnServer::start(kind.like, &options, kind.arguments).await;
        let address = own.address(kind.port).await;
        let server = Self { kind, own, address };
        let is_up = async || {
            let ready = kind.prepare.is_empty() || server.own.run(kind.prepare).await == "ready";
            ready && Client::connect(server.url()).await.is_ok()
        };
        eventually(SOON * 5, "it lets clients in", is_up).await;
        server
    }

    /// So many seconds from the truth.
    async fn set(&self, seconds: i64) {
        self.own.run(&["sh", "-c", &set_clock(seconds)]).await;
        let ours = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let theirs = i64::try_from(ours).expect("not so late") + seconds;
        eventually(SOON, "the clock is set", async || {
            let shows = self.own.run(self.kind.shows).await;
            let shows = shows.split_whitespace().next().and_then(|word| word.parse::<i64>().ok());
            shows.is_some_and(|shows| (shows - theirs).abs() < 20)
        })
        .await;
    }

    fn url(&self) -> String {
        let [before, after] = self.kind.around;
        format!("{before}{}{after}", self.address)
    }

    async fn client(&self) -> Client {
        let connecting = Client::builder(self.url()).session_ttl(TTL).connect();
        within(SOON, "it connects", connecting).await.expect("connected")
    }

    /// One that can be cut off, and holds `a`.
    async fn holder(&self) -> (Client, Proxies, LockGuard) {
        let proxies = Proxies::between(self.kind.around, self.kind.framing, &[self.address]).await;
        let client = Client::builder(proxies.url()).session_ttl(TTL).connect().await;
        let client = client.expect("connected");
        let guard = client.mutex("a").lock().await.expect("granted");
        (client, proxies, guard)
    }
}

async fn a_jump_frees_nothing(kind: &'static Kind, by: i64) {
    let server = Server::start(kind).await;
    let (client, other) = (server.client().await, server.client().await);
    let guard = client.mutex("a").lock().await.expect("granted");
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    server.set(by).await;
    let jumped = Instant::now();
    let newcomer = server.client().await;
    while jumped.elapsed() < TTL * 3 {
        let tried = newcomer.mutex("a").try_lock().await;
        let is_busy =
            matches!(tried, Ok(None) | Err(Error::NotYet { .. } | Error::Unavailable { .. }));
        assert!(is_busy, "{tried:?}");
        assert!(guard.is_valid() && !waiter.is_finished(), "after {:?}", jumped.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    guard.unlock().await.expect("it was held all the time");
    let next = within(SOON, "the next one's turn", waiter).await.expect("no panic");
    next.expect("granted").unlock().await.expect("released");
    for client in [client, other, newcomer] {
        client.close().await.expect("closed");
    }
}

pub(crate) async fn a_clock_that_is_set_forward_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, HOUR).await;
}

pub(crate) async fn a_clock_that_is_set_back_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, -HOUR).await;
}

/// By the clock, the dead holder would live for an hour.
pub(crate) async fn a_dead_holder_is_put_away_by_a_clock_that_was_set_back(kind: &'static Kind) {
    let server = Server::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Refuse);
    server.set(-HOUR).await;
    let next = within(TTL * 4, "the next one's turn", waiter).await.expect("no panic");
    assert!(!guard.is_valid());
    next.expect("granted").unlock().await.expect("released");
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// No client has watched the clock since the holder died. A process that only tries is granted the
/// lock. A process whose timeout is too short is not.
pub(crate) async fn newcomer_that_only_tries_takes_the_lock_of_a_dead_holder(kind: &'static Kind) {
    let server = Server::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    proxies.all[0].set(Mode::Refuse);
    sleep(TTL * 2).await;
    assert!(!guard.is_valid());
    let hurried = server.client().await;
    let began = Instant::now();
    let taken = hurried.mutex("a").lock_timeout(TTL / 3).await.expect("an answer");
    assert!(taken.is_none() && began.elapsed() < TTL / 3 + TTL / 4, "{:?}", began.elapsed());
    hurried.close().await.expect("closed");
    let newcomer = server.client().await;
    let began = Instant::now();
    let next = newcomer.mutex("a").try_lock().await.expect("an answer").expect("granted");
    let took = began.elapsed();
    assert!(took > TTL && took < TTL * 2, "{took:?}");
    let began = Instant::now();
    let busy = server.client().await.mutex("a").try_lock().await.expect("an answer");
    assert!(busy.is_none() && began.elapsed() < TTL / 2, "its holder lives: {:?}", began.elapsed());
    next.unlock().await.expect("released");
    newcomer.close().await.expect("closed");
    drop((guard, holder));
}

/// It cannot renew its session, and believes in its lock until its deadline.
pub(crate) async fn a_clock_that_is_set_forward_leaves_one_who_is_cut_off_its_time(
    kind: &'static Kind,
) {
    let server = Server::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let mutex = other.mutex("a");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Blackhole);
    server.set(HOUR).await;
    let cut = Instant::now();
    while !waiter.is_finished() {
        assert!(cut.elapsed() < TTL * 4, "it is never put away");
        // Each request looks for sessions that are over.
        other.mutex("b").lock().await.expect("granted").unlock().await.expect("released");
        assert!(!(waiter.is_finished() && guard.is_valid()), "both hold it");
    }
    waiter.await.expect("no panic").expect("granted").unlock().await.expect("released");
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// The holder cannot renew its session by the right clock, and believes in its lock until its
/// deadline. The other one takes the clock for one that is never set.
async fn it_is_left_its_time(holding: (Client, Proxies, LockGuard), unknowing: Client) {
    let (holder, _way, guard) = holding;
    assert!(guard.is_valid());
    let next = within(TTL * 4, "the next one's turn", unknowing.mutex("a").lock()).await;
    assert!(!guard.is_valid(), "both hold it");
    next.expect("granted").unlock().await.expect("released");
    unknowing.close().await.expect("closed");
    drop((guard, holder));
}

/// All of it falls between two requests of one who has watched the clock. On a busy machine it may
/// not: then nothing is shown, and another server is taken.
pub(crate) async fn a_session_that_began_while_the_clock_was_wrong_is_left_its_time(
    kind: &'static Kind,
) {
    for _ in 0..TIMES {
        let server = Server::start(kind).await;
        let watching = Proxies::between(kind.around, kind.framing, &[server.address]).await;
        // Renewed so seldom that there is time.
        let unknowing = Client::builder(watching.url()).session_ttl(TTL * 12).connect().await;
        let unknowing = unknowing.expect("connected");
        sleep(WATCHED).await;
        let mut packets = watching.packets();
        let renewed = async || std::mem::replace(&mut packets, watching.packets()) != packets;
        eventually(TTL * 12, "it renews its session", renewed).await;
        let mut packets = watching.packets();
        let answered = async || std::mem::replace(&mut packets, watching.packets()) == packets;
        eventually(SOON, "it has its answer", answered).await;
        server.set(-HOUR).await;
        let holding = server.holder().await;
        holding.1.all[0].set(Mode::Refuse);
        server.set(0).await;
        if watching.packets() == packets {
            return it_is_left_its_time(holding, unknowing).await;
        }
    }
    panic!("it has asked meanwhile each time, so nothing is shown");
}

/// By so little that its row does not seem to be over long since, while the other one was cut off,
/// for less than half of its TTL: it goes on watching the clock.
pub(crate) async fn a_session_that_began_while_the_clock_was_a_little_wrong_is_left_its_time(
    kind: &'static Kind,
) {
    let server = Server::start(kind).await;
    let proxies = Proxies::between(kind.around, kind.framing, &[server.address]).await;
    // It forgets the clock if it is cut off for longer than 2.75 s, and sees that it is 3 s behind.
    let long = Duration::from_millis(5500);
    let unknowing = Client::builder(proxies.url()).session_ttl(long).connect().await;
    let unknowing = unknowing.expect("connected");
    sleep(WATCHED).await;
    unknowing.mutex("b").lock().await.expect("granted").unlock().await.expect("released");
    proxies.all[0].set(Mode::Refuse);
    server.set(-3).await;
    let holding = server.holder().await;
    holding.1.all[0].set(Mode::Refuse);
    server.set(0).await;
    proxies.all[0].set(Mode::Pass);
    it_is_left_its_time(holding, unknowing).await;
}
