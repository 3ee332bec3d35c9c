//! The Redis adapter on a model of the server: the seeds that failed before and the first 800, or
//! new seeds for a number of minutes.

use std::{env, process::Command};

#[test]
fn known_seeds_and_others_pass() {
    let known = concat!(env!("CARGO_MANIFEST_DIR"), "/redis-seeds.txt");
    let mut simulation = Command::new(env!("CARGO_BIN_EXE_simulation"));
    simulation.args(["--contract", "redis", "--known", known]);
    match env::var("DISTLOCK_MINUTES") {
        Ok(minutes) => simulation.args(["--minutes", &minutes]),
        Err(_) => simulation.args(["--seeds", "800"]),
    };
    let output = simulation.output().expect("the simulation runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    print!("{text}");
}
