//! Runs the example `accounts` on a database.

use std::path::Path;

use tokio::process::Command;

use crate::common::{SOON, database::Database, within};

/// Returns the number that follows `after`.
fn number(line: &str, after: &str) -> i64 {
    let (_, rest) = line.split_once(after).unwrap_or_else(|| panic!("no {after:?}: {line}"));
    let number = rest.trim().split([' ', ';']).next().expect("a number");
    number.parse().unwrap_or_else(|_| panic!("no number after {after:?}: {line}"))
}

pub(crate) async fn money_is_lost_only_without_the_check(database: &impl Database) {
    example_loses_money_only_without_the_check(Some(database.url())).await;
}

/// Two workers of the example are paused in each mode. With the check, the database refuses their
/// stale writes. Without it, the transfers that others made during the pause are lost.
pub(crate) async fn example_loses_money_only_without_the_check(url: Option<&str>) {
    // target/debug/deps/sqlite-…
    let own = std::env::current_exe().expect("a path");
    let target = own.parent().and_then(Path::parent).expect("a target directory");
    let example = target.join("examples/accounts");
    assert!(example.exists(), "build it: cargo build --examples, with this test's features");
    let ran = Command::new(example).args(url).kill_on_drop(true).output();
    let ran = within(SOON * 6, "the example ends", ran).await.expect("the example runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    println!("{output}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success());
    let [fenced, unfenced] = output.lines().collect::<Vec<_>>().try_into().expect("two lines");
    for line in [fenced, unfenced] {
        assert_eq!(number(line, "fenced:"), 24, "all accounts are counted");
        assert_eq!(number(line, "have"), 2000);
    }
    assert!(number(fenced, "committed,") >= 2, "the paused workers' writes were refused");
    assert_eq!(number(fenced, "lost"), 0);
    assert_eq!(number(unfenced, "committed,"), 0);
    assert!(number(unfenced, "lost") >= 2, "transfers made during the pause are lost");
}
