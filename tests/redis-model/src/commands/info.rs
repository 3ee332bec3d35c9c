//! The server's `INFO`.

use super::Args;
use crate::{reply::Reply, state::State};

pub(super) fn info(state: &mut State, _: u64, args: Args<'_>) -> Reply {
    let wanted: Vec<_> = args[1..]
        .iter()
        .map(|section| String::from_utf8_lossy(section).to_ascii_lowercase())
        .collect();
    let everything = wanted.iter().any(|section| section == "all" || section == "everything");
    let mut text = String::new();
    for (name, usual, section) in SECTIONS {
        let is_wanted = wanted.iter().any(|wanted| wanted == name);
        if everything || is_wanted || wanted.is_empty() && *usual {
            text.push_str(&section(state));
            text.push_str("\r\n");
        }
    }
    Reply::text(text)
}

/// Each section, and whether it is part of the default reply.
type Section = (&'static str, bool, fn(&State) -> String);

const SECTIONS: &[Section] = &[
    ("server", true, server),
    ("clients", true, clients),
    ("memory", true, memory),
    ("persistence", true, persistence),
    ("replication", true, replication),
    ("cpu", true, cpu),
    ("commandstats", false, command_stats),
    ("cluster", true, cluster),
];

fn lines(title: &str, fields: &[(&str, String)]) -> String {
    let fields: String = fields.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    format!("# {title}\r\n{fields}")
}

fn server(state: &State) -> String {
    let mode = if state.is_of_cluster() { "cluster" } else { "standalone" };
    let uptime = (state.now - state.started).max(0) / 1_000_000;
    lines(
        "Server",
        &[
            ("redis_version", "8.0.2".into()),
            ("redis_mode", mode.into()),
            ("run_id", state.run_id.clone()),
            ("uptime_in_seconds", uptime.to_string()),
        ],
    )
}

fn clients(state: &State) -> String {
    lines("Clients", &[("connected_clients", state.connections.len().to_string())])
}

fn memory(state: &State) -> String {
    lines(
        "Memory",
        &[
            ("maxmemory", state.setting("maxmemory").into()),
            ("maxmemory_policy", state.setting("maxmemory-policy").into()),
        ],
    )
}

fn persistence(state: &State) -> String {
    let enabled = u8::from(state.setting("appendonly") == "yes");
    lines("Persistence", &[("loading", "0".into()), ("aof_enabled", enabled.to_string())])
}

fn replication(state: &State) -> String {
    lines(
        "Replication",
        &[
            ("role", if state.is_replica { "slave" } else { "master" }.into()),
            ("connected_slaves", "0".into()),
            ("master_replid", state.history.clone()),
            ("master_replid2", state.former_history.clone()),
        ],
    )
}

fn cpu(_: &State) -> String {
    lines("CPU", &[("used_cpu_sys", "0.0".into()), ("used_cpu_user", "0.0".into())])
}

fn command_stats(state: &State) -> String {
    let each = state.calls.iter().map(|(name, calls)| {
        format!("cmdstat_{name}:calls={calls},usec={calls},usec_per_call=1.00\r\n")
    });
    format!("# Commandstats\r\n{}", each.collect::<String>())
}

fn cluster(state: &State) -> String {
    lines("Cluster", &[("cluster_enabled", u8::from(state.is_of_cluster()).to_string())])
}
