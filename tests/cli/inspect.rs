//! What shows locks and what an operator does to them: `ls`, `queue`, `leader`, `observe`, `elect`,
//! `ask`, `evict`, `permits`, `doctor`, `top`, and what is printed without a store.

use std::{fs, process::Stdio, time::Duration};

use distlock::{Client, LockKind};
use distlock_testkit::{proxies::Proxies, proxy::Mode, servers};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{io::AsyncReadExt, process::Command, time::timeout};

use crate::store::{
    Output, Store, Stream, distlock_at, ended_by, on_each_store, output_of, run, signal, until,
    until_written,
};

async fn all_locks_are_listed(store: Store) {
    let client = store.client().await;
    assert_eq!(store.run(&["ls"]).await.out, "");
    let held = client.mutex("b/one").lock().await.expect("free");
    let _read = client.rw_lock("a two").read().await.expect("free");
    let _permit = client.semaphore("c", 3).acquire().await.expect("free");
    let _leads = client.election("d").campaign("here").await.expect("free");
    let waiter =
        store.distlock(&["run", "b/one", "--", "true"]).spawn().expect("the process starts");
    until("the client waits", async || store.queue(&client, "b/one").await == 2).await;
    let listed = Output::objects(&store.run(&["ls", "--json"]).await.out);
    let names = |objects: &[Value]| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        objects.iter().map(|object| (text(&object["name"]), text(&object["kind"]))).collect()
    };
    let all = [("a two", "rw_lock"), ("b/one", "mutex"), ("c", "semaphore"), ("d", "election")];
    assert_eq!(names(&listed), all.map(|(name, kind)| (name.to_owned(), kind.to_owned())));
    let one = &listed[1];
    assert_eq!((&one["waiters"], &one["holders"][0]["owner"]), (&1.into(), &client.owner().into()));
    assert_eq!(one["holders"][0]["token"], held.fencing_token().as_u64());
    let some = Output::objects(&store.run(&["ls", "b/", "--json"]).await.out);
    assert_eq!(some.len(), 1);
    let text = store.run(&["ls", "b"]).await.out;
    assert!(text.contains("b/one") && text.contains(client.owner()), "{text}");

    let queue = Output::objects(&store.run(&["queue", "b/one", "--json"]).await.out);
    assert_eq!(queue.len(), 2);
    assert_eq!((&queue[0]["key"], &queue[1]["position"]), (&held.key().into(), &1.into()));
    for (kind, name) in [("rw_lock", "a two"), ("semaphore", "c"), ("election", "d")] {
        let queue = store.run(&["queue", name, "--kind", kind, "--json"]).await;
        assert_eq!(Output::objects(&queue.out).len(), 1, "{queue:?}");
    }
    client.close().await.expect("the store replies");
    assert_eq!(output_of(waiter).await.code(), 0);
}

async fn queue_command_follows_changes(store: Store) {
    let client = store.client().await;
    let mut stream = Stream::start(&store, &["queue", "q", "--watch", "--json"]);
    let length = |object: &Value| object["queue"].as_array().map_or(0, Vec::len);
    let guard = client.mutex("q").lock().await.expect("free");
    stream.until(|object| length(object) == 1).await;
    let waiter = store.distlock(&["run", "q", "--", "true"]).spawn().expect("the process starts");
    stream.until(|object| length(object) == 2).await;
    guard.unlock().await.expect("the store replies");
    stream.until(|object| length(object) == 0).await;
    assert_eq!(output_of(waiter).await.code(), 0);
    stream.end().await;
    client.close().await.expect("the store replies");
}

async fn leaders_are_elected_and_observed(store: Store) {
    let no_leader = store.run(&["leader", "e"]).await;
    assert_eq!(no_leader.code(), 1, "{no_leader:?}");
    assert!(no_leader.err.contains("e has no leader"), "{no_leader:?}");
    let mut observed = Stream::start(&store, &["observe", "e", "--json"]);
    let place = TempDir::new().expect("a folder");
    let script = format!("env >{}; exec sleep 100", place.path().join("env").display());
    let elect = |value: &str| {
        let args = ["elect", "e", value, "--", "sh", "-c", &script];
        store.distlock(&args).spawn().expect("the process starts")
    };
    let first = elect("one");
    let seen = observed.until(|object| object["value"] == "one").await;
    assert!(seen["token"].as_u64().is_some_and(|token| token > 0));
    let leader = store.run(&["leader", "e"]).await;
    assert_eq!((leader.code(), &*leader.out), (0, "one\n"));
    let busy = store.run(&["elect", "e", "three", "-n", "--", "true"]).await;
    assert_eq!(busy.code(), 75, "{busy:?}");
    let second = elect("two");
    let client = store.client().await;
    let waits = async || client.election("e").queue().await.expect("a reply").len() == 2;
    until("the client waits", waits).await;
    assert_eq!(ended_by(first, Signal::TERM).await.code(), 143);
    observed.until(|object| object["value"] == "two").await;
    // The second command writes it again.
    let runs = async || {
        let environment = fs::read_to_string(place.path().join("env")).unwrap_or_default();
        environment.contains("DISTLOCK_NAME=e\n")
    };
    until("the second command has its environment", runs).await;
    assert_eq!(ended_by(second, Signal::TERM).await.code(), 143);
    assert_eq!(store.run(&["leader", "e"]).await.code(), 1);
    observed.end().await;
    client.close().await.expect("the store replies");
}

async fn ask_command_requests_release(store: Store) {
    assert_eq!(store.run(&["ask", "a", "nobody is there"]).await.code(), 1);
    let client = store.client().await;
    let guard = client.mutex("a").lock().await.expect("free");
    let late = store.run(&["ask", "a", "in vain", "-w", "300ms"]).await;
    assert_eq!(late.code(), 75, "{late:?}");
    let asking = store
        .distlock(&["ask", "a", "a deployment", "--json"])
        .spawn()
        .expect("the process starts");
    assert_eq!(guard.release_requested().await.reason(), "a deployment");
    guard.unlock().await.expect("the store replies");
    let asked = output_of(asking).await;
    assert_eq!(asked.code(), 0, "{asked:?}");
    let released = &Output::objects(&asked.out)[0];
    assert_eq!((&released["owner"], &released["released"]), (&client.owner().into(), &true.into()));

    // The holder acquires the lock again, at once. On etcd, its key is the same.
    for _ in 0..10 {
        let guard = client.mutex("a").lock().await.expect("free");
        let asking = store.distlock(&["ask", "a", "a turn"]).spawn().expect("the process starts");
        guard.release_requested().await;
        guard.unlock().await.expect("the store replies");
        let guard = client.mutex("a").lock().await.expect("free");
        assert_eq!(output_of(asking).await.code(), 0);
        guard.unlock().await.expect("the store replies");
    }

    // `run` reports the requester and the reason.
    let mut holder = Stream::of_messages(store.distlock(&holding(&["run", "a"])));
    holder.until(|object| object["event"] == "started").await;
    let asking = store.distlock(&["ask", "a", "another one"]).spawn().expect("the process starts");
    let request = holder.until(|object| object["event"] == "asked").await;
    assert_eq!((&request["name"], &request["reason"]), (&"a".into(), &"another one".into()));
    holder.end().await;
    assert_eq!(output_of(asking).await.code(), 0);
    client.close().await.expect("the store replies");
}

/// Adds options, and a command that waits for a signal.
fn holding<'a>(args: &[&'a str]) -> Vec<&'a str> {
    [args, &["--json", "--", "sleep", "100"]].concat()
}

async fn request_release(client: &Client, kind: LockKind, name: &str, reason: &str) {
    let requested = match kind {
        LockKind::Mutex => client.mutex(name).request_release(reason).await,
        LockKind::RwLock => client.rw_lock(name).request_release(reason).await,
        LockKind::Semaphore => client.semaphore(name, 2).request_release(reason).await,
        _ => client.election(name).request_release(reason).await,
    };
    assert!(requested.expect("a reply"), "{name} is not held");
}

/// `ask` requests only the release of mutexes. Programs request any release.
async fn the_first_request_for_each_lock_is_reported(store: Store) {
    let client = store.client().await;
    for (args, kind, names) in [
        (&["run", "one"][..], LockKind::Mutex, &["one"][..]),
        (&["run", "--all", "c,d"], LockKind::Mutex, &["d", "c"]),
        (&["run", "shared", "--shared"], LockKind::RwLock, &["shared"]),
        (&["run", "exclusive", "--exclusive"], LockKind::RwLock, &["exclusive"]),
        (&["run", "permits", "--permits", "1/2"], LockKind::Semaphore, &["permits"]),
        (&["elect", "leader", "one"], LockKind::Election, &["leader"]),
    ] {
        let mut holder = Stream::of_messages(store.distlock(&holding(args)));
        holder.until(|object| object["event"] == "started").await;
        for name in names {
            let reason = format!("for {name}");
            request_release(&client, kind, name, &reason).await;
            let request = holder.until(|object| object["event"] == "asked").await;
            assert_eq!(request["name"], *name, "{request}");
            assert_eq!(request["reason"], reason, "{request}");
            assert_eq!(request["owner"], client.owner(), "{request}");
        }
        holder.end().await;
    }
    client.close().await.expect("the store replies");
}

/// A round trip takes longer than the pause between two deadlines for the guardian.
async fn requests_are_reported_over_a_slow_network(store: Store) {
    let client = store.client().await;
    let endpoints = servers::endpoints(&store.backend.url()).await;
    let proxies = Proxies::start(store.backend, &endpoints).await;
    let url = format!("{}{}", proxies.url(), store.namespace);
    proxies.set(&Mode::Delay(Duration::from_millis(150)));
    let mut holder = Stream::of_messages(distlock_at(&url, &holding(&["run", "far"])));
    holder.until(|object| object["event"] == "started").await;
    request_release(&client, LockKind::Mutex, "far", "a deployment").await;
    holder.until(|object| object["reason"] == "a deployment").await;
    holder.end().await;
    client.close().await.expect("the store replies");
}

async fn a_holder_is_evicted_by_its_key(store: Store) {
    let client = store.client().await;
    let guard = client.mutex("stuck").lock().await.expect("free");
    let unsure = store.run(&["evict", guard.key()]).await;
    assert_eq!(unsure.code(), 64, "{unsure:?}");
    assert!(unsure.err.contains("--yes"), "{unsure:?}");
    for outside in ["/elsewhere/a/b", "a", "/zookeeper/config"] {
        let refused = store.run(&["evict", outside, "--yes"]).await;
        assert_eq!(refused.code(), 64, "{refused:?}");
    }
    let token = u64::from(guard.fencing_token());
    let earlier = (token - 1).to_string();
    let spared = store.run(&["evict", guard.key(), "--token", &earlier, "--yes"]).await;
    assert_eq!(spared.code(), 1, "{spared:?}");
    let says = format!("{} has the token {token}, not {earlier}", guard.key());
    assert!(spared.err.contains(&says), "{spared:?}");
    assert!(guard.is_valid());
    let token = token.to_string();
    let evicted = store.run(&["evict", guard.key(), "--token", &token, "--yes", "--json"]).await;
    assert_eq!(evicted.code(), 0, "{evicted:?}");
    assert_eq!(Output::objects(&evicted.out)[0]["evicted"], true);
    assert_eq!(guard.lost().await, distlock::LostReason::Evicted);
    let absent = store.run(&["evict", guard.key(), "--token", &token, "--yes"]).await;
    assert!(absent.code() == 1 && absent.err.contains("no such key"), "{absent:?}");
    // The former name of the command.
    assert_eq!(store.run(&["break", guard.key(), "--yes"]).await.code(), 1);
    assert_eq!(store.queue(&client, "stuck").await, 0);
    client.close().await.expect("the store replies");
}

async fn permits_are_shown_and_changed(store: Store) {
    let client = store.client().await;
    let semaphore = client.semaphore("p", 3);
    let permit = semaphore.acquire().await.expect("free");
    assert_eq!(store.run(&["permits", "p"]).await.out, "3\n");
    let set = store.run(&["permits", "p", "--set", "1", "--json"]).await;
    assert_eq!(set.code(), 0, "{set:?}");
    let set = &Output::objects(&set.out)[0];
    assert_eq!((&set["permits"], &set["before"]), (&1.into(), &3.into()));
    assert_eq!(store.run(&["permits", "p"]).await.out, "1\n");
    assert!(semaphore.try_acquire().await.expect("a reply").is_none());
    permit.release().await.expect("the store replies");
    assert_eq!(store.run(&["permits", "p", "--set", "0"]).await.code(), 64);
    // The number is kept even if no client has used the semaphore yet.
    assert_eq!(store.run(&["permits", "unused", "--set", "2"]).await.out, "2\n");
    assert_eq!(store.run(&["permits", "unused"]).await.out, "2\n");
    // For a client that passes a number which was never replaced, the smaller one applies.
    let single = client.semaphore("unused", 1);
    let permit = single.acquire().await.expect("free");
    assert_eq!(single.permits().await.expect("a reply"), 1);
    assert!(client.semaphore("unused", 2).try_acquire().await.expect("a reply").is_none());
    permit.release().await.expect("the store replies");
    client.close().await.expect("the store replies");
}

async fn doctor_checks_everything(store: Store) {
    let well = store.run(&["doctor", "--json"]).await;
    assert_eq!(well.code(), 0, "{well:?}");
    let checks = Output::objects(&well.out);
    let found = |check: &str| checks.iter().filter(|object| object["check"] == check).count();
    assert_eq!(found("server"), 3);
    assert_eq!(found("version"), 4, "three servers and distlock");
    for check in ["session", "ttl", "round trip", "rights", "clock"] {
        assert_eq!(found(check), 1, "{check}: {checks:?}");
    }
    assert!(checks.iter().all(|object| object["verdict"] == "ok"), "{checks:?}");
    let text = store.run(&["doctor"]).await.out;
    assert!(text.contains("round trip"), "{text}");

    let scheme = store.backend.scheme();
    let nowhere = format!("{scheme}://u:geheim@127.0.0.1:1?connect_timeout=300ms");
    let ill = run(distlock_at(&nowhere, &["doctor"])).await;
    assert_eq!(ill.code(), 69, "{ill:?}");
    assert!(ill.out.contains("firewall") && !format!("{ill:?}").contains("geheim"), "{ill:?}");
    let one = store.backend.url_with_users();
    let (_, hosts) = one.split_once("://").expect("a URL");
    let unknown_user = format!("{scheme}://{hosts}/cli-nobody");
    if store.backend == distlock_testkit::backend::Backend::Etcd {
        let refused = run(distlock_at(&unknown_user, &["doctor"])).await;
        assert!(matches!(refused.code(), 1 | 77), "{refused:?}");
        assert!(refused.out.contains("BAD"), "{refused:?}");
    }
}

async fn top_shows_changes(store: Store) {
    let mut top = Stream::start(&store, &["top", "--json", "--interval", "100ms"]);
    top.until(|object| object["locks"].as_array().is_some_and(Vec::is_empty)).await;
    let client = store.client().await;
    let mutex = client.mutex("t");
    let guard = mutex.lock().await.expect("free");
    let other = distlock::Client::connect(&store.url).await.expect("the store replies");
    let next = other.mutex("t");
    let mut waiting = std::pin::pin!(next.lock());
    let seen = tokio::select! {
        _ = &mut waiting => panic!("the lock is held"),
        seen = top.until(|object| object["waiters"] == 1) => seen,
    };
    assert_eq!(seen["locks"][0]["holders"][0]["key"], guard.key());
    guard.unlock().await.expect("the store replies");
    let guard = waiting.await.expect("the lock is free");
    let rate = |object: &Value| object["handovers_per_second"].as_f64().unwrap_or_default();
    top.until(|object| rate(object) > 0.0).await;
    // A waiter that gives up.
    {
        let mut waiting = std::pin::pin!(mutex.lock());
        tokio::select! {
            _ = &mut waiting => panic!("the lock is held"),
            _ = top.until(|object| object["waiters"] == 1) => {}
        }
    }
    top.until(|object| object["lost_places"] == 1).await;
    guard.unlock().await.expect("the store replies");
    top.end().await;
    client.close().await.expect("the store replies");
    other.close().await.expect("the store replies");
}

on_each_store!(
    all_locks_are_listed,
    queue_command_follows_changes,
    leaders_are_elected_and_observed,
    ask_command_requests_release,
    the_first_request_for_each_lock_is_reported,
    requests_are_reported_over_a_slow_network,
    a_holder_is_evicted_by_its_key,
    permits_are_shown_and_changed,
    doctor_checks_everything,
    top_shows_changes,
);

#[tokio::test]
async fn completions_and_the_manual_need_no_store() {
    let printed = async |args: &[&str]| {
        let mut command = distlock_at("", args);
        command.env_remove("DISTLOCK_URL");
        let output = run(command).await;
        assert_eq!(output.code(), 0, "{output:?}");
        output.out
    };
    for (shell, sign) in [("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")] {
        let text = printed(&["completions", shell]).await;
        assert!(text.contains(sign) && text.contains("once-per"), "{shell}: {text}");
        assert!(!text.contains("__guardian"), "{shell} shows a hidden command");
    }
    let manual = printed(&["man"]).await;
    for word in
        [".TH", "once\\-per", "DISTLOCK_TOKEN", "69  no usable server", "doctor", "Exit codes"]
    {
        assert!(manual.contains(word), "no {word} in {manual}");
    }
}

/// Only the shell, which leads the session, receives SIGHUP.
#[tokio::test]
async fn top_ends_with_its_terminal() {
    let place = TempDir::new().expect("a folder");
    let path = |name: &str| place.path().join(name);
    let line = format!(
        "stty rows 24 cols 80; trap : HUP; sh -c 'echo $$ >{}; exec {} --local top'; echo $? >{}",
        path("pid").display(),
        env!("CARGO_BIN_EXE_distlock"),
        path("code").display(),
    );
    let mut terminal = Command::new("script");
    terminal.args(["-qfec", &line, "/dev/null"]).kill_on_drop(true);
    terminal.env("SHELL", "/bin/sh").env("TERM", "xterm").env("XDG_STATE_HOME", place.path());
    terminal.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut terminal = terminal.spawn().expect("the terminal starts");
    let mut screen = terminal.stdout.take().expect("the stream is piped");
    let (long, mut shown) = (Duration::from_secs(60), Vec::<u8>::new());
    while !shown.windows(4).any(|bytes| bytes == b"quit") {
        let read = timeout(long, screen.read_buf(&mut shown)).await.expect("it is shown in time");
        assert_ne!(read.expect("the output is read"), 0, "{}", String::from_utf8_lossy(&shown));
    }
    signal(&terminal, Signal::KILL);
    let code = timeout(long / 2, until_written(&path("code"))).await;
    if code.is_err() {
        let pid = fs::read_to_string(path("pid")).expect("it was started");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
        kill_process(pid, Signal::KILL).expect("it still runs");
    }
    assert_eq!(code.expect("it ends with its terminal").trim(), "71");
}
