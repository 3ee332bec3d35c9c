//! `distlock run`: the command's environment, its end, and the exit codes.

use std::{
    fs,
    io::{PipeReader, PipeWriter, Write, pipe},
    time::{Duration, UNIX_EPOCH},
};

use distlock_testkit::{backend::Backend, proxies::Proxies, proxy::Mode, servers};
use rustix::{
    pipe::fcntl_getpipe_size,
    process::{Pid, Signal, kill_process},
};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, process::Child};

use crate::{
    probe,
    store::{
        Output, Store, Stream, distlock_at, ended_by, on_each_store, output_of, run, signal, until,
        until_written,
    },
};

/// A command that writes a file and then waits for a signal.
fn sitting(place: &TempDir) -> String {
    format!("echo $$ >{}; exec sleep 100", place.path().join("there").display())
}

impl Store {
    /// Starts `distlock` with a command, and waits until the command runs.
    async fn holding(&self, args: &[&str]) -> Child {
        self.holding_in(&TempDir::new().expect("a folder"), args).await
    }

    /// Starts `distlock` with a command that has written its process id to `there` in this folder.
    async fn holding_in(&self, place: &TempDir, args: &[&str]) -> Child {
        let sitting = sitting(place);
        let args = [&["run"], args, &["--", "sh", "-c", &sitting]].concat();
        let child = self.distlock(&args).spawn().expect("the process starts");
        until_written(&place.path().join("there")).await;
        child
    }

    /// Starts a waiter behind a holder of the lock.
    async fn waiting(&self, name: &str, args: &[&str]) -> Child {
        let args = [&["run", name], args, &["--", "true"]].concat();
        let child = self.distlock(&args).spawn().expect("the process starts");
        let client = self.client().await;
        until("the client waits", async || self.queue(&client, name).await == 2).await;
        client.close().await.expect("the store replies");
        child
    }
}

async fn the_command_gets_its_input_and_its_environment(store: Store) {
    let script = "cat; env; exit 3";
    let mut command = store.distlock(&["run", "env", "--", "sh", "-c", script]);
    command.stdin(std::process::Stdio::piped());
    let mut child = command.spawn().expect("the process starts");
    let mut input = child.stdin.take().expect("the stream is piped");
    input.write_all(b"some input\n").await.expect("the output is read");
    drop(input);
    let output = output_of(child).await;
    assert_eq!(output.code(), 3, "{output:?}");
    assert_eq!(output.err, "", "no other output was requested");
    let mut lines = output.out.lines();
    assert_eq!(lines.next(), Some("some input"));
    let value = |name: &str| {
        let line = output.out.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("no {name}: {output:?}")).to_owned()
    };
    assert_eq!(value("DISTLOCK_NAME"), "env");
    assert!(value("DISTLOCK_TOKEN").parse::<u64>().is_ok_and(|token| token > 0));
    assert!(value("DISTLOCK_KEY").starts_with(&format!("{}/env/", store.namespace)));
    assert!(value("DISTLOCK_OWNER").contains(':'));
    assert_eq!(value("DISTLOCK_URL"), store.url);
}

async fn exit_code_of_the_command_is_returned(store: Store) {
    for (command, code) in [
        (&["true"][..], 0),
        (&["sh", "-c", "exit 42"], 42),
        (&["sh", "-c", "kill -KILL $$"], 137),
        (&["sh", "-c", "kill -USR1 $$"], 138),
        (&["distlock-has-no-such-command"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let output = store.run(&[&["run", "code", "--"], command].concat()).await;
        assert_eq!(output.code(), code, "{command:?}: {output:?}");
    }
    // No shell is involved.
    let output = store.run(&["run", "code", "--", "echo", "$HOME", ";", "*"]).await;
    assert_eq!(output.out, "$HOME ; *\n");
}

async fn a_busy_lock_is_reported(store: Store) {
    let holder = store.holding(&["busy"]).await;
    for (args, code) in [
        (&["-n"][..], 75),
        (&["-w", "200ms"], 75),
        (&["-w", "0.2"], 75),
        (&["-n", "--conflict-exit-code", "9"], 9),
        (&["-w", "0s", "--conflict-exit-code", "0"], 0),
    ] {
        let args = [&["run", "busy"], args, &["--", "echo", "run"]].concat();
        let output = store.run(&args).await;
        assert_eq!((output.code(), &*output.out), (code, ""), "{output:?}");
        assert!(output.err.contains("busy: held or awaited by another"), "{output:?}");
    }
    let client = store.client().await;
    assert_eq!(store.queue(&client, "busy").await, 1, "something was left behind");
    assert_eq!(ended_by(holder, Signal::TERM).await.code(), 143);
    assert_eq!(store.queue(&client, "busy").await, 0, "something was left behind");
    client.close().await.expect("the store replies");
}

async fn signals_are_passed_on(store: Store) {
    let signals =
        [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];
    for passed in signals {
        let holder = store.holding(&["signals"]).await;
        assert_eq!(ended_by(holder, passed).await.code(), 128 + passed.as_raw(), "{passed:?}");

        let place = TempDir::new().expect("a folder");
        let there = place.path().join("trap");
        let number = passed.as_raw();
        let script = format!(
            "trap 'exit 7' {number}; echo $$ >{}; while :; do sleep 0.05; done",
            there.display()
        );
        let args = ["run", "signals", "--", "sh", "-c", &script];
        let holder = store.distlock(&args).spawn().expect("the process starts");
        until_written(&there).await;
        assert_eq!(ended_by(holder, passed).await.code(), 7, "{passed:?}");
    }
}

async fn ignored_signals_stay_ignored(store: Store) {
    let place = TempDir::new().expect("a folder");
    let (there, end) = (place.path().join("there"), place.path().join("end"));
    let script = format!(
        "echo $$ >{}; while [ ! -e {} ]; do sleep 0.02; done; exit 8",
        there.display(),
        end.display()
    );
    let program = env!("CARGO_BIN_EXE_distlock");
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", program, "run", "nohup", "--"]);
    command.args(["sh", "-c", &script]).env("DISTLOCK_URL", &store.url);
    let holder = command.kill_on_drop(true).spawn().expect("the process starts");
    until_written(&there).await;
    signal(&holder, Signal::HUP);
    fs::write(end, "now").expect("the file is written");
    assert_eq!(output_of(holder).await.code(), 8);
}

/// Parents that ignore SIGCHLD, so that the kernel reaps their children, pass this on.
async fn ignored_child_signals_hide_no_exit_code(store: Store) {
    for code in [0, 3] {
        let mut command = tokio::process::Command::new("env");
        command.args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_distlock"), "run", "chld"]);
        command.args(["--", "sh", "-c", &format!("exit {code}")]);
        command.env("DISTLOCK_URL", &store.url).kill_on_drop(true);
        let output = output_of(command.spawn().expect("the process starts")).await;
        assert_eq!(output.code(), code, "{output:?}");
    }
}

/// Returns a pipe that is full, so that the next write to it blocks.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().expect("a pipe");
    let size = fcntl_getpipe_size(&writer).expect("a pipe");
    writer.write_all(&vec![b'.'; size]).expect("the pipe is empty");
    (reader, writer)
}

/// The messages are about the wait, the grant, the start and the end.
async fn blocked_messages_keep_no_lock(store: Store) {
    let holder = store.holding(&["blocked"]).await;
    let (_reader, writer) = full_pipe();
    let args = ["run", "blocked", "--json", "--wait-log", "50ms", "--", "echo", "it runs"];
    let mut command = store.distlock(&args);
    let waiter = command.stderr(writer).spawn().expect("the process starts");
    let client = store.client().await;
    until("the client waits", async || store.queue(&client, "blocked").await == 2).await;
    ended_by(holder, Signal::TERM).await;
    let output = output_of(waiter).await;
    assert_eq!((output.code(), output.out.as_str()), (0, "it runs\n"), "{output:?}");
    assert_eq!(store.queue(&client, "blocked").await, 0, "something was left behind");
    client.close().await.expect("the store replies");
}

/// The guardian reports that `distlock` was killed.
async fn blocked_message_keeps_no_command_alive(store: Store) {
    let place = TempDir::new().expect("a folder");
    let there = place.path().join("there");
    let (_reader, writer) = full_pipe();
    let script = format!("trap '' TERM; echo $$ >{}; while :; do sleep 1; done", there.display());
    let args = ["run", "silent", "--ttl", "3s", "--", "sh", "-c", &script];
    let holder = store.distlock(&args).stderr(writer).spawn().expect("the process starts");
    let pid = until_written(&there).await.trim().parse().expect("a number");
    signal(&holder, Signal::KILL);
    until("the command is killed", async || !probe::lives(pid)).await;
}

async fn signals_end_the_wait(store: Store) {
    let holder = store.holding(&["wait"]).await;
    let client = store.client().await;
    for ending in [Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1] {
        let waiter = store.waiting("wait", &[]).await;
        assert_eq!(ended_by(waiter, ending).await.code(), 128 + ending.as_raw(), "{ending:?}");
        assert_eq!(store.queue(&client, "wait").await, 1, "something was left behind");
    }
    client.close().await.expect("the store replies");
    ended_by(holder, Signal::TERM).await;
}

async fn waiting_is_logged_if_asked_for(store: Store) {
    let holder = store.holding(&["log"]).await;
    let args = ["run", "log", "-w", "1s", "--", "true"];
    let silent = store.run(&args).await;
    assert!(!silent.err.contains("waiting for"), "{silent:?}");
    let args = ["run", "log", "-w", "1s", "--wait-log", "100ms", "--", "true"];
    let lines = store.run(&args).await;
    assert!(lines.err.contains("waiting for log at position 1 in the queue; "), "{lines:?}");
    let args = ["run", "log", "--json", "-w", "1s", "--wait-log", "100ms", "--", "true"];
    let objects = Output::objects(&store.run(&args).await.err);
    let waiting =
        objects.iter().find(|object| object["event"] == "waiting").expect("the client waits");
    assert_eq!(waiting["place"], 1);
    assert_eq!(objects.last().expect("one")["event"], "busy");
    ended_by(holder, Signal::TERM).await;
    let objects = Output::objects(&store.run(&["run", "log", "--json", "--", "true"]).await.err);
    let events: Vec<_> = objects.iter().map(|object| object["event"].as_str()).collect();
    assert_eq!(events, [Some("granted"), Some("started"), Some("ended")]);
}

async fn lock_kinds_exclude_each_other_correctly(store: Store) {
    let busy = async |args: &[&str]| {
        let args = [&["run"], args, &["-n", "--", "true"]].concat();
        match store.run(&args).await.code() {
            0 => false,
            75 => true,
            code => panic!("{args:?}: {code}"),
        }
    };
    let reader = store.holding(&["a", "--shared"]).await;
    assert!(!busy(&["a", "--shared"]).await);
    assert!(busy(&["a", "--exclusive"]).await);
    let permits = store.holding(&["b", "--permits", "2/3"]).await;
    assert!(!busy(&["b", "--permits", "1/3"]).await);
    assert!(busy(&["b", "--permits", "2/3"]).await);
    // The smaller number counts.
    assert!(busy(&["b", "--permits", "2/4"]).await);
    let all = store.holding(&["--all", "c,d"]).await;
    assert!(busy(&["c"]).await && busy(&["d"]).await);
    assert!(busy(&["e", "--all", "d"]).await);
    assert!(!busy(&["e", "--all", "f"]).await);
    for holder in [reader, permits, all] {
        assert_eq!(ended_by(holder, Signal::TERM).await.code(), 143);
    }
    assert!(!busy(&["a", "--exclusive"]).await);
    assert!(!busy(&["--all", "c,d,e"]).await);
    // The names are in the order of the tokens and keys.
    let echo = "echo $DISTLOCK_NAME $DISTLOCK_TOKEN $DISTLOCK_KEY";
    let output = store.run(&["run", "--all", "d,c,d", "--", "sh", "-c", echo]).await;
    let values: Vec<Vec<_>> =
        output.out.split_whitespace().map(|value| value.split(',').collect()).collect();
    let [names, tokens, keys] = &values[..] else { panic!("{output:?}") };
    assert_eq!((&names[..], tokens.len(), keys.len()), (&["c", "d"][..], 2, 2));
    assert!(names.iter().zip(keys).all(|(name, key)| key.contains(name)), "{output:?}");
}

async fn hold_at_least_keeps_the_lock(store: Store) {
    let start = std::time::Instant::now();
    let args = ["run", "least", "--hold-at-least", "1s", "--json", "--", "true"];
    let mut held = store.distlock(&args).spawn().expect("the process starts");
    let client = store.client().await;
    until("the lock is held", async || store.queue(&client, "least").await == 1).await;
    assert_eq!(store.run(&["run", "least", "-n", "--", "true"]).await.code(), 75);
    assert!(held.wait().await.expect("the process is a child").success());
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(store.queue(&client, "least").await, 0, "something was left behind");
    // A signal ends it early.
    let args = ["run", "least", "--hold-at-least", "50s", "--", "sh", "-c", "exit 4"];
    let held = store.distlock(&args).spawn().expect("the process starts");
    until("the lock is held", async || store.queue(&client, "least").await == 1).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    signal(&held, Signal::TERM);
    let code = output_of(held).await.code();
    assert!(code == 4 || code == 143, "{code}");
    client.close().await.expect("the store replies");
}

async fn no_child_process_is_left(store: Store) {
    let place = TempDir::new().expect("a folder");
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    let script = format!(
        "sh -c 'trap \"\" TERM; echo $$ >{one}; while :; do sleep 0.1; done' & \
         setsid sh -c 'trap \"\" TERM; echo $$ >{other}; while :; do sleep 0.1; done' & \
         while [ ! -s {one} ] || [ ! -s {other} ]; do sleep 0.01; done; exit 5",
        one = one.display(),
        other = other.display(),
    );
    let output = store.run(&["run", "left", "--ttl", "3s", "--", "sh", "-c", &script]).await;
    assert_eq!(output.code(), 5, "{output:?}");
    for left in [one, other] {
        let pid =
            fs::read_to_string(left).expect("the command ran").trim().parse().expect("a number");
        assert!(!probe::lives(pid), "{pid} lives");
    }
}

/// Returns the process ids of a command that has written its own to `there`, and of its guardian.
fn guarded(place: &TempDir) -> (u32, Pid) {
    let there = fs::read_to_string(place.path().join("there")).expect("the command runs");
    let pid: u32 = there.trim().parse().expect("a number");
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the command runs");
    let guardian =
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
    (pid, guardian.and_then(Pid::from_raw).expect("a parent"))
}

async fn killed_guardian_kills_the_command(store: Store) {
    let place = TempDir::new().expect("a folder");
    let holder = store.holding_in(&place, &["guardian"]).await;
    let (pid, guardian) = guarded(&place);
    kill_process(guardian, Signal::KILL).expect("the process is a child");
    let output = output_of(holder).await;
    assert_eq!(output.code(), 70, "{output:?}");
    assert!(output.err.contains("the guardian ended unexpectedly"), "{output:?}");
    assert!(!probe::lives(pid));
}

/// A guardian that stays stopped would forward no signal.
async fn stopped_guardian_is_continued(store: Store) {
    let place = TempDir::new().expect("a folder");
    let holder = store.holding_in(&place, &["stopped"]).await;
    let (pid, guardian) = guarded(&place);
    kill_process(guardian, Signal::STOP).expect("the process is a child");
    assert_eq!(ended_by(holder, Signal::TERM).await.code(), 143);
    assert!(!probe::lives(pid));
}

/// The program of `--on-lost` hangs.
async fn a_signal_ends_the_program_of_on_lost(store: Store) {
    let (place, hanging) = [(); 2].map(|()| TempDir::new().expect("a folder")).into();
    let on_lost = format!("sh -c '{}'", sitting(&hanging));
    let holder = store.holding_in(&place, &["hanging", "--on-lost", &on_lost]).await;
    let client = store.client().await;
    let key = client.mutex("hanging").holder().await.expect("a reply").expect("it is held");
    assert!(client.evict(key.key()).await.expect("the store replies"));
    client.close().await.expect("the store replies");
    let pid = until_written(&hanging.path().join("there")).await;
    let ended = ended_by(holder, Signal::TERM).await;
    assert_eq!(ended.code(), 70, "{ended:?}");
    assert!(!probe::lives(pid.trim().parse().expect("a number")));
}

/// A shell and the kernel both send HUP when a terminal is closed.
async fn repeated_signals_leave_no_key_behind(store: Store) {
    let holder = store.holding(&["hangup"]).await;
    let client = store.client().await;
    let endpoints = servers::endpoints(&store.backend.url()).await;
    let proxies = Proxies::start(store.backend, &endpoints).await;
    let url = format!("{}{}", proxies.url(), store.namespace);
    let waiter = distlock_at(&url, &["run", "hangup", "--ttl", "30s", "--", "true"]).spawn();
    let mut waiter = waiter.expect("the process starts");
    until("the client waits", async || store.queue(&client, "hangup").await == 2).await;
    // The client is still closing when the second signal arrives.
    proxies.set(&Mode::Delay(Duration::from_millis(100)));
    until("the process ends", async || {
        let ended = waiter.try_wait().expect("the process is a child").is_some();
        if !ended {
            signal(&waiter, Signal::HUP);
        }
        ended
    })
    .await;
    assert_eq!(output_of(waiter).await.code(), 129);
    assert_eq!(store.queue(&client, "hangup").await, 1, "something was left behind");
    client.close().await.expect("the store replies");
    ended_by(holder, Signal::TERM).await;
}

async fn a_lost_lock_ends_the_command_and_is_reported(store: Store) {
    let place = TempDir::new().expect("a folder");
    let record = place.path().join("lost");
    let on_lost = format!("sh -c 'echo \"$DISTLOCK_NAME: $DISTLOCK_LOST\" >{}'", record.display());
    let holder = store.holding_in(&place, &["lost", "--on-lost", &on_lost]).await;
    let client = store.client().await;
    let key = client.mutex("lost").holder().await.expect("an answer").expect("it is held");
    client.close().await.expect("the store answers");
    let evicted = store.run(&["evict", key.key(), "--yes"]).await;
    assert_eq!(evicted.code(), 0, "{evicted:?}");
    let ended = output_of(holder).await;
    assert_eq!(ended.code(), 70, "{ended:?}");
    let reason = "the holder was evicted: its key was deleted or overwritten";
    assert!(ended.err.contains(&format!("lost was lost: {reason}")), "{ended:?}");
    assert_eq!(fs::read_to_string(&record).expect("the command ran"), format!("lost: {reason}\n"));
}

async fn a_command_may_end_in_order_before_the_deadline(store: Store) {
    let place = TempDir::new().expect("a folder");
    let (there, end) = (place.path().join("there"), place.path().join("end"));
    let endpoints = servers::endpoints(&store.backend.url()).await;
    let proxies = Proxies::start(store.backend, &endpoints).await;
    let url = format!("{}{}", proxies.url(), store.namespace);
    let script = format!(
        "trap 'echo in order >{}; exit 0' INT; echo $$ >{}; while :; do sleep 0.02; done",
        end.display(),
        there.display()
    );
    let args = ["run", "order", "--ttl", "4s", "--kill-signal", "INT", "--kill-after", "500ms"];
    let args = [&args[..], &["--json", "--", "sh", "-c", &script]].concat();
    let holder = distlock_at(&url, &args).spawn().expect("the process starts");
    until_written(&there).await;
    proxies.set(&Mode::Blackhole);
    let ended = output_of(holder).await;
    assert_eq!(ended.code(), 70, "{ended:?}");
    assert_eq!(fs::read_to_string(end).expect("the command had time to end"), "in order\n");
    let objects = Output::objects(&ended.err);
    assert_eq!(objects.last().expect("one")["event"], "lost", "{objects:?}");
}

/// A failed run counts for its period, until an operator clears it.
async fn clear_command_resets_a_period(store: Store) {
    let nothing = store.run(&["clear", "daily"]).await;
    assert_eq!(nothing.code(), 1, "{nothing:?}");
    let run = async || {
        store
            .run(&["run", "daily", "--once-per", "24h", "--", "sh", "-c", "echo ran; exit 9"])
            .await
    };
    assert_eq!(run().await.code(), 9);
    let again = run().await;
    assert_eq!((again.code(), again.out.as_str()), (0, ""), "{again:?}");
    let holder = store.holding(&["daily"]).await;
    assert_eq!(store.run(&["clear", "daily"]).await.code(), 75);
    signal(&holder, Signal::TERM);
    let cleared = store.run(&["clear", "daily", "-w", "20s", "--json"]).await;
    assert_eq!(cleared.code(), 0, "{cleared:?}");
    assert_eq!(Output::objects(&cleared.out)[0]["cleared"], true);
    assert_eq!(run().await.out, "ran\n");
    assert_eq!(run().await.out, "");
    assert_eq!(output_of(holder).await.code(), 143);
}

async fn a_signal_ends_clear(store: Store) {
    let holder = store.holding(&["cleared"]).await;
    let clear = store.distlock(&["clear", "cleared", "-w", "60s"]).spawn();
    let clear = clear.expect("the process starts");
    let client = store.client().await;
    until("the client waits", async || store.queue(&client, "cleared").await == 2).await;
    assert_eq!(ended_by(clear, Signal::INT).await.code(), 130);
    assert_eq!(store.queue(&client, "cleared").await, 1, "something was left behind");
    ended_by(holder, Signal::TERM).await;
    // A program has mistaken milliseconds for seconds.
    let guard = client.mutex("cleared").lock().await.expect("free");
    let late = UNIX_EPOCH + Duration::from_secs(1_900_000_000_000);
    assert!(guard.claim_period_at(Duration::from_secs(60), late).await.expect("a reply"));
    guard.unlock().await.expect("the store replies");
    let cleared = store.run(&["clear", "cleared"]).await;
    assert_eq!(cleared.code(), 0, "{cleared:?}");
    client.close().await.expect("the store replies");
}

/// The store is cut off between the decision and the release.
async fn a_skipped_run_is_successful_without_a_release(store: Store) {
    let args = ["run", "skipped", "--once-per", "24h", "--ttl", "30s", "--json", "--", "true"];
    assert_eq!(store.run(&args).await.code(), 0);
    let client = store.client().await;
    let endpoints = servers::endpoints(&store.backend.url()).await;
    let proxies = Proxies::start(store.backend, &endpoints).await;
    let url = format!("{}{}?request_timeout=5s", proxies.url(), store.namespace);
    for _ in 0..5 {
        let guard = client.mutex("skipped").lock().await.expect("the store replies");
        let mut messages = Stream::of_messages(distlock_at(&url, &args));
        until("the client waits", async || store.queue(&client, "skipped").await == 2).await;
        // The message arrives before the request to release the lock reaches the store.
        proxies.set(&Mode::Delay(Duration::from_millis(1_200)));
        guard.unlock().await.expect("the store replies");
        messages.until(|object| object["event"] == "refused").await;
        proxies.set(&Mode::Blackhole);
        let (code, objects) = messages.rest().await;
        assert_eq!(code, Some(0), "{objects:?}");
        proxies.set(&Mode::Pass);
        if objects.iter().any(|object| object["event"] == "unconfirmed") {
            return client.close().await.expect("the store replies");
        }
        // This machine was so busy that the release was confirmed before.
    }
    panic!("the store was never cut off in time");
}

/// The command hangs while its store is available.
async fn a_command_that_hangs_is_killed_after_max_hold(store: Store) {
    let place = TempDir::new().expect("a folder");
    let there = place.path().join("there");
    let script = format!("trap '' TERM; echo $$ >{}; while :; do sleep 1; done", there.display());
    let args = ["run", "hangs", "--max-hold", "2s", "--json", "--", "sh", "-c", &script];
    let holder = store.distlock(&args).spawn().expect("the process starts");
    let pid = until_written(&there).await;
    let next = store.waiting("hangs", &["--wait", "30s"]).await;
    let next = output_of(next).await;
    assert_eq!(next.code(), 0, "{next:?}");
    let pid = Pid::from_raw(pid.trim().parse().expect("a number")).expect("a process");
    assert!(
        rustix::process::test_kill_process(pid).is_err(),
        "the command runs next to its successor"
    );
    let held = output_of(holder).await;
    assert_eq!(held.code(), 70, "{held:?}");
    let objects = Output::objects(&held.err);
    let lost = objects.last().expect("one");
    assert_eq!(lost["event"], "lost", "{objects:?}");
    assert!(lost["reason"].as_str().is_some_and(|text| text.contains("--max-hold")), "{lost}");
    // A command that ends earlier is not affected.
    let output = store.run(&["run", "ends", "--max-hold", "10s", "--", "true"]).await;
    assert_eq!(output.code(), 0, "{output:?}");
}

async fn wrong_usage_is_reported_before_anything_is_sent(store: Store) {
    for args in [
        &["run", "a"][..],
        &["run", "--", "true"],
        &["run", "", "--", "true"],
        &["run", "a", "--ttl", "10ms", "--", "true"],
        &["run", "a", "--ttl", "5s", "--kill-after", "5s", "--", "true"],
        &["run", "a", "--permits", "3/2", "--", "true"],
        &["run", "a", "--max-hold", "0s", "--", "true"],
        &["run", "a", "--max-hold", "100ms", "--", "true"],
        &["run", "a", "--max-hold", "9s", "--hold-at-least", "9s", "--", "true"],
        &["--url", "redis://h?colour=blue", "ls"],
        &["--url", "memory://a", "ls"],
        &["--url", "", "ls"],
        &["--url-file", "/no/such/file", "ls"],
        &["no-such-command"],
        &[],
    ] {
        let output = store.run(args).await;
        assert_eq!(output.code(), 64, "{args:?}: {output:?}");
        assert!(!output.err.is_empty() && output.out.is_empty(), "{args:?}: {output:?}");
    }
    let mut command = store.distlock(&["run", "a", "--local", "--", "true"]);
    // These say where a user's own locks are.
    command.env_remove("HOME").env_remove("XDG_STATE_HOME");
    let output = run(command).await;
    assert_eq!(output.code(), 64);
    assert!(output.err.contains("HOME"), "{output:?}");
    for misplaced in [
        &["ls", "a", "etcd://root:geheim@h"][..],
        &["--local=etcd://root:geheim@h", "ls"],
        &["--url-file", "etcd://root:geheim@h", "ls"],
        &["--url", "etcd://root:geh/eim@h", "doctor"],
    ] {
        let output = store.run(misplaced).await;
        assert_eq!(output.code(), 64, "{output:?}");
        assert!(!format!("{output:?}").contains("geh"), "{output:?}");
    }
    for help in ["--help", "--version"] {
        assert_eq!(store.run(&[help]).await.code(), 0);
    }
    for command in ["run", "elect"] {
        let help = store.run(&[command, "--help"]).await;
        for code in ["64", "69", "70", "71", "75", "77", "126", "127"] {
            assert!(help.out.contains(code), "{command} does not mention {code}");
        }
    }
}

async fn an_unreachable_or_refusing_store_is_reported(store: Store) {
    let scheme = store.backend.scheme();
    // No server listens on that port.
    let nowhere = format!("{scheme}://root:geheim@127.0.0.1:1?connect_timeout=500ms");
    let output = run(distlock_at(&nowhere, &["run", "a", "--", "true"])).await;
    assert_eq!(output.code(), 69, "{output:?}");
    assert!(!format!("{output:?}").contains("geheim"), "{output:?}");
    let url = store.backend.url_with_users();
    servers::endpoints(&url).await;
    let (scheme, hosts) = url.split_once("://").expect("a URL");
    let (user, password) = user(store.backend);
    let of = |password: &str| format!("{scheme}://{user}:{password}@{hosts}{}", store.namespace);
    let args = ["run", "a", "--json", "--", "true"];
    let right = run(distlock_at(&of(password), &args)).await;
    assert_eq!(right.code(), 0, "{right:?}");
    let wrong = run(distlock_at(&of("geheim"), &args)).await;
    assert_eq!(wrong.code(), 77, "{wrong:?}");
    assert!(!format!("{wrong:?}").contains("geheim"), "{wrong:?}");
}

async fn the_command_does_not_get_the_password(store: Store) {
    let place = TempDir::new().expect("a folder");
    let url = store.backend.url_with_users();
    servers::endpoints(&url).await;
    let (scheme, hosts) = url.split_once("://").expect("a URL");
    let (user, password) = user(store.backend);
    let url = format!("{scheme}://{user}:{password}@{hosts}{}", store.namespace);
    let file = place.path().join("url");
    fs::write(&file, format!("{url}\n")).expect("the file is written");
    let file = file.display().to_string();
    let script = "env; tr '\\0' '\\n' </proc/$PPID/environ; tr '\\0' ' ' </proc/$PPID/cmdline";
    let args = ["--url-file", &file, "run", "a", "--json", "--", "sh", "-c", script];
    let mut command = store.distlock(&args);
    command.env_remove("DISTLOCK_URL");
    let from_file = run(command).await;
    let from_environment =
        run(distlock_at(&url, &["run", "a", "--json", "--", "sh", "-c", script])).await;
    for output in [from_file, from_environment] {
        assert_eq!(output.code(), 0, "{output:?}");
        let plain = format!("DISTLOCK_URL={scheme}://{hosts}{}\n", store.namespace);
        assert!(output.out.contains(&plain), "{output:?}");
        assert!(!format!("{output:?}").contains(password), "{output:?}");
    }
}

/// The users with all rights on the servers with authentication.
fn user(backend: Backend) -> (&'static str, &'static str) {
    match backend {
        Backend::Etcd => ("root", "rootpw"),
        Backend::ZooKeeper => ("alice", "alicepw"),
    }
}

on_each_store!(
    the_command_gets_its_input_and_its_environment,
    exit_code_of_the_command_is_returned,
    a_busy_lock_is_reported,
    signals_are_passed_on,
    ignored_signals_stay_ignored,
    ignored_child_signals_hide_no_exit_code,
    blocked_messages_keep_no_lock,
    blocked_message_keeps_no_command_alive,
    signals_end_the_wait,
    waiting_is_logged_if_asked_for,
    lock_kinds_exclude_each_other_correctly,
    hold_at_least_keeps_the_lock,
    no_child_process_is_left,
    killed_guardian_kills_the_command,
    stopped_guardian_is_continued,
    a_signal_ends_the_program_of_on_lost,
    repeated_signals_leave_no_key_behind,
    a_lost_lock_ends_the_command_and_is_reported,
    a_command_may_end_in_order_before_the_deadline,
    clear_command_resets_a_period,
    a_signal_ends_clear,
    a_skipped_run_is_successful_without_a_release,
    a_command_that_hangs_is_killed_after_max_hold,
    wrong_usage_is_reported_before_anything_is_sent,
    an_unreachable_or_refusing_store_is_reported,
    the_command_does_not_get_the_password,
);
