//! A store, and processes of `distlock` that use it.

use std::{
    fs,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use distlock::Client;
use distlock_testkit::{backend::Backend, servers};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader, Lines},
    process::{Child, Command},
    time::{sleep, timeout},
};

/// The longest that any step may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A store with a namespace of its own.
pub(crate) struct Store {
    pub(crate) backend: Backend,
    pub(crate) namespace: String,
    pub(crate) url: String,
}

impl Store {
    /// Panics if the servers do not run: a test that needs them fails, it is never skipped.
    pub(crate) async fn start(backend: Backend) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let url = backend.url();
        servers::endpoints(&url).await;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let namespace = format!("/cli-{}-{number}", std::process::id());
        Self { backend, url: format!("{url}{namespace}"), namespace }
    }

    /// Returns `distlock` with these arguments.
    pub(crate) fn distlock(&self, args: &[&str]) -> Command {
        distlock_at(&self.url, args)
    }

    /// Runs `distlock` to its end.
    pub(crate) async fn run(&self, args: &[&str]) -> Output {
        run(self.distlock(args)).await
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.url).await.expect("the store replies")
    }

    /// Returns the length of the lock's queue.
    pub(crate) async fn queue(&self, client: &Client, name: &str) -> usize {
        client.mutex(name).queue().await.expect("the store replies").len()
    }
}

/// Returns `distlock` with this URL and these arguments. The process is killed on drop.
pub(crate) fn distlock_at(url: &str, args: &[&str]) -> Command {
    // Processes started with `&` or `nohup` ignore some of these signals, and so do their children;
    // the command respects that.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT", env!("CARGO_BIN_EXE_distlock")]);
    command.args(args).env("DISTLOCK_URL", url).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// How a process ended, and its output.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Output {
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Returns the objects of a JSON stream.
    pub(crate) fn objects(text: &str) -> Vec<Value> {
        let object = |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        text.lines().map(object).collect()
    }
}

/// A process that prints JSON objects.
pub(crate) struct Stream {
    child: Child,
    lines: Lines<BufReader<Box<dyn AsyncRead + Unpin>>>,
}

impl Stream {
    /// Starts `distlock`, and reads its standard output.
    pub(crate) fn start(store: &Store, args: &[&str]) -> Self {
        let mut child =
            store.distlock(args).stderr(Stdio::inherit()).spawn().expect("the process starts");
        let output = child.stdout.take().expect("the stream is piped");
        Self::of(child, Box::new(output))
    }

    /// Starts a process, and reads its standard error.
    pub(crate) fn of_messages(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the process starts");
        let messages = child.stderr.take().expect("the stream is piped");
        Self::of(child, Box::new(messages))
    }

    fn of(child: Child, output: Box<dyn AsyncRead + Unpin>) -> Self {
        Self { child, lines: BufReader::new(output).lines() }
    }

    /// Returns the next object, or `None` at the end of the output.
    async fn next(&mut self) -> Option<Value> {
        let line = timeout(LONG, self.lines.next_line()).await;
        let line = line.expect("the process prints a line in time").expect("the output is read")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")))
    }

    /// Returns the next object that meets the condition.
    pub(crate) async fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        loop {
            let object = self.next().await.expect("the output continues");
            if is(&object) {
                return object;
            }
        }
    }

    /// Returns the exit code of the process and the remaining objects.
    pub(crate) async fn rest(mut self) -> (Option<i32>, Vec<Value>) {
        let mut objects = Vec::new();
        while let Some(object) = self.next().await {
            objects.push(object);
        }
        let status = timeout(LONG, self.child.wait()).await.expect("the process ends in time");
        (status.expect("the process is a child").code(), objects)
    }

    /// Ends the process by a signal.
    pub(crate) async fn end(self) {
        signal(&self.child, Signal::TERM);
        assert_eq!(self.rest().await.0, Some(143));
    }
}

pub(crate) async fn run(mut command: Command) -> Output {
    output_of(command.spawn().expect("the process starts")).await
}

pub(crate) async fn output_of(child: Child) -> Output {
    let output = timeout(LONG, child.wait_with_output()).await;
    let output = output.expect("the process ends in time").expect("the process is a child");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Output { status: output.status, out: text(output.stdout), err: text(output.stderr) }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.try_into().expect("a number")));
    kill_process(pid.expect("the command runs"), signal).expect("the process is a child");
}

/// Sends a signal, and waits for the end of the process.
pub(crate) async fn ended_by(child: Child, sent: Signal) -> Output {
    signal(&child, sent);
    output_of(child).await
}

/// Returns when the condition holds.
pub(crate) async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is().await {
        assert!(start.elapsed() < LONG, "never: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Returns when the file exists and is not empty.
pub(crate) async fn until_written(path: &Path) -> String {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until(&format!("{} is written", path.display()), async || !read().is_empty()).await;
    read()
}

/// Defines the tests of a file for each store.
macro_rules! on_each_store {
    ($($name:ident),* $(,)?) => {
        $crate::store::on_each_store! { etcd: Etcd { $($name)* } }
        $crate::store::on_each_store! { zookeeper: ZooKeeper { $($name)* } }
    };
    ($store:ident: $backend:ident { $($name:ident)* }) => {
        mod $store {
            $(
                #[tokio::test]
                async fn $name() {
                    let backend = distlock_testkit::backend::Backend::$backend;
                    super::$name($crate::store::Store::start(backend).await).await;
                }
            )*
        }
    };
}
pub(crate) use on_each_store;
