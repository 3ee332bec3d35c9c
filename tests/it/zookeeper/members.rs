//! Servers that are cut off from each other while their clients still reach them. These tests run
//! alone.

use std::time::{Duration, Instant};

use distlock_testkit::docker::Cut;

use crate::common::{
    Harness, Members, SOON, alone, eventually, loss, precedes_grant,
    zookeeper::{ZooKeeper, mode_of},
};

/// A follower that is cut off from the leader keeps answering pings and reads for its syncLimit.
/// That is ten ticks here, while the leader expires the session after two.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_on_a_follower_that_is_cut_off_knows_before_its_successor() {
    alone::<ZooKeeper>(async |t| {
        let (mut followers, mut others) = (Vec::new(), Vec::new());
        for (name, server) in t.store.servers() {
            match mode_of(server).await.as_str() {
                "follower" if followers.is_empty() => followers.push((name, server)),
                _ => others.push(server.to_string()),
            }
        }
        let (name, server) = followers.pop().expect("an ensemble has followers");
        let cut_off = t.builder_for(&format!("zk://{server}")).session_ttl(t.store.min_ttl());
        let holder = t.connect(cut_off).await;
        let other = t.connect(t.builder_for(&format!("zk://{}", others.join(",")))).await;
        let ttl = holder.session_ttl();
        let (guard, waiter) = t.contended(&holder, &other, "cut").await;
        let cut = Cut::off(name).await;
        let start = Instant::now();
        let loss = loss(guard);
        let successor = waiter.result(ttl + Duration::from_secs(10)).await.expect("granted");
        let loss = precedes_grant(loss).await;
        assert_eq!(mode_of(server).await, "follower", "the follower noticed the cut");
        println!("after {:?} of {ttl:?}", loss.at - start);
        assert!(loss.at - start > ttl / 4, "lost too early");
        successor.unlock().await.unwrap();
        cut.heal().await;
        eventually(SOON * 4, "the server serves again", async || {
            holder.mutex("cut").try_lock().await.is_ok()
        })
        .await;
    })
    .await;
}
