//! A command that ignores TERM, and its children, are dead before the successor begins, whatever
//! happens to `distlock` or to its connection.

use std::{path::Path, time::Duration};

use distlock_testkit::{proxies::Proxies, proxy::Mode, servers};
use futures_util::future::join_all;
use rustix::process::Signal;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    probe::{self, Record},
    store::{Output, Store, distlock_at, on_each_store, output_of, signal, until},
};

/// How often each fault is tried.
const TIMES: usize = 20;
/// How many run at the same time.
const AT_ONCE: usize = 7;
/// Above the minimum of the stores: the lock must not be lost before the fault.
const TTL: &str = "3s";

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// `distlock` is stopped.
    Stopped,
    /// `distlock` is killed.
    Killed,
    /// The servers do not reply for a while.
    Paused,
    /// The servers are cut off.
    CutOff,
}

/// The result of an attempt.
enum Tried {
    /// How long all processes were dead when the successor began.
    Dead(Duration),
    /// The machine was so busy that the lock was lost before the fault.
    TooEarly,
}

impl Store {
    fn probe(&self, url: &str, name: &str, role: &str, place: &Path) -> Command {
        let (command, environment) = probe::command(role, place);
        let mut args = vec!["run", name, "--ttl", TTL, "--"];
        args.extend(command.iter().map(String::as_str));
        let mut command = distlock_at(url, &args);
        command.envs(environment);
        command
    }

    async fn try_once(&self, fault: Fault, number: usize) -> Tried {
        let place = TempDir::new().expect("a folder");
        let (name, record) = (format!("{fault:?}-{number}"), Record::at(place.path()));
        let endpoints = servers::endpoints(&self.backend.url()).await;
        let proxies = Proxies::start(self.backend, &endpoints).await;
        let url = match fault {
            Fault::Stopped | Fault::Killed => self.url.clone(),
            Fault::Paused | Fault::CutOff => format!("{}{}", proxies.url(), self.namespace),
        };
        let start =
            |mut command: Command| -> Child { command.spawn().expect("the process starts") };
        let mut holder = start(self.probe(&url, &name, "stubborn", place.path()));
        until("the command runs", async || record.pids().is_some() || has_ended(&mut holder)).await;
        if record.pids().is_none() {
            println!("the successor did not begin: {:?}", output_of(holder).await);
            return Tried::TooEarly;
        }
        let successor = start(self.probe(&self.url, &name, "successor", place.path()));
        let client = self.client().await;
        let waits = async || self.queue(&client, &name).await >= 2 || has_ended(&mut holder);
        until("the client waits", waits).await;
        let pids = record.pids().expect("both processes run");
        let alive = !has_ended(&mut holder) && pids.into_iter().all(probe::lives);
        match fault {
            Fault::Stopped if alive => signal(&holder, Signal::STOP),
            Fault::Killed if alive => signal(&holder, Signal::KILL),
            Fault::Paused => proxies.set(&Mode::Blackhole),
            Fault::CutOff => proxies.set(&Mode::Refuse),
            Fault::Stopped | Fault::Killed => {}
        }
        let succeeded = output_of(successor).await;
        // The successor may lose the lock itself, before or after the start of its command.
        assert!(matches!(succeeded.code(), 0 | 70), "{succeeded:?}");
        let gap = record.gap();
        if fault == Fault::Stopped && alive {
            signal(&holder, Signal::CONT);
        }
        proxies.set(&Mode::Pass);
        let ended = output_of(holder).await;
        assert!(is_reported(fault, alive, &ended), "{fault:?}: {ended:?}");
        client.close().await.expect("the store replies");
        gap.filter(|_| alive).map_or(Tried::TooEarly, Tried::Dead)
    }

    async fn try_many(&self, fault: Fault) {
        let (mut gaps, mut early, mut number) = (Vec::new(), 0, 0);
        while gaps.len() < TIMES {
            let count = AT_ONCE.min(TIMES - gaps.len());
            let tried = join_all((0..count).map(|one| self.try_once(fault, number + one))).await;
            number += count;
            for one in tried {
                match one {
                    Tried::Dead(gap) => gaps.push(gap),
                    Tried::TooEarly => early += 1,
                }
            }
            assert!(early <= TIMES, "this machine is too busy");
        }
        gaps.sort();
        println!(
            "{} {fault:?}: {} of {TIMES} dead before the successor began, by {:?} to {:?}, {:?} in \
             the middle; {early} more lost the lock before the fault",
            self.backend,
            gaps.len(),
            gaps[0],
            gaps[gaps.len() - 1],
            gaps[gaps.len() / 2],
        );
    }
}

fn has_ended(child: &mut Child) -> bool {
    child.try_wait().expect("the process is a child").is_some()
}

/// Returns `true` if `distlock` reports the loss.
fn is_reported(fault: Fault, alive: bool, ended: &Output) -> bool {
    match fault {
        Fault::Killed if alive => ended.status.code().is_none(),
        _ => ended.code() == 70 && ended.err.contains("was lost"),
    }
}

async fn dead_if_distlock_is_stopped(store: Store) {
    store.try_many(Fault::Stopped).await;
}

async fn dead_if_distlock_is_killed(store: Store) {
    store.try_many(Fault::Killed).await;
}

async fn dead_if_the_servers_pause(store: Store) {
    store.try_many(Fault::Paused).await;
}

async fn dead_if_the_servers_are_cut_off(store: Store) {
    store.try_many(Fault::CutOff).await;
}

on_each_store!(
    dead_if_distlock_is_stopped,
    dead_if_distlock_is_killed,
    dead_if_the_servers_pause,
    dead_if_the_servers_are_cut_off,
);
