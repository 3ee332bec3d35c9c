//! The adapter of Redis on a model of the server: the seeds that failed once, and a minute of new
//! ones.

use std::{env, process::Command};

#[test]
fn known_seeds_and_a_minute_of_new_ones_pass() {
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/redis-seeds.txt");
    let mut simulation = Command::new(env!("CARGO_BIN_EXE_simulation"));
    simulation.args(["--contract", "redis", "--known", known]);
    simulation.args(["--minutes", &env::var("DISTLOCK_MINUTES").unwrap_or_else(|_| "1".into())]);
    let output = simulation.output().expect("the simulation runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    print!("{text}");
}
