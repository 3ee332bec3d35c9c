//! The sources of the URL: a command that locks never chooses a store by itself.

use std::{env, fs, path::Path, process::Stdio};

use tempfile::TempDir;
use tokio::process::Command;

use crate::store::{Output, run};

/// Returns `distlock` in the environment of a cron job: a home, a path, and no URL.
fn by_cron(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
    command.args(args).env_clear().env("HOME", home);
    command.env("PATH", env::var_os("PATH").expect("the variable is set")).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn homes() -> [TempDir; 2] {
    [(); 2].map(|()| TempDir::new().expect("a folder"))
}

async fn run_in(home: &TempDir, args: &[&str]) -> Output {
    run(by_cron(home.path(), args)).await
}

/// If each host had a store of its own, every host would run the job.
#[tokio::test]
async fn run_without_a_url_runs_on_no_host() {
    for command in [
        &["run", "nightly-report", "--once-per", "24h", "--", "echo", "it runs"][..],
        &["run", "nightly-report", "--", "echo", "it runs"],
        &["elect", "primary", "10.0.0.1", "--", "echo", "it runs"],
        &["ls"],
    ] {
        for home in homes() {
            let output = run_in(&home, command).await;
            assert_eq!((output.code(), output.out.as_str()), (64, ""), "{output:?}");
            for source in ["--url", "--url-file", "DISTLOCK_URL", "/etc/distlock/url", "--local"] {
                assert!(output.err.contains(source), "{source}: {output:?}");
            }
            let files: Vec<_> = fs::read_dir(home.path()).expect("the folder exists").collect();
            assert!(files.is_empty(), "{files:?}");
        }
    }
}

#[tokio::test]
async fn local_locks_are_those_of_one_user() {
    let [one, other] = homes();
    let args = ["run", "job", "--local", "--once-per", "1h", "--", "echo", "it runs"];
    for (home, out) in [(&one, "it runs\n"), (&one, ""), (&other, "it runs\n")] {
        let output = run_in(home, &args).await;
        assert_eq!((output.code(), output.out.as_str()), (0, out), "{output:?}");
    }
    assert!(one.path().join(".local/state/distlock/locks.db").exists());
}

#[tokio::test]
async fn local_conflicts_with_url() {
    let [home, _] = homes();
    for args in [["--url", "etcd://h", "--local", "ls"], ["--url-file", "/u", "--local", "ls"]] {
        assert_eq!(run_in(&home, &args).await.code(), 64, "{args:?}");
    }
}

/// A cron job's environment has no variables that a shell has exported.
#[test]
fn documented_crontabs_have_a_url() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut folders, mut pages) = (vec![root.join("docs")], vec![root.join("README.md")]);
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("the folder exists") {
            let path = path.expect("the output is read").path();
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    let mut crontabs = 0;
    for page in pages {
        let text = fs::read_to_string(&page).expect("the page is UTF-8");
        for block in text.split("```").skip(1).step_by(2) {
            let fires = |line: &str| line.contains("* * *") && line.contains("distlock run");
            if block.lines().any(fires) || block.contains("kind: CronJob") {
                crontabs += 1;
                let says = block.contains("DISTLOCK_URL") || block.contains("--url");
                assert!(says, "{}: {block}", page.display());
            }
        }
    }
    assert!(crontabs > 0, "none was found");
}
