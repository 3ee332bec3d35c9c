//! A server whose clock can be set, and what a lock does when it is.

use std::time::Duration;

use distlock::{Client, Error, LockGuard};
use distlock_testkit::{docker::set_clock, framing::Framing, proxies::Proxies, proxy::Mode};
use tokio::time::{Instant, sleep, sleep_until};

use crate::common::{
    SOON, Waiter, close, connect, connected, contended, eventually,
    own::{Image, Server, TTL},
    take_turn, within,
};

/// Who has watched the clock for so long believes it.
const WATCHED: Duration = Duration::from_millis(3400);
pub(crate) const HOUR: i64 = 3600;
/// How often it is tried to do all of it while somebody asks nothing.
const TIMES: usize = 5;

/// A kind of server.
pub(crate) struct Kind {
    pub(crate) image: &'static Image,
    /// What makes its container's clock settable.
    pub(crate) clock: &'static [&'static str],
    /// Of the container, besides.
    pub(crate) options: &'static [&'static str],
    /// Of the server.
    pub(crate) arguments: &'static [&'static str],
    pub(crate) framing: Framing,
    /// Who connects again has not watched the clock. Else only a time is noticed that is longer
    /// than two readings are apart: see `beats.rs`.
    pub(crate) forgets: bool,
    /// What is run on it first, and says `ready`; nothing, if it is empty.
    pub(crate) prepare: &'static [&'static str],
    /// What tells the seconds since 1970 by its clock, in the first word.
    pub(crate) shows: &'static [&'static str],
}

struct Settable {
    kind: &'static Kind,
    server: Server,
}

impl Settable {
    async fn start(kind: &'static Kind) -> Self {
        let options = [kind.clock, kind.options].concat();
        let server = Server::start(kind.image, &options, kind.arguments).await;
        eventually(SOON * 5, "it is prepared", async || {
            kind.prepare.is_empty() || server.own.run(kind.prepare).await == "ready"
        })
        .await;
        server.serves().await;
        Self { kind, server }
    }

    /// So many seconds from the truth.
    async fn set(&self, seconds: i64) {
        self.server.own.run(&["sh", "-c", &set_clock(seconds)]).await;
        let ours = std::time::UNIX_EPOCH.elapsed().expect("after 1970").as_secs();
        let theirs = i64::try_from(ours).expect("not so late") + seconds;
        eventually(SOON, "the clock is set", async || {
            let shows = self.server.own.run(self.kind.shows).await;
            let shows = shows.split_whitespace().next().and_then(|word| word.parse::<i64>().ok());
            shows.is_some_and(|shows| (shows - theirs).abs() < 20)
        })
        .await;
    }

    async fn client(&self) -> Client {
        connected(self.server.builder()).await
    }

    /// A way to it that can be cut.
    async fn proxies(&self) -> Proxies {
        let Kind { image, framing, .. } = self.kind;
        Proxies::between(image.around, *framing, &[self.server.address]).await
    }

    /// One that can be cut off, and holds `a`.
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
    guard.unlock().await.expect("it was held all the time");
    waiter.served().await;
    close([client, other, newcomer]).await;
}

pub(crate) async fn a_clock_that_is_set_forward_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, HOUR).await;
}

pub(crate) async fn a_clock_that_is_set_back_frees_nothing(kind: &'static Kind) {
    a_jump_frees_nothing(kind, -HOUR).await;
}

/// By the clock, the dead holder would live for an hour.
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

/// No client has watched the clock since the holder died. A process that only tries is granted the
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
    let taken = hurried.mutex("a").lock_timeout(TTL / 3).await.expect("an answer");
    assert!(taken.is_none() && began.elapsed() < TTL / 3 + TTL / 4, "{:?}", began.elapsed());
    hurried.close().await.expect("closed");
    let newcomer = server.client().await;
    let began = Instant::now();
    let next = newcomer.mutex("a").try_lock().await.expect("an answer").expect("granted");
    let took = began.elapsed();
    // The other client may have left what it has seen.
    assert!(first.elapsed() > TTL && took < TTL * 2, "{took:?}");
    let began = Instant::now();
    let busy = server.client().await.mutex("a").try_lock().await.expect("an answer");
    assert!(busy.is_none() && began.elapsed() < TTL / 2, "its holder lives: {:?}", began.elapsed());
    next.unlock().await.expect("released");
    newcomer.close().await.expect("closed");
    drop((guard, holder));
}

/// It cannot renew its session, and believes in its lock until its deadline.
pub(crate) async fn a_clock_that_is_set_forward_leaves_a_cut_off_holder_its_time(
    kind: &'static Kind,
) {
    let server = Settable::start(kind).await;
    let (holder, proxies, guard) = server.holder().await;
    let other = server.client().await;
    let waiter = Waiter::of(&other, "a");
    sleep(WATCHED).await;
    proxies.all[0].set(Mode::Blackhole);
    server.set(HOUR).await;
    let cut = Instant::now();
    while waiter.waits() {
        assert!(cut.elapsed() < TTL * 4, "it is never put away");
        // Each request looks for sessions that are over.
        take_turn(&other, "b").await;
        assert!(waiter.waits() || !guard.is_valid(), "both hold it");
    }
    waiter.served().await;
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
        let server = Settable::start(kind).await;
        let watching = server.proxies().await;
        // Renewed so seldom that there is time.
        let unknowing = connect(&watching.url(), TTL * 12).await;
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
    let server = Settable::start(kind).await;
    let proxies = server.proxies().await;
    // It forgets the clock if it is cut off for longer than 2.75 s.
    let long = Duration::from_millis(5500);
    let unknowing = connect(&proxies.url(), long).await;
    sleep(WATCHED).await;
    take_turn(&unknowing, "b").await;
    let read = Instant::now();
    proxies.all[0].set(Mode::Refuse);
    if kind.forgets {
        server.set(-1).await;
        // The row that is written now seems to be younger than what was read last.
        sleep_until(read + Duration::from_millis(1100)).await;
    } else {
        server.set(-3).await;
    }
    let holding = server.holder().await;
    holding.1.all[0].set(Mode::Refuse);
    server.set(0).await;
    proxies.all[0].set(Mode::Pass);
    it_is_left_its_time(holding, unknowing).await;
}
