//! Each rule of the algorithm against its purpose: wiped nodes, network partitions, lost replies,
//! clock changes.

use std::time::Duration;

use distlock::{Builder, Client, Error, LockGuard, LostReason};
use distlock_testkit::{
    proxies::Proxies,
    proxy::{Mode, Proxy},
};
use redis::cmd;
use tokio::time::{Instant, sleep};

use super::nodes::Nodes;
use crate::common::{
    close, connected, eventually, locked,
    redlock::{LOGIN, TTL, ask, contend, dial, parts},
    take_turn, throughout, within,
};

const HOUR: i64 = 3600;

/// Returns nodes, a client with its proxies, and another client.
async fn two_clients() -> (Nodes, Client, Proxies, Client) {
    let nodes = Nodes::start().await;
    let (holder, proxies) = nodes.client_by().await;
    let other = nodes.client().await;
    (nodes, holder, proxies, other)
}

fn set(proxies: &[Proxy], mode: &Mode) {
    proxies.iter().for_each(|proxy| proxy.set(mode.clone()));
}

/// Releases a lock and grants it to another client.
async fn succeeded(other: &Client, name: &str, held: LockGuard) {
    let token = held.fencing_token();
    held.unlock().await.expect("the lock is held");
    let next = locked(other, name).await;
    assert!(next.fencing_token() > token);
    next.unlock().await.expect("released");
}

/// First one node has lost the lock, then two others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_that_is_wiped_costs_no_lock() {
    for wiped in [&[1][..], &[0, 3]] {
        let nodes = Nodes::start().await;
        let (holder, other) = (nodes.client().await, nodes.client().await);
        let guard = locked(&holder, "a").await;
        nodes.wipe(wiped).await;
        let taken = contend(&other, "a", &guard, TTL * 3).await;
        assert!(taken.is_none() && guard.is_valid(), "{wiped:?}");
        // The holder restores the lock once the nodes count.
        eventually(TTL * 2, "all nodes have the lock", async || nodes.having("a").await == 5).await;
        succeeded(&other, "a", guard).await;
        close([holder, other]).await;
    }
}

/// The holder is cut off and cannot know. No other client may be granted the lock that those nodes
/// have lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_that_is_wiped_grants_nothing_for_a_ttl() {
    let (nodes, holder, proxies, other) = two_clients().await;
    let guard = locked(&holder, "a").await;
    proxies.set(&Mode::Blackhole);
    nodes.wipe(&[0, 1, 2]).await;
    let newcomer = nodes.builder().connect_lazy().expect("well-formed");
    let taken =
        tokio::join!(contend(&other, "a", &guard, TTL * 3), contend(&newcomer, "a", &guard, TTL),);
    assert!(!guard.is_valid() && (taken.0.is_some() || taken.1.is_some()));
    drop((taken, guard));
    close([other, newcomer]).await;
}

/// A lock is held on three nodes, of which two are wiped. Fewer nodes have the lock than lack it,
/// yet no other client is granted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_majority_that_loses_a_node_is_lost_before_the_next_grant() {
    let (nodes, holder, proxies, other) = two_clients().await;
    set(&proxies.all[3..], &Mode::Refuse);
    let guard = locked(&holder, "a").await;
    assert_eq!(nodes.having("a").await, 3);
    nodes.wipe(&[0, 1]).await;
    let taken = contend(&other, "a", &guard, TTL * 4).await.expect("the lock becomes free");
    taken.unlock().await.expect("released");
    drop(guard);
    close([holder, other]).await;
}

/// The name of a node that was unreachable now leads to the server of another node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_two_names_has_one_vote() {
    let mut nodes = Nodes::start().await;
    let first = nodes.addresses[0];
    nodes.addresses[4] = first;
    let cut = |proxies: &Proxies| set(&proxies.all[4..], &Mode::Refuse);
    let (holder, proxies) = nodes.client_as(cut, |builder| builder).await;
    let guard = locked(&holder, "a").await;
    proxies.all[4].set(Mode::Pass);
    eventually(TTL * 3, "the second name is reported", async || {
        let known = holder.durability().await;
        known.is_ok_and(|known| known.reasons.concat().contains("the same server"))
    })
    .await;
    assert!(guard.is_valid());
    // Two servers are left, which have three of the names.
    set(&proxies.all[2..4], &Mode::Refuse);
    within(TTL * 2, "the holder is notified", guard.lost()).await;
    drop(guard);
    proxies.set(&Mode::Pass);
    close([holder]).await;
}

/// `SET` was applied on two nodes, or three, whose replies are lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unconfirmed_writes_are_released() {
    let (nodes, holder, proxies, other) = two_clients().await;
    for swallowing in [2, 3] {
        set(&proxies.all[..swallowing], &Mode::SwallowReply);
        let tried = within(TTL, "a reply", holder.mutex("a").try_lock()).await;
        if swallowing == 2 {
            let guard = tried.expect("a majority has replied").expect("the lock is free");
            let taken = contend(&other, "a", &guard, TTL / 2).await;
            assert!(taken.is_none() && guard.is_valid());
            guard.unlock().await.expect("released");
        } else {
            drop(tried);
        }
        // Long before the key would expire.
        eventually(TTL / 2, "no node has the lock", async || nodes.having("a").await == 0).await;
    }
    close([holder, other]).await;
}

/// One node has a foreign key: kept for an hour by a clock that was set back, put there without
/// expiry by an operator, or left by a dead client. Contending clients query this node first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_left_on_one_node_blocks_no_client() {
    let nodes = Nodes::start_for(TTL * 5).await;
    // A client may keep a lock for that long on a busy machine. The nodes must have run as long.
    let slow = async || connected(nodes.builder().session_ttl(TTL * 5)).await;
    let (holder, other, slow) = (slow().await, slow().await, slow().await);
    let kept = slow.mutex("kept");
    let mut slow_guard = None;
    eventually(TTL * 10, "all nodes count", async || {
        slow_guard = kept.try_lock().await.ok().flatten();
        slow_guard.is_some()
    })
    .await;
    for (number, more) in [&["PX", "3600000"][..], &[], &["PX", "10000"]].into_iter().enumerate() {
        let name = format!("a{number}");
        let guard = locked(&holder, &name).await;
        let first = dial(nodes.addresses[0]).await;
        let mut set = cmd("SET");
        set.arg(format!("{{/distlock/{name}}}")).arg("foreign").arg(more);
        ask::<String>(&first, &set).await;
        let waiting = other.mutex(&name);
        // Before the first node would be free again.
        let waiting = tokio::spawn(async move { waiting.lock_timeout(TTL * 4).await });
        // By then the waiter has queried that node repeatedly.
        sleep(TTL).await;
        assert!(guard.is_valid() && !waiting.is_finished());
        guard.unlock().await.expect("released");
        let next = waiting.await.expect("no panic").expect("a reply");
        next.expect("four nodes are free").unlock().await.expect("released");
    }
    slow_guard.expect("held").unlock().await.expect("released");
    close([holder, other, slow]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_minority_grants_nothing_and_holds_nothing() {
    let (_nodes, holder, proxies, other) = two_clients().await;
    let guard = locked(&holder, "a").await;
    set(&proxies.all[2..], &Mode::Blackhole);
    let tried = holder.mutex("b").lock_timeout(TTL / 2).await;
    assert!(!matches!(tried, Ok(Some(_))), "{tried:?}");
    let taken = contend(&other, "a", &guard, TTL * 4).await.expect("the lock becomes free");
    taken.unlock().await.expect("released");
    drop(guard);
    close([other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_keeps_its_locks() {
    let nodes = Nodes::start().await;
    let (holder, proxies) = nodes.client_by().await;
    let (other, others) = nodes.client_by().await;
    let guard = locked(&holder, "a").await;
    for node in 0..5 {
        // The holder cannot reach two nodes, and the other client can reach only these.
        let parted = if node < 2 { &proxies } else { &others };
        parted.all[node].set(Mode::Blackhole);
    }
    let taken = contend(&other, "a", &guard, TTL * 3).await;
    assert!(taken.is_none() && guard.is_valid());
    guard.unlock().await.expect("released");
    close([holder]).await;
}

/// Renewals reach five nodes, then three, then two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_of_a_majority_count_and_others_do_not() {
    let (_nodes, holder, proxies, other) = two_clients().await;
    let guard = locked(&holder, "a").await;
    set(&proxies.all[..2], &Mode::BlackholeToClient);
    assert!(contend(&other, "a", &guard, TTL * 3).await.is_none() && guard.is_valid());
    proxies.all[2].set(Mode::BlackholeToClient);
    let reason = within(TTL, "the holder is notified", guard.lost()).await;
    assert!(matches!(reason, LostReason::DeadlinePassed), "{reason:?}");
    drop(guard);
    proxies.set(&Mode::Pass);
    close([holder, other]).await;
}

/// A client acquires one lock after the other, for longer than a TTL, and keeps some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_locks_delay_no_renewal() {
    let nodes = Nodes::start().await;
    let client = nodes.client().await;
    let (mut guards, began) = (Vec::new(), Instant::now());
    while began.elapsed() < TTL * 3 {
        if guards.len() < 50 {
            guards.push(locked(&client, &guards.len().to_string()).await);
        }
        drop(locked(&client, "again").await);
    }
    assert!(guards.iter().all(LockGuard::is_valid));
    drop(guards);
    close([client]).await;
}

/// Sets the clocks of nodes with the holder's lock, so that its keys expire there.
async fn a_clock_is_set(by: i64, numbers: &[usize]) {
    let (nodes, holder, proxies, other) = two_clients().await;
    set(&proxies.all[3..], &Mode::Refuse);
    let guard = locked(&holder, "a").await;
    nodes.set_clock(numbers, by).await;
    let newcomer = nodes.builder().connect_lazy().expect("well-formed");
    let (taken, _) = tokio::join!(
        contend(&other, "a", &guard, TTL * 2),
        contend(&newcomer, "a", &guard, TTL / 2),
    );
    drop((taken, guard));
    // In the end all nodes count again.
    proxies.set(&Mode::Pass);
    take_turn(&other, "b").await;
    close([holder, other, newcomer]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_set_forward_make_no_second_holder() {
    a_clock_is_set(HOUR, &[0]).await;
    a_clock_is_set(HOUR, &[0, 1]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clocks_that_are_set_back_make_no_second_holder() {
    a_clock_is_set(-HOUR, &[0, 1]).await;
}

/// The nodes with clocks ahead grant the first token, and are unreachable for the second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_across_different_majorities() {
    let nodes = Nodes::start().await;
    nodes.set_clock(&[0, 1], HOUR).await;
    let holder = nodes.client().await;
    // The other nodes are observed for a while, because their clocks differ.
    sleep(TTL + Duration::from_millis(500)).await;
    let mut last = None;
    for part in [0..3, 2..5, 0..3, 2..5] {
        let (client, proxies) = nodes.client_by().await;
        sleep(TTL + Duration::from_millis(500)).await;
        set(&proxies.all[..part.start], &Mode::Refuse);
        set(&proxies.all[part.end..], &Mode::Refuse);
        let guard = locked(&client, "a").await;
        assert!(last < Some(guard.fencing_token()), "{last:?}, then {guard:?}");
        last = Some(guard.fencing_token());
        guard.unlock().await.expect("released");
        close([client]).await;
    }
    close([holder]).await;
}

/// A lock is lost if a majority of the nodes has it for another client. Other locks of the session
/// are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losing_one_lock_keeps_the_others() {
    let nodes = Nodes::start().await;
    let holder = nodes.client().await;
    let (lost, kept) = (locked(&holder, "a").await, locked(&holder, "b").await);
    let (lock, _) = parts(lost.key());
    for address in &nodes.addresses[1..4] {
        let node = dial(*address).await;
        let _: () = ask(&node, cmd("SET").arg(&lock).arg("another client's")).await;
    }
    let reason = within(TTL, "the holder is notified", lost.lost()).await;
    assert_eq!(reason, LostReason::Evicted);
    throughout(TTL * 2, "the other lock is held", async || kept.is_valid()).await;
    assert!(lost.unlock().await.is_err());
    kept.unlock().await.expect("released");
    for address in &nodes.addresses[1..4] {
        let node = dial(*address).await;
        let value: String = ask(&node, cmd("GET").arg(&lock)).await;
        assert_eq!(value, "another client's", "a foreign key was deleted");
    }
    close([holder]).await;
}

/// Nodes that were unreachable at the grant receive the lock later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bare_majority_is_extended_to_all_nodes() {
    let nodes = Nodes::start().await;
    let (holder, proxies) = nodes.client_by().await;
    set(&proxies.all[..2], &Mode::Refuse);
    let guard = locked(&holder, "a").await;
    assert_eq!(nodes.having("a").await, 3);
    proxies.set(&Mode::Pass);
    eventually(TTL * 2, "all nodes have the lock", async || nodes.having("a").await == 5).await;
    guard.unlock().await.expect("released");
    eventually(TTL / 2, "no node has the lock", async || nodes.having("a").await == 0).await;
    close([holder]).await;
}

/// The nodes have lost the TTL of the holder, and the new client's TTL is shorter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_ttl_after_all_nodes_restart_overtakes_no_holder() {
    let long = TTL * 3;
    let nodes = Nodes::start_for(long).await;
    let (holder, proxies) = nodes.client_as(|_| (), |builder| builder.session_ttl(long)).await;
    let guard = locked(&holder, "a").await;
    // A renewal would restore its TTL on the nodes.
    proxies.set(&Mode::Blackhole);
    nodes.wipe(&[0, 1, 2, 3, 4]).await;
    let newcomer = nodes.builder().session_ttl(TTL / 2).connect_lazy().expect("well-formed");
    let taken = contend(&newcomer, "a", &guard, long * 2).await;
    taken.expect("the lock becomes free").unlock().await.expect("released");
    drop(guard);
    proxies.set(&Mode::Pass);
    close([holder, newcomer]).await;
}

/// A holder with a longer TTL than others expect could be overtaken after a restart of the nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_disagree_on_the_longest_ttl_are_refused() {
    let nodes = Nodes::start_for(TTL * 2).await;
    let long = nodes.builder().session_ttl(TTL * 2).connect().await.expect("connected");
    let url = format!("{LOGIN}{}", nodes.hosts());
    let other = Client::builder(format!("{url}?longest_ttl=3s")).session_ttl(TTL);
    let error = other.connect().await.expect_err("refused");
    assert!(matches!(error, Error::Backend { .. }), "{error:?}");
    let error = Client::builder(url).session_ttl(TTL * 60).connect_lazy().expect_err("refused");
    assert!(matches!(error, Error::InvalidArgument { argument: "session_ttl", .. }), "{error:?}");
    close([long]).await;
}

/// The nodes have no persistence. A node with its clock ahead takes part in the first grant, then
/// all nodes are restarted in turn. A client that never reaches that node requests the last token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_rise_after_rolling_restarts_with_one_clock_ahead() {
    let nodes = Nodes::start().await;
    nodes.set_clock(&[0], 60).await;
    let (watching, client) = (nodes.client().await, nodes.client().await);
    // By then all nodes count, because their clocks were observed.
    sleep(TTL * 2).await;
    let first = locked(&client, "a").await;
    let token = first.fencing_token();
    first.unlock().await.expect("released");
    for wiped in [&[1, 2][..], &[3, 4], &[0]] {
        nodes.wipe(wiped).await;
        sleep(TTL * 2).await;
        take_turn(&watching, "b").await;
    }
    let refuse = |proxies: &Proxies| proxies.all[0].set(Mode::Refuse);
    let (newcomer, _proxies) = nodes.client_as(refuse, |builder| builder).await;
    let last = locked(&newcomer, "a").await;
    assert!(last.fencing_token() > token, "{:?} after {token:?}", last.fencing_token());
    last.unlock().await.expect("released");
    close([client, watching, newcomer]).await;
}

/// A node falls silent while many clients try repeatedly for one lock.
#[test]
fn tries_leave_no_tasks_while_a_node_is_silent() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(1).enable_all().build().expect("a runtime")
    };
    let library = runtime();
    runtime().block_on(async {
        let nodes = Nodes::start().await;
        let on_library_runtime = |builder: Builder| builder.runtime(library.handle().clone());
        let (client, proxies) = nodes.client_as(|_| (), on_library_runtime).await;
        let tasks = || library.metrics().num_alive_tasks();
        let before = tasks();
        let contending: Vec<_> = (0..32)
            .map(|_| {
                let mutex = client.mutex("a");
                tokio::spawn(async move {
                    loop {
                        if let Ok(Some(guard)) = mutex.try_lock().await {
                            sleep(Duration::from_millis(1)).await;
                            drop(guard.unlock().await);
                        }
                    }
                })
            })
            .collect();
        sleep(TTL / 2).await;
        proxies.all[0].set(Mode::Blackhole);
        sleep(TTL).await;
        contending.iter().for_each(|contender| contender.abort());
        for contender in contending {
            drop(contender.await);
        }
        println!("{before} tasks before, {} after", tasks());
        // One task may remain for each late release, and one for the node.
        eventually(TTL / 2, "the tries have left no tasks", async || tasks() <= before + 3).await;
        close([client]).await;
    });
}
