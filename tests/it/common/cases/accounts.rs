//! The example `accounts`, on one of the databases.

use std::path::Path;

use tokio::process::Command;

use crate::common::{SOON, database::Database, within};

/// The number after some words.
fn number(line: &str, after: &str) -> i64 {
    let (_, rest) = line.split_once(after).unwrap_or_else(|| panic!("no {after:?}: {line}"));
    let number = rest.trim().split([' ', ';']).next().expect("a word");
    number.parse().unwrap_or_else(|_| panic!("no number after {after:?}: {line}"))
}

pub(crate) async fn money_is_lost_without_the_check_alone(database: &impl Database) {
    example_loses_money_without_the_check_alone(Some(database.url())).await;
}

/// Two of its workers are stopped with each kind: the check refuses what both write, and without it
/// the transfers are lost that others have made meanwhile.
pub(crate) async fn example_loses_money_without_the_check_alone(url: Option<&str>) {
    // target/debug/deps/sqlite-…
    let own = std::env::current_exe().expect("a path");
    let target = own.parent().and_then(Path::parent).expect("a target directory");
    let example = target.join("examples/accounts");
    assert!(example.exists(), "build it: cargo build --examples, with this test's features");
    let ran = Command::new(example).args(url).kill_on_drop(true).output();
    let ran = within(SOON * 6, "it ends", ran).await.expect("it runs");
    let output = String::from_utf8_lossy(&ran.stdout);
    println!("{output}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success());
    let [fenced, unfenced] = output.lines().collect::<Vec<_>>().try_into().expect("two lines");
    for line in [fenced, unfenced] {
        assert_eq!(number(line, "fenced:"), 24, "as many as were made");
        assert_eq!(number(line, "have"), 2000);
    }
    assert!(number(fenced, "committed,") >= 2, "those that were stopped");
    assert_eq!(number(fenced, "lost"), 0);
    assert_eq!(number(unfenced, "committed,"), 0);
    assert!(number(unfenced, "lost") >= 2, "what others have made meanwhile");
}
