//! Runs a program with a time limit.

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};

use wait_timeout::ChildExt;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Passed,
    Failed,
    Late,
}

/// Runs it with its children for at most this time; its output goes to a file.
pub(crate) fn run(command: &mut Command, log: &Path, most: Duration) -> End {
    let out = File::create(log).expect("a log can be written");
    let err = out.try_clone().expect("a log can be written twice");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    match child.wait_timeout(most).expect("a child can be waited for") {
        Some(status) if status.success() => End::Passed,
        Some(_) => End::Failed,
        None => {
            let group = format!("-{}", child.id());
            let killed = Command::new("kill").args(["-9", "--", &group]).status();
            assert!(killed.is_ok_and(|status| status.success()), "a child can be killed");
            child.wait().expect("a child that was killed ends");
            End::Late
        }
    }
}

/// Does `work` for each of `items` in parallel jobs; passes it the number of the job.
pub(crate) fn each<T: Sync>(items: &[T], jobs: usize, work: impl Fn(&T, usize) + Sync) {
    let next = Mutex::new(items.iter());
    let take = || next.lock().expect("no thread panics while it is locked").next();
    thread::scope(|scope| {
        for job in 0..jobs {
            let (take, work) = (&take, &work);
            scope.spawn(move || {
                while let Some(item) = take() {
                    work(item, job);
                }
            });
        }
    });
}
