//! The effects of setting a server's clock.

use std::{net::SocketAddr, pin::Pin, time::Duration};

use async_trait::async_trait;
use distlock::{Client, Error, LockGuard};
use distlock_testkit::{docker::set_clock, framing::Framing, proxies::Proxies, proxy::Mode};
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::{
    SOON, Waiter, close, connect, contended, eventually,
    own::{Image, Server, TTL},
    take_turn, within,
};

/// A client that has observed the server's clock for this long trusts it.
const WATCHED: Duration = Duration::from_millis(3400);
/// Nothing more of a reply arrives after a pause as long as this.
const QUIET: Duration = Duration::from_millis(500);
pub(crate) const HOUR: i64 = 3600;
/// How often to retry until the whole sequence falls between two requests of the observing client.
const TIMES: usize = 5;

/// A kind of server.
pub(crate) struct Kind {
    /// The parts of a URL before and after the server.
    pub(crate) around: [&'static str; 2],
    pub(crate) framing: Framing,
    /// `true` if a client that reconnects starts observing the clock from scratch. Otherwise a
    /// clock change is noticed only if it exceeds the time between two readings. See `beats.rs`.
    pub(crate) forgets: bool,
    pub(crate) place: Place,
}

/// Where the servers of a kind run.
pub(crate) enum Place {
    Container(Container),
    /// In this process: the function starts a model of a server.
    Process(fn() -> Starting),
}

pub(crate) struct Container {
    pub(crate) image: &'static Image,
    /// The options that make its clock settable.
    pub(crate) clock: &'static [&'static str],
    /// Further options of the container.
    pub(crate) options: &'static [&'static str],
    /// Arguments of the server.
    pub(crate) arguments: &'static [&'static str],
    /// The command that prepares the server and prints `ready`. Empty if none is needed.
    pub(crate) prepare: &'static [&'static str],
    /// The command that prints the server's clock in seconds since 1970 as its first word.
    pub(crate) shows: &'static [&'static str],
}

/// A model of a server, in this process.
#[async_trait]
pub(crate) trait Model: Send + Sync {
    fn address(&self) -> SocketAddr;

    /// Sets the clock to this many seconds from the actual time.
    async fn set_clock(&self, seconds: i64);
}

/// Starts a model that is ready for clients.
pub(crate) type Starting = Pin<Box<dyn Future<Output = Box<dyn Model>> + Send>>;

struct Settable {
    kind: &'static Kind,
    server: Running,
}

enum Running {
    Container(&'static Container, Server),
    Process(Box<dyn Model>),
}

impl Settable {
    async fn start(kind: &'static Kind) -> Self {
        let server = match &kind.place {
            Place::Container(container) => Self::start_in(container).await,
            Place::Process(start) => Running::Process(start().await),
        };
        Self { kind, server }
    }

    async fn start_in(container: &'static Container) -> Running {
        let options = [container.clock, container.options].concat();
        let server = Server::start(container.image, &options, container.arguments).await;
        let prepare = container.prepare;
        eventually(SOON * 5, "the server is prepared", async || {
            prepare.is_empty() || server.own.run(prepare).await == "ready"
        })
        .await;
        server.serves().await;
        Running::Container(container, server)
    }

    /// Sets the clock to this many seconds from the actual time.
    async fn set(&self, seconds: i64) {
        let (container, server) = match &self.server {
            Running::Container(container, server) => (container, server),
            Running::Process(model) => return model.set_clock(seconds).await,
        };
        server.own.run(&["sh", "-c", &set_clock(seconds)]).await;
        let ours = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let theirs = i64::try_from(ours).expect("not so late") + seconds;
        eventually(SOON, "the clock is set", async || {
            let shows = server.own.run(container.shows).await;
            let shows = shows.split_whitespace().next().and_then(|word| word.parse::<i64>().ok());
            shows.is_some_and(|shows| (shows - theirs).abs() < 20)
        })
        .await;
    }

    fn address(&self) -> SocketAddr {
        match &self.server {
            Running::Container(_, server) => server.address,
            Running::Process(model) => model.address(),
        }
    }

    async fn client(&self) -> Client {
        connect(&self.kind.around.join(&self.address().to_string()), TTL).await
    }

    /// Opens a connection to the server that can be cut.
    async fn proxies(&self) -> Proxies {
        Proxies::between(self.kind.around, self.kind.framing, &[self.address()]).await
    }

    /// Connects a client that can be cut off and holds `a`.
    async fn holder(&self) -> (Client, Proxies, LockGuard) {
        let proxies = self.proxies().await;
        let client = connect(&proxies.url(), TTL).await;
        let guard = client.mutex("a").lock().await.expect("granted");
        (client, proxies, guard)
    }
}

async fn a_jump_frees_nothing(kind: &'static Kind, by: i64) {
    let server = Settable::start(kind).await;
    let (client, other) = (server.client().await, server.client().await);
    let (guard, waiter) = contended(&client, &other, "a").await;
    sleep(WATCHED).await;
    server.set(by).await;
    let jumped = Instant::now();
    let newcomer = server.client().await;
    while jumped.elapsed() < TTL * 3 {
        let tried = newcomer.mutex("a").try_lock().await;
        let is_busy =
            matches!(tried, Ok(None) | Err(Error::NotYet { .. } | Error::Unavailable { .. }));
        assert!(is_busy, "{tried:?}");
        assert!(guard.is_valid() && waiter.waits(), "after {:?}", jumped.elapsed());
        sleep(Duration::from_millis(50)).await;
    }
    guard.unlock().await.expect("released");
    waiter.served().await;
    close([client, other, newcomer]).await;
}

pub(crate) async fn a_clock_that_is_set_forward_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, HOUR).await;
}

pub(crate) async fn a_clock_that_is_set_back_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, -HOUR).await;
}

/// By the server's clock, the crashed holder's session would last another hour.
pub(crate) async fn a_dead_holder_is_removed_by_a_clock_that_was_set_back(kind: &'static Kind) {
    let server = Settable::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let waiter = Waiter::of(&other, "a");
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Refuse);
    server.set(-HOUR).await;
    let next = waiter.result(TTL * 4).await;
    assert!(!guard.is_valid());
    next.expect("granted").unlock().await.expect("released");
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// No client has observed the clock since the holder died. A process that only tries is granted the
/// lock. A process whose timeout is too short is not.
pub(crate) async fn newcomer_that_only_tries_takes_the_lock_of_a_dead_holder(kind: &'static Kind) {
    let server = Settable::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    proxies.all[0].set(Mode::Refuse);
    sleep(TTL * 2).await;
    assert!(!guard.is_valid());
    let first = Instant::now();
    let hurried = server.client().await;
    let began = Instant::now();
    let taken = hurried.mutex("a").lock_timeout(TTL / 3).await.expect("a reply");
    assert!(taken.is_none() && began.elapsed() < TTL / 3 + TTL / 4, "{:?}", began.elapsed());
    hurried.close().await.expect("closed");
    let newcomer = server.client().await;
    let began = Instant::now();
    let next = newcomer.mutex("a").try_lock().await.expect("a reply").expect("granted");
    let took = began.elapsed();
    // The other client may have stored what it observed.
    assert!(first.elapsed() > TTL && took < TTL * 2, "{took:?}");
    let began = Instant::now();
    let busy = server.client().await.mutex("a").try_lock().await.expect("a reply");
    assert!(
        busy.is_none() && began.elapsed() < TTL / 2,
        "the lock has a live holder: {:?}",
        began.elapsed()
    );
    next.unlock().await.expect("released");
    newcomer.close().await.expect("closed");
    drop((guard, holder));
}

/// The holder cannot renew its session, and trusts its lock until its deadline.
pub(crate) async fn clock_set_forward_keeps_a_cut_off_holders_session(kind: &'static Kind) {
    let server = Settable::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let waiter = Waiter::of(&other, "a");
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Blackhole);
    server.set(HOUR).await;
    let cut = Instant::now();
    while waiter.waits() {
        assert!(cut.elapsed() < TTL * 4, "the expired session is never removed");
        // Each request removes expired sessions.
        take_turn(&other, "b").await;
        assert!(waiter.waits() || !guard.is_valid(), "the lock has two holders");
    }
    waiter.served().await;
    other.close().await.expect("closed");
    drop((guard, holder));
}

/// The holder cannot renew its session by the right clock, and trusts its lock until its deadline.
/// The other client has not noticed that the clock was changed.
async fn grants_only_after_the_loss(holding: (Client, Proxies, LockGuard), unaware: Client) {
    let (holder, _way, guard) = holding;
    assert!(guard.is_valid());
    let next =
        within(TTL * 4, "the next client is granted the lock", unaware.mutex("a").lock()).await;
    assert!(!guard.is_valid(), "the lock has two holders");
    next.expect("granted").unlock().await.expect("released");
    unaware.close().await.expect("closed");
    drop((guard, holder));
}

/// The whole sequence falls between two requests of a client that observes the clock. On a busy
/// machine it may not: then the case proves nothing, and another server is used.
pub(crate) async fn session_begun_under_a_wrong_clock_keeps_its_ttl(kind: &'static Kind) {
    for _ in 0..TIMES {
        let server = Settable::start(kind).await;
        let watching = server.proxies().await;
        // A long TTL, so that there is time between two renewals.
        let unaware = connect(&watching.url(), TTL * 12).await;
        sleep(WATCHED).await;
        let mut packets = watching.packets();
        let renewed = async || std::mem::replace(&mut packets, watching.packets()) != packets;
        eventually(TTL * 12, "the session is renewed", renewed).await;
        // A busy server sends the parts of a reply one by one.
        let replied = async || {
            packets = watching.packets();
            sleep(QUIET).await;
            watching.packets() == packets
        };
        eventually(SOON, "the reply has arrived", replied).await;
        server.set(-HOUR).await;
        let holding = server.holder().await;
        holding.1.all[0].set(Mode::Refuse);
        server.set(0).await;
        if watching.packets() == packets {
            return grants_only_after_the_loss(holding, unaware).await;
        }
    }
    panic!("the observing client sent a request each time, so the case proves nothing");
}

/// The clock is off by so little that the session's row does not seem long expired. The other
/// client was cut off for less than half its TTL, so it keeps observing the clock.
pub(crate) async fn session_begun_under_a_slightly_wrong_clock_keeps_its_ttl(kind: &'static Kind) {
    let server = Settable::start(kind).await;
    let proxies = server.proxies().await;
    // The client starts observing from scratch if it is cut off for longer than 2.75 s.
    let long = Duration::from_millis(5500);
    let unaware = connect(&proxies.url(), long).await;
    sleep(WATCHED).await;
    take_turn(&unaware, "b").await;
    let read = Instant::now();
    proxies.all[0].set(Mode::Refuse);
    if kind.forgets {
        server.set(-1).await;
        // The row written now seems younger than the clock that was read last.
        sleep_until(read + Duration::from_millis(1100)).await;
    } else {
        server.set(-3).await;
    }
    let holding = server.holder().await;
    holding.1.all[0].set(Mode::Refuse);
    server.set(0).await;
    proxies.all[0].set(Mode::Pass);
    grants_only_after_the_loss(holding, unaware).await;
}
